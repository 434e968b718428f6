"""Means with bootstrap intervals, and paired comparisons."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import exp, lgamma, log
from typing import Any

import numpy
from numpy.typing import NDArray

from pgig.errors import PgigError

RESAMPLES = 5000
LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean over images and its bootstrap interval (percentiles, 95 %)."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class Comparison:
    """Two methods on the same images."""

    difference: Interval  # of the first minus the second
    wins: float  # share of the images on which the first is ahead; a draw counts half
    p: float  # two-sided sign-flip test of a mean difference of zero
    sign: float  # two-sided sign test: is the first ahead on as many images as the second? Draws are left out


def interval(values: Any, seed: int = 0, resamples: int = RESAMPLES) -> Interval:
    """The mean of one value per image. Resamples are drawn by the seed, the same for every method: pairs stay pairs."""
    array = _checked(values)
    means = _weights(len(array), seed, resamples) @ array
    low, high = numpy.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    mean = float(array.mean())
    return Interval(mean, min(float(low), mean), max(float(high), mean))  # rounding, where all values are the same


def band(curves: Any, seed: int = 0, resamples: int = 2000) -> tuple[NDArray[numpy.float64], ...]:
    """The mean of curves [n, points], and the ends of its interval at every point."""
    array = numpy.asarray(curves, dtype=numpy.float64)
    low, high = numpy.quantile(
        _weights(len(array), seed, resamples) @ array, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0
    )
    return array.mean(0), low, high


def compare(first: Any, second: Any, seed: int = 0, resamples: int = RESAMPLES) -> Comparison:
    """Whether the first is larger than the second, image by image."""
    one, two = _checked(first), _checked(second)
    if one.shape != two.shape:
        raise PgigError(f"a paired comparison of {len(one)} and {len(two)} images: they must be the same")
    difference = one - two
    signs = numpy.random.default_rng([seed, 1]).choice([-1.0, 1.0], (resamples, len(difference)))
    # the identity counts as one of the flips, so that p is never zero
    as_far = numpy.abs(signs @ difference) >= numpy.abs(difference.sum()) * (1 - 1e-12)
    p = (1 + int(as_far.sum())) / (1 + resamples)
    wins = float((difference > 0).mean() + 0.5 * (difference == 0).mean())
    return Comparison(interval(difference, seed, resamples), wins, p, _sign_test(difference))


def _sign_test(difference: NDArray[numpy.float64]) -> float:
    """The share of fair coins that fall at least as far from half."""
    ahead, behind = int((difference > 0).sum()), int((difference < 0).sum())
    n, fewer = ahead + behind, min(ahead, behind)
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


def _weights(n: int, seed: int, resamples: int) -> NDArray[numpy.float64]:  # [resamples, n], rows sum to one
    return numpy.random.default_rng([seed, 0]).multinomial(n, numpy.full(n, 1 / n), resamples) / n


def _checked(values: Any) -> NDArray[numpy.float64]:
    array = numpy.asarray(values, dtype=numpy.float64)
    if array.ndim != 1 or not len(array) or not numpy.isfinite(array).all():
        raise PgigError(f"statistics need one finite value per image, got an array of shape {array.shape}")
    return array
