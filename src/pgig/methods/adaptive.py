"""A path whose places are found on the way: intervals are halved where the function bends most."""

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy
from numpy.typing import NDArray

from pgig.draws import Draws
from pgig.errors import PgigError
from pgig.methods.points import Example, Points, Slice

By = Literal["residual", "bends"]
_ONE = 2**10  # alphas are whole numbers of 1024ths
_MOST = 129  # places; each is kept until its share is known
_DIGITS = 2  # of the tolerance: decisions go by numbers rounded so far, which company does not change


@dataclass(frozen=True)
class AdaptiveLine(Points):
    """The straight line from the baseline to x, by Simpson's rule on intervals that are halved until it is exact.

    by "residual": until the sum over the path is within `tolerance` of the change of the score, in parts of it; the
    forward passes tell the change over every interval. by "bends": until the score at the middle of the intervals is
    as near to the mean of their ends; for rules whose gradients do not sum up to the change.
    """

    tolerance: float = 0.01
    by: By = "residual"

    is_path = True

    def __post_init__(self) -> None:
        try:
            value = float(self.tolerance)
        except (TypeError, ValueError):
            value = math.nan
        if not 1e-4 <= value < 1:  # below, rounding in float32 would decide
            raise PgigError(f"tolerance must be a number of at least 0.0001 and below 1, got {self.tolerance!r}")
        object.__setattr__(self, "tolerance", value)

    @property
    def count(self) -> int:
        """About as many as it takes; how many, only the function tells."""
        return 9

    def take(self, one: Example, draw: Draws, start: int, stop: int) -> Slice:
        raise AssertionError("places of an adaptive path are asked for one after the other: see Refinement")


@dataclass
class Refinement:
    """The intervals of one input's path so far."""

    points: AdaptiveLine
    scores: dict[int, float] = field(default_factory=dict)
    slopes: dict[int, float] = field(default_factory=dict)  # of the score along the path, as gradients tell it
    leaves: list[tuple[int, int]] = field(default_factory=lambda: [(0, _ONE)])
    reached: bool = False  # the tolerance, at the end

    def wanted(self) -> list[int]:
        """Places that must be looked at before anything can be decided."""
        return sorted({place for leaf in self.leaves for place in _places(leaf)} - self.scores.keys())

    def add(self, place: int, score: float, slope: float) -> None:
        self.scores[place], self.slopes[place] = score, slope

    def refine(self) -> bool:
        """Halve the worst interval; False where none needs it."""
        change = self._change()
        digits = _DIGITS - round(math.log10(self.points.tolerance))
        off = [round(self._off(leaf) / change, digits) if change > 0 else 0.0 for leaf in self.leaves]
        parts, tolerance = sum(map(abs, off)), self.points.tolerance
        if self.points.by == "bends":  # five times: about as exact as residuals of the tolerance are
            done = parts <= 5 * tolerance
        else:  # a sum can be small by accident: the parts must not be much larger
            done = abs(sum(off)) <= tolerance and parts <= 3 * tolerance
        halved = [n for n, (a, b) in enumerate(self.leaves) if b - a > 2]
        if done or not halved or len(self.scores) >= _MOST:
            self.reached = done
            return False
        worst = max(halved, key=lambda n: abs(off[n]))
        start, end = self.leaves.pop(worst)
        self.leaves += [(start, (start + end) // 2), ((start + end) // 2, end)]
        return True

    def _change(self) -> float:
        """What residuals are parts of: the change of the score, or its range on the way where it comes back."""
        values = self.scores.values()
        return max(abs(self.scores[_ONE] - self.scores[0]), 0.1 * (max(values) - min(values)))

    def _off(self, leaf: tuple[int, int]) -> float:
        start, middle, end = _places(leaf)
        if self.points.by == "bends":
            return self.scores[middle] - (self.scores[start] + self.scores[end]) / 2
        share = (end - start) / _ONE / 6
        integral = share * (self.slopes[start] + 4 * self.slopes[middle] + self.slopes[end])
        return integral - (self.scores[end] - self.scores[start])

    def weights(self) -> tuple[list[int], NDArray[numpy.float64]]:
        """The places, in order, and their shares by Simpson's rule; those sum to 1."""
        found = dict.fromkeys(sorted(self.scores), 0.0)
        for leaf in self.leaves:
            share = (leaf[1] - leaf[0]) / _ONE / 6
            for place, times in zip(_places(leaf), (1, 4, 1), strict=True):
                found[place] += times * share
        return list(found), numpy.array(list(found.values()))


def alpha_of(place: int) -> float:
    return place / _ONE


def _places(leaf: tuple[int, int]) -> tuple[int, int, int]:
    return leaf[0], (leaf[0] + leaf[1]) // 2, leaf[1]
