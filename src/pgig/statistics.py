"""What curves of scores say in one number, means with bootstrap intervals, and paired comparisons."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import erfc, exp, lgamma, log, sqrt
from statistics import NormalDist
from typing import Any

import numpy
from numpy.typing import NDArray

from pgig.errors import PgigError

RESAMPLES = 5000
BAND_RESAMPLES = 2000  # of curves, at every point
LEVEL = 0.95
FLIPS_A_PAIR = 40  # at least: with fewer, a correction for the number of pairs could leave no p-value below 0.05
# images: of more, means are as good as normally distributed, and resampling would only say so again, for hours
MANY = 5000
_WIDE = NormalDist().inv_cdf((1 + LEVEL) / 2)


def auc(curves: Any) -> NDArray[numpy.float64]:  # [..., L + 1] -> [...]
    """The area under the curve: the mean of f_0 .. f_L. Lower is better where the most important goes first.

    curves: scores [..., steps + 1], the intact image's first; of none at all it is NaN, which is no error.

    >>> pgig.degradation.auc([1.0, 0.5, 0.0]).item()
    0.5
    """
    return numpy.asarray(numpy.asarray(curves, dtype=numpy.float64).mean(-1))


def aopc(curves: Any) -> NDArray[numpy.float64]:  # [..., L + 1] -> [...]
    """The area over the curve: the mean of f_0 - f_k. Higher is better.

    curves: scores [..., steps + 1], the intact image's first; of none at all it is NaN, which is no error.

    >>> pgig.degradation.aopc([1.0, 0.5, 0.0]).item()
    0.5
    """
    array = numpy.asarray(curves, dtype=numpy.float64)
    return numpy.asarray((array[..., :1] - array).mean(-1))


def score_at(curves: Any, step: int) -> NDArray[numpy.float64]:  # [..., L + 1] -> [...]
    """The score after `step` patches."""
    return numpy.asarray(numpy.asarray(curves, dtype=numpy.float64)[..., step])


def ranks(values: Any) -> NDArray[numpy.float64]:  # [n] -> [n]
    """1 for the smallest; equal values share their mean rank."""
    _, inverse, counts = numpy.unique(
        numpy.asarray(values, dtype=numpy.float64), return_inverse=True, return_counts=True
    )
    ends = numpy.cumsum(counts)
    return numpy.asarray((ends - (counts - 1) / 2)[inverse.reshape(-1)], dtype=numpy.float64)


@dataclass(frozen=True)
class Interval:
    """A mean over images and its interval of 95 %: percentiles of the bootstrap, of many images by normal theory."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{shown(self.mean)} [{shown(self.low)}, {shown(self.high)}]"


def shown(value: float) -> str:
    """Three decimals, and more where that would be nothing."""
    return f"{value:.3f}" if value == 0 or abs(value) >= 0.01 else f"{value:.2g}"


@dataclass(frozen=True)
class Comparison:
    """Two methods on the same images."""

    difference: Interval  # of the first minus the second
    wins: float  # share of the images on which the first is ahead; a draw counts half
    p: float  # two-sided sign-flip test of a mean difference of zero
    sign: float  # two-sided sign test: is the first ahead on as many images as the second? Draws are left out


def interval(values: Any, seed: int = 0, resamples: int = RESAMPLES) -> Interval:
    """The mean of one value per image. Resamples are drawn by the seed, the same for every method: pairs stay pairs."""
    return intervals(_checked(values)[:, None], seed, resamples)[0]


def intervals(values: NDArray[numpy.float64], seed: int = 0, resamples: int = RESAMPLES) -> list[Interval]:
    """The same of every column of values [n, columns]: all share the resamples, which are drawn only once."""
    low, high = _quantiles(values, seed, resamples)
    # rounding, where all values are the same, must not put the mean outside
    return [Interval(float(m), min(float(a), float(m)), max(float(b), float(m)))
            for m, a, b in zip(values.mean(0), low, high, strict=True)]  # fmt: skip


def band(curves: Any, seed: int = 0, resamples: int = BAND_RESAMPLES) -> tuple[NDArray[numpy.float64], ...]:
    """The mean of curves [n, points], and the ends of its interval at every point."""
    array = numpy.asarray(curves, dtype=numpy.float64)
    return array.mean(0), *_quantiles(array, seed, resamples)


def compare(first: Any, second: Any, seed: int = 0, resamples: int = RESAMPLES) -> Comparison:
    """Whether the first is larger than the second, image by image."""
    one, two = _checked(first), _checked(second)
    if one.shape != two.shape:
        raise PgigError(f"a paired comparison of {len(one)} and {len(two)} images: they must be the same")
    return comparisons((one - two)[:, None], seed, resamples)[0]


