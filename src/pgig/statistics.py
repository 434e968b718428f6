"""Means with bootstrap intervals, and paired comparisons."""

from collections.abc import Mapping
from dataclasses import dataclass
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
    p: float  # two-sided sign-flip test of a difference of zero


def interval(values: Any, seed: int = 0, resamples: int = RESAMPLES) -> Interval:
    """The mean of one value per image. Resamples are drawn by the seed, the same for every method: pairs stay pairs."""
    array = _checked(values)
    means = _weights(len(array), seed, resamples) @ array
    low, high = numpy.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(array.mean()), float(low), float(high))


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
    return Comparison(interval(difference, seed, resamples), wins, p)


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """p-values of a family of comparisons, corrected for their number (Holm 1979)."""
    largest, corrected = 0.0, {}
    for rank, name in enumerate(sorted(p, key=lambda name: p[name])):
        largest = max(largest, min(1.0, (len(p) - rank) * p[name]))
        corrected[name] = largest
    return {name: corrected[name] for name in p}


def _weights(n: int, seed: int, resamples: int) -> NDArray[numpy.float64]:  # [resamples, n], rows sum to one
    return numpy.random.default_rng([seed, 0]).multinomial(n, numpy.full(n, 1 / n), resamples) / n


def _checked(values: Any) -> NDArray[numpy.float64]:
    array = numpy.asarray(values, dtype=numpy.float64)
    if array.ndim != 1 or not len(array) or not numpy.isfinite(array).all():
        raise PgigError(f"statistics need one finite value per image, got an array of shape {array.shape}")
    return array
