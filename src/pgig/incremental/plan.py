"""A model as a list of operations on windows, what is kept between steps, and a rest that is computed whole."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor, fx

from pgig.errors import PgigError
from pgig.incremental.arrangement import Step, arrange, last_uses, reached
from pgig.incremental.caches import Cache, Scratch
from pgig.incremental.reach import Places
from pgig.incremental.windows import Operation, Windows

WHOLE = 0.8  # of a map: a window larger than this is made the whole map
_WHOLE_AT_ONCE = 8  # rows whose layers are computed whole
# Windows that are computed at once must have one size, that of the largest: the more of them, the more is computed in
# vain; the fewer, the more calls. About so many multiply-adds are worth a call, so many windows never too few or many.
_WORK, _FEWEST, _MOST = 10**10, 6, 24

Boxes = NDArray[numpy.int64]  # [e, 2 axes, (lo, hi)]


@dataclass
class Plan:
    """A model as steps that compute windows of their maps anew, in place of the whole: see `plan_of`.

    outputs, rest: the maps that the steps give, and the part of the model behind them, which is computed whole.
    rest_work: multiply-adds of that part; work: those on windows so far. rows: pairs that it is prepared for. reasons:
    why what is whole is. Whoever begins with images of another size than the plan's raises PgigError.

    >>> plan = pgig.incremental.plan_of(pgig.synthetic.embedded("plain"), torch.rand(1, 3, 64, 64))
    >>> plan.reasons, plan.bytes_per_row < 1_000_000
    ((), True)
    """

    steps: list[Step]
    outputs: tuple[int, ...]  # the steps whose maps the rest is computed from
    rest: fx.GraphModule  # of those maps: what the model returns
    rest_work: int  # multiply-adds of it, for one row
    reasons: tuple[str, ...]  # why the rest is computed whole, where that is not only the end of the model

    rows: int = 0
    work: int = 0  # multiply-adds on windows so far
    _scratches: list[Scratch] = field(default_factory=list, init=False)
    _known: list[dict[tuple[int, int], NDArray[numpy.int64]]] = field(default_factory=lambda: [{}, {}], init=False)

    def __post_init__(self) -> None:
        arrange(self.steps, self.outputs)
        self._last_use = last_uses(self.steps)
        self._scratches = [Scratch() for _ in range(max((len(step.inputs) for step in self.steps), default=0))]

    @property
    def bytes_per_row(self) -> int:
        """What is kept for an image and a method."""
        return sum(cache.bytes_per_row for cache in self._caches)

    def working_bytes(self, rows: int) -> int:
        """Beside what is kept: windows of one step in work, and maps that wait for the rest of the model."""
        largest = max(step.channels * step.size[0] * step.size[1] * step.dtype.itemsize for step in self.steps)
        return 8 * largest + 2 * rows * sum(self.steps[number].any_cache.bytes_per_row for number in self.outputs)

    @cached_property
    def dense_work(self) -> int:
        """Multiply-adds of whole maps, without the rest."""
        return sum(
            step.operation.work * step.size[0] * step.size[1] for step in self.steps if step.operation is not None
        )

    def allocate(self, rows: int, device: torch.device) -> None:
        """Have memory for at least so many rows."""
        if rows > self.rows:
            for cache in self._caches:
                cache.free()
            for cache in self._caches:
                cache.allocate(rows, device)
            self.rows = rows

    def begin(self, x: Tensor, copies: Sequence[int]) -> None:  # [n, channels, height, width]
        """Keep the maps of images, in as many rows one after another as `copies` says of each."""
        if tuple(x.shape[2:]) != tuple(self.steps[0].size):
            raise PgigError(f"images of {tuple(x.shape[2:])} pixels, but this plan is for {tuple(self.steps[0].size)}")
        # also what lies beyond the reach of every pixel, such as a border of padding
        everywhere = [Windows((numpy.zeros(1, int), numpy.zeros(1, int)), step.size) for step in self.steps]
        first = 0
        for image, rows in zip(x, copies, strict=True):
            row = numpy.array([first])
            self.replace(row, everywhere[0], image[None])
            self._carry(row, everywhere)
            for cache in self._caches:
                cache.repeat(first, slice(first + 1, first + rows))
            first += rows

    def replace(self, rows: Places, windows: Windows, values: Tensor) -> None:
        """Write new pixels; `update` carries them on."""
        for cache in self.steps[0].caches.values():
            cache.write(rows, windows, values)

    def update(self, rows: Places, boxes: Boxes) -> list[Windows]:
        """Compute anew all that boxes of changed pixels reach, and say where that was. A row may have several."""
        found = self.windows(boxes)
        self._carry(rows, found)
        return found

    def restore(self, rows: Places, windows: list[Windows], source: int) -> None:
        """Let windows be again as they are in another row."""
        sources = numpy.full_like(rows, source)
        for step, found in zip(self.steps, windows, strict=True):
            for cache in step.caches.values():
                cache.write(rows, found, cache.read(sources, found, self._scratches[0]))

    def _carry(self, rows: Places, found: list[Windows]) -> None:
        """Compute windows anew, step by step."""
        values: dict[int, Tensor] = {}
        for number, step in enumerate(self.steps):
            if step.operation is not None:
                values[number] = self._computed(step, step.operation, rows, found[number], values)
                for cache in step.caches.values():
                    cache.write(rows, found[number], values[number])
            elif self._last_use[number] != [number]:  # the image itself, where something is computed from it at once
                values[number] = step.any_cache.read(rows, found[number], Scratch())
            for other in self._last_use[number]:
                values.pop(other, None)

    def result(self, rows: slice) -> Tensor:
        """What the model says of rows as they are now."""
        return self.finish(self.maps(rows))

    def finish(self, maps: Sequence[Tensor]) -> Tensor:
        """What the model says, from the maps that the rest of it is computed from."""
        at_once = _WHOLE_AT_ONCE if self.reasons else len(maps[0])  # layers of whole maps take memory
        parts = [self.rest(*parts) for parts in zip(*(torch.split(each, at_once) for each in maps), strict=True)]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def maps(self, rows: slice) -> list[Tensor]:
        """What the rest is computed from."""
        return [self.steps[number].any_cache.whole(rows) for number in self.outputs]

    def estimated_work(self, boxes: Boxes) -> NDArray[numpy.int64]:
        """Multiply-adds that each box needs by itself."""
        spans = [self._spans(axis, boxes[:, axis]) for axis in (0, 1)]
        widths = [span[:, :, 1] - span[:, :, 0] for span in spans]
        each = numpy.array([0 if step.operation is None else step.operation.work for step in self.steps])
        return numpy.asarray((widths[0] * widths[1] * each).sum(1))

    def alike(self, boxes: Boxes) -> list[NDArray[numpy.int64]]:
        """Boxes by number, some at a time, so that those whose windows have similar sizes go together.

        Near the border of the image windows are small; at once, all are as large as the largest.
        """
        each = max(1.0, float(self.estimated_work(boxes).mean()))
        together = min(_MOST, max(_FEWEST, _WORK / each))
        parts = max(1, round((len(boxes) / together) ** 0.5))
        down, across = (self._extent(axis, boxes[:, axis]) for axis in (0, 1))
        found = []
        for some in numpy.array_split(numpy.argsort(down, kind="stable"), parts):
            found += numpy.array_split(some[numpy.argsort(across[some], kind="stable")], parts)
        return [some for some in found if len(some)]

    def _extent(self, axis: int, intervals: NDArray[numpy.int64]) -> NDArray[numpy.float64]:
        """How wide windows are along an axis, the more counted the more work there is."""
        spans = self._spans(axis, intervals)
        each = numpy.array([0 if step.operation is None else step.operation.work for step in self.steps])
        return numpy.asarray((spans[:, :, 1] - spans[:, :, 0]) @ numpy.sqrt(each))

    def _computed(
        self, step: Step, operation: Operation, rows: Places, windows: Windows, values: dict[int, Tensor]
    ) -> Tensor:
        (down, height), (across, width) = (
            operation.axes[axis].needed(windows.starts[axis], windows.size[axis]) for axis in (0, 1)
        )
        needed = Windows((down, across), (height, width))
        given = [
            values[number] if fresh else self._read(number, rows, needed, operation.margin, scratch)
            for number, fresh, scratch in zip(step.inputs, step.fresh, self._scratches, strict=False)
        ]
        self.work += operation.work * len(rows) * windows.size[0] * windows.size[1]
        return operation.compute(given, windows, needed)

    def _read(self, number: int, rows: Places, windows: Windows, margin: float, scratch: Scratch) -> Tensor:
        return self.steps[number].caches[margin].read(rows, windows, scratch)

    def windows(self, boxes: Boxes) -> list[Windows]:
        """For every step a window that holds what changed, of one size for all boxes."""
        spans = [self._spans(axis, boxes[:, axis]) for axis in (0, 1)]
        widths = [(span[:, :, 1] - span[:, :, 0]).max(0) for span in spans]
        found = []
        for number, step in enumerate(self.steps):
            size = int(widths[0][number]), int(widths[1][number])
            if size[0] * size[1] >= WHOLE * step.size[0] * step.size[1]:
                size = step.size
            down, across = (
                numpy.minimum(span[:, number, 0], whole - wide)
                for span, whole, wide in zip(spans, step.size, size, strict=True)
            )
            found.append(Windows((down, across), size))
        return found

    def _spans(self, axis: int, intervals: NDArray[numpy.int64]) -> NDArray[numpy.int64]:  # [e, 2] -> [e, steps, 2]
        known = self._known[axis]
        keys = [(lo, hi) for lo, hi in intervals.tolist()]
        if missing := [key for key in dict.fromkeys(keys) if key not in known]:
            spans = reached(self.steps, axis, numpy.array(missing, dtype=numpy.int64))
            for number, key in enumerate(missing):
                known[key] = spans[number]
        return numpy.stack([known[key] for key in keys])

    @property
    def _caches(self) -> list[Cache]:
        return [cache for step in self.steps for cache in step.caches.values()]