def comparisons(differences: NDArray[numpy.float64], seed: int = 0, resamples: int = RESAMPLES) -> list[Comparison]:
    """The comparisons behind every column of differences [n, columns]."""
    flips = max(resamples, FLIPS_A_PAIR * differences.shape[1])
    p = _by_flips(differences, seed, flips) if len(differences) <= MANY else _by_normal_theory(differences)
    wins = (differences > 0).mean(0) + 0.5 * (differences == 0).mean(0)
    found = zip(intervals(differences, seed, resamples), wins, p, differences.T, strict=True)
    return [Comparison(between, float(w), float(q), _sign_test(column)) for between, w, q, column in found]


def _by_flips(differences: NDArray[numpy.float64], seed: int, resamples: int) -> NDArray[numpy.float64]:
    total = differences.sum(0)
    as_far = numpy.zeros(len(total))
    rng = numpy.random.default_rng([seed, 1])
    for rows in _blocks(len(differences), resamples):
        signs = rng.choice([-1.0, 1.0], (rows, len(differences)))
        as_far += (numpy.abs(signs @ differences) >= numpy.abs(total) * (1 - 1e-12)).sum(0)
    # the identity counts as one of the flips, so that p is never zero
    return numpy.asarray((1 + as_far) / (1 + resamples))


def _by_normal_theory(differences: NDArray[numpy.float64]) -> NDArray[numpy.float64]:
    """What sign flips come to with many images: their mean square is that of the differences."""
    size = numpy.sqrt((differences**2).sum(0))
    z = numpy.abs(differences.sum(0)) / numpy.where(size > 0, size, 1.0)
    return numpy.array([erfc(value / sqrt(2)) for value in z])


def _sign_test(difference: NDArray[numpy.float64]) -> float:
    """The share of fair coins that fall at least as far from half."""
    ahead, behind = int((difference > 0).sum()), int((difference < 0).sum())
    n, fewer = ahead + behind, min(ahead, behind)
    if n > MANY:  # with half a coin for the steps
        return min(1.0, erfc(max(0.0, n / 2 - fewer - 0.5) / sqrt(n / 4) / sqrt(2)))
    logs = [lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) - n * log(2) for k in range(fewer + 1)]
    return min(1.0, 2 * sum(exp(value) for value in logs))


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """p-values of a family of comparisons, corrected for their number (Holm 1979)."""
    largest, corrected = 0.0, {}
    for rank, name in enumerate(sorted(p, key=lambda name: p[name])):
        largest = max(largest, min(1.0, (len(p) - rank) * p[name]))
        corrected[name] = largest
    return {name: corrected[name] for name in p}


def corrected(pairs: Mapping[str, Comparison]) -> dict[str, Comparison]:
    """The same comparisons with p-values corrected for their number."""
    p, sign = holm({n: pair.p for n, pair in pairs.items()}), holm({n: pair.sign for n, pair in pairs.items()})
    return {name: replace(pair, p=p[name], sign=sign[name]) for name, pair in pairs.items()}


def _quantiles(values: NDArray[numpy.float64], seed: int, resamples: int) -> tuple[NDArray[numpy.float64], ...]:
    """The ends of the intervals of the columns' means."""
    if len(values) > MANY:
        return normal_band(values.mean(0), values.std(0), len(values))
    means = resampled_means(values, seed, resamples)
    low, high = numpy.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return low, high


def normal_band(mean: Any, deviation: Any, n: int) -> tuple[NDArray[numpy.float64], ...]:
    """The ends of intervals of means of n images, by normal theory."""
    half = _WIDE * numpy.asarray(deviation) / sqrt(n)
    return numpy.asarray(mean) - half, numpy.asarray(mean) + half


def resampled_means(
    values: NDArray[numpy.float64], seed: int = 0, resamples: int = RESAMPLES
) -> NDArray[numpy.float64]:
    """The columns' means [resamples, columns] of images drawn with replacement; of many, drawn by normal theory."""
    n = len(values)
    rng = numpy.random.default_rng([seed, 0])
    if n > MANY:
        return numpy.asarray(values.mean(0) + _normal(values, rng, resamples) / sqrt(n))
    means = [rng.multinomial(n, numpy.full(n, 1 / n), rows) / n @ values for rows in _blocks(n, resamples)]
    return numpy.concatenate(means)


def _normal(values: NDArray[numpy.float64], rng: numpy.random.Generator, rows: int) -> NDArray[numpy.float64]:
    """Normal draws with the covariance of the columns, which need not be independent."""
    spread, axes = numpy.linalg.eigh(numpy.atleast_2d(numpy.cov(values, rowvar=False)))
    return numpy.asarray(rng.standard_normal((rows, len(spread))) * numpy.sqrt(numpy.maximum(spread, 0)) @ axes.T)


def _blocks(n: int, resamples: int) -> list[int]:
    """How many resamples of n images to hold at a time: memory does not grow with either."""
    most = max(1, 2**22 // n)
    return [min(most, resamples - first) for first in range(0, resamples, most)]


def _checked(values: Any) -> NDArray[numpy.float64]:
    array = numpy.asarray(values, dtype=numpy.float64)
    if array.ndim != 1 or not len(array) or not numpy.isfinite(array).all():
        raise PgigError(f"statistics need one finite value per image, got an array of shape {array.shape}")
    return array
