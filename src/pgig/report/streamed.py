"""Curves of many images, part by part: whole where they fit, and their means and spreads where they do not."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy
from numpy.typing import NDArray

from pgig.errors import PgigError
from pgig.statistics import MANY, band, normal_band

Numbers = NDArray[numpy.float64]


@dataclass(frozen=True)
class Band:
    """A mean curve with its interval of 95 % at every point."""

    mean: Numbers
    low: Numbers
    high: Numbers


@dataclass
class Streamed:
    methods: tuple[str, ...]
    count: int = 0
    _kept: list[Numbers] = field(default_factory=list)  # [n, methods, points] each, until there are too many
    _sum: Numbers | float = 0.0
    _squares: Numbers | float = 0.0

    def add(self, curves: Numbers) -> None:
        self.count += len(curves)
        self._sum = self._sum + curves.sum(0)
        self._squares = self._squares + (curves**2).sum(0)
        self._kept.append(curves)
        if self.count > MANY:
            self._kept.clear()

    def whole(self) -> dict[str, Numbers]:
        """method -> [n, points]"""
        if not self._kept:
            raise PgigError(f"the curves of {self.count} images are too many to hold")
        together = numpy.concatenate(self._kept)
        return {method: together[:, number] for number, method in enumerate(self.methods)}

    @cached_property
    def bands(self) -> dict[str, Band]:
        if self.count <= MANY:
            return {method: Band(*band(curves)) for method, curves in self.whole().items()}
        mean = numpy.asarray(self._sum / self.count)
        spread = numpy.sqrt(numpy.maximum(self._squares / self.count - mean**2, 0))
        low, high = normal_band(mean, spread, self.count)
        return {method: Band(mean[n], low[n], high[n]) for n, method in enumerate(self.methods)}
