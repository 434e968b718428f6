"""How far a change reaches: along one axis, from places of an operation's input to places of its output, and back.

An interval is lo <= place < hi; arrays of intervals are treated at once. An interval that reaches nothing (a stride can
step over it) becomes one place: to compute one too many does no harm.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy
from numpy.typing import NDArray

Places = NDArray[numpy.int64]


class Reach(Protocol):
    """One axis of an operation."""

    @property
    def size(self) -> int:
        """Of the output."""
        ...

    @property
    def is_local(self) -> bool:
        """Does every place depend on itself only?"""
        ...

    def after(self, lo: Places, hi: Places) -> tuple[Places, Places]:
        """The places of the output that a change in [lo, hi) of the input can reach."""
        ...

    def needed(self, start: Places, width: int) -> tuple[Places, int]:
        """Where the input begins, and how wide it is, that outputs [start, start + width) are computed from."""
        ...

    @property
    def margins(self) -> tuple[int, int]:
        """How far that goes beyond the input, before and behind."""
        ...


@dataclass(frozen=True)
class Same:
    """Every place depends on itself only."""

    size: int
    margins: tuple[int, int] = (0, 0)
    is_local: bool = True

    def after(self, lo: Places, hi: Places) -> tuple[Places, Places]:
        return lo, hi

    def needed(self, start: Places, width: int) -> tuple[Places, int]:
        return start, width


@dataclass(frozen=True)
class Stencil:
    """A kernel that slides: convolution and pooling."""

    size_before: int
    size: int
    kernel: int
    stride: int = 1
    padding: int = 0  # before; behind, as much as the outputs need
    dilation: int = 1

    @property
    def is_local(self) -> bool:
        return (self.kernel, self.stride, self.padding) == (1, 1, 0) and self.size == self.size_before

    def after(self, lo: Places, hi: Places) -> tuple[Places, Places]:
        span = self.dilation * (self.kernel - 1)
        first = -((span - self.padding - lo) // self.stride)  # rounded up
        last = (hi - 1 + self.padding) // self.stride
        return _within(first, last + 1, self.size)

    def needed(self, start: Places, width: int) -> tuple[Places, int]:
        return start * self.stride - self.padding, (width - 1) * self.stride + self.dilation * (self.kernel - 1) + 1

    @property
    def margins(self) -> tuple[int, int]:
        start, width = self.needed(numpy.zeros(1, numpy.int64), self.size)
        return max(0, self.padding), max(0, int(start[0]) + width - self.size_before)


class Ranges:
    """Every place depends on a range of its own: whatever is linear along an axis, such as interpolation."""

    margins = 0, 0
    is_local = False

    def __init__(self, matrix: NDArray[numpy.float64]) -> None:  # [places of the output, of the input]
        self.size, self.size_before = matrix.shape
        used = matrix != 0
        places = numpy.arange(self.size_before)
        # of a place that depends on nothing, the range is empty but lies between its neighbours'
        self._first = numpy.where(used, places, self.size_before).min(1)
        self._last = numpy.where(used, places, -1).max(1)
        self._first = numpy.minimum.accumulate(self._first[::-1])[::-1]
        self._last = numpy.maximum.accumulate(self._last)

    def after(self, lo: Places, hi: Places) -> tuple[Places, Places]:
        first = numpy.searchsorted(self._last, lo, "left")
        behind = numpy.searchsorted(self._first, hi, "left")
        return _within(first, behind, self.size)

    def needed(self, start: Places, width: int) -> tuple[Places, int]:
        ends = numpy.maximum(self._last[width - 1 :] + 1, self._first[: self.size - width + 1] + 1)
        widest = int((ends - self._first[: self.size - width + 1]).max())
        widest = min(max(widest, 1), self.size_before)
        return numpy.minimum(self._first[start], self.size_before - widest), widest


def _within(lo: Places, hi: Places, size: int) -> tuple[Places, Places]:
    """Cut to what there is; at least one place."""
    lo = numpy.clip(lo, 0, size - 1)
    return lo, numpy.clip(hi, lo + 1, size)
