"""A model as a list of operations on windows, what is kept between steps, and a rest that is computed whole."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor, fx

from pgig.incremental.caches import Cache, Scratch
from pgig.incremental.reach import Places
from pgig.incremental.windows import Convolution, Operation, Pair, Pointwise, Windows

WHOLE = 0.8  # of a map: a window larger than this is made the whole map
_WHOLE_AT_ONCE = 8  # rows whose layers are computed whole
# Windows that are computed at once must have one size, that of the largest: the more of them, the more is computed in
# vain; the fewer, the more calls. About so many multiply-adds are worth a call, so many windows never too few or many.
_WORK, _FEWEST, _MOST = 10**10, 6, 24
_PROVABLE = 512  # pixels: beyond, there are too many windows to look at all

Boxes = NDArray[numpy.int64]  # [e, 2 axes, (lo, hi)]


@dataclass
class Step:
    """One operation: its inputs by number, and which of those it takes as they were just computed."""

    operation: Operation | None  # None: the image itself
    inputs: tuple[int, ...]
    channels: int
    size: Pair
    dtype: torch.dtype
    fresh: tuple[bool, ...] = ()
    follows: int | None = None  # the step whose window it takes, where that is larger than its own
    caches: dict[float, Cache] = field(default_factory=dict)  # by what stands in their margins

    @property
    def is_local(self) -> bool:
        """Does every place depend on itself only?"""
        return self.operation is not None and all(axis.is_local for axis in self.operation.axes)

    @property
    def any_cache(self) -> Cache:
        """They differ in their margins only."""
        return next(iter(self.caches.values()))


@dataclass
class Plan:
    steps: list[Step]
    outputs: tuple[int, ...]  # the steps whose maps the rest is computed from
    rest: fx.GraphModule  # of those maps: what the model returns
    rest_work: int  # multiply-adds of it, for one row
    reasons: tuple[str, ...]  # why the rest is computed whole, where that is not only the end of the model

    rows: int = 0
    work: int = 0  # multiply-adds on windows so far
    _scratches: list[Scratch] = field(default_factory=list)
    _known: list[dict[tuple[int, int], NDArray[numpy.int64]]] = field(default_factory=lambda: [{}, {}])

    def __post_init__(self) -> None:
        self._decide_what_is_fresh()
        self._decide_what_follows()
        for step in self.steps:
            if step.operation is None:
                continue
            for number, fresh in zip(step.inputs, step.fresh, strict=True):
                if not fresh:
                    self._cache(number, step.operation)
        for number in self.outputs:
            self._cache(number, None)
        self._cache(0, None)
        self._decide_what_is_overwritten()
        self._last_use = self._uses()
        self._scratches = [Scratch() for _ in range(max((len(step.inputs) for step in self.steps), default=0))]

    @property
    def bytes_per_row(self) -> int:
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
        found = self._windows(boxes)
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

    def _windows(self, boxes: Boxes) -> list[Windows]:
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
            reached = self._reached(axis, numpy.array(missing, dtype=numpy.int64))
            for number, key in enumerate(missing):
                known[key] = reached[number]
        return numpy.stack([known[key] for key in keys])

    def _reached(self, axis: int, intervals: NDArray[numpy.int64]) -> NDArray[numpy.int64]:  # likewise
        found: list[tuple[Places, Places]] = []
        for step in self.steps:
            if step.operation is None:
                found.append((intervals[:, 0], intervals[:, 1]))
                continue
            lo = numpy.min([found[number][0] for number in step.inputs], axis=0)
            hi = numpy.max([found[number][1] for number in step.inputs], axis=0)
            found.append(step.operation.axes[axis].after(lo, hi))
        for number, step in reversed(list(enumerate(self.steps))):
            if step.follows is not None:
                found[number] = found[step.follows]
        return numpy.stack([numpy.stack(pair, 1) for pair in found], 1)

    def _decide_what_is_fresh(self) -> None:
        """Where an operation is local and its window is always the input's, it takes what was just computed."""
        tables = [self._all_windows(axis) for axis in (0, 1)]
        for number, step in enumerate(self.steps):
            step.fresh = tuple(
                step.is_local and (len(step.inputs) == 1 or _always_same(tables, number, other))
                for other in step.inputs
            )

    def _decide_what_follows(self) -> None:
        """Before branches are joined, a short one is computed in the window of the longest, and need not be kept.

        That is where it begins with a convolution of one pixel, from maps that are kept for another branch.
        """
        users: list[list[int]] = [[] for _ in self.steps]
        for number, step in enumerate(self.steps):
            for other in step.inputs:
                users[other].append(number)
        for number in self.outputs:
            users[number].append(-1)
        for number, step in enumerate(self.steps):
            for place, other in enumerate(step.inputs if step.is_local and len(step.inputs) > 1 else ()):
                if step.fresh[place] or (branch := self._branch(other, users)) is None:
                    continue
                step.fresh = tuple(fresh or at == place for at, fresh in enumerate(step.fresh))
                for one, next_ in zip(branch, [number, *branch], strict=False):
                    self.steps[one].follows = next_
                self.steps[branch[-1]].fresh = (False,)

    def _branch(self, last: int, users: list[list[int]]) -> list[int] | None:
        """The steps of a branch from its last back to its first, if it can be computed in another window."""
        branch = [last]
        while users[branch[-1]] == users[branch[-1]][:1]:
            step = self.steps[branch[-1]]
            if not step.is_local or len(step.inputs) != 1:
                return None
            source = step.inputs[0]
            if isinstance(step.operation, Convolution):
                kept = (self.steps[user] for user in users[source] if user not in (branch[-1], -1))
                shared = any(
                    user.operation is not None
                    and user.operation.margin == 0
                    and not user.fresh[user.inputs.index(source)]
                    for user in kept
                )
                return branch if shared else None
            branch.append(source)
        return None

    def _decide_what_is_overwritten(self) -> None:
        """What nothing else takes as it was just computed may be overwritten."""
        takers = [0] * len(self.steps)
        for step in self.steps:
            for other, fresh in zip(step.inputs, step.fresh, strict=True):
                takers[other] += fresh
        for step in self.steps:
            operation = step.operation
            if isinstance(operation, Pointwise) and operation.overwriting is not None:
                alone = len(step.inputs) == 1 and takers[step.inputs[0]] == 1
                if alone and self.steps[step.inputs[0]].operation is not None:
                    step.operation = replace(operation, function=operation.overwriting)

    def _all_windows(self, axis: int) -> NDArray[numpy.int64] | None:
        size = self.steps[0].size[axis]
        if size > _PROVABLE or not any(len(step.inputs) > 1 for step in self.steps):
            return None
        lo, hi = numpy.triu_indices(size)
        return self._reached(axis, numpy.stack([lo, hi + 1], 1)).astype(numpy.int16)

    def _cache(self, number: int, operation: Operation | None) -> None:
        step = self.steps[number]
        value = 0.0 if operation is None else operation.margin
        if operation is None and step.caches:
            return
        cache = step.caches.setdefault(value, Cache(step.channels, step.size, step.dtype, value))
        if operation is not None:
            cache.widen((operation.axes[0].margins, operation.axes[1].margins))

    @property
    def _caches(self) -> list[Cache]:
        return [cache for step in self.steps for cache in step.caches.values()]

    def _uses(self) -> list[list[int]]:
        """After each step, which values are not needed any more."""
        last = dict.fromkeys(range(len(self.steps)), -1)
        for number, step in enumerate(self.steps):
            last[number] = number
            for other, fresh in zip(step.inputs, step.fresh, strict=True):
                if fresh:
                    last[other] = number
        return [[other for other, use in last.items() if use == number] for number in range(len(self.steps))]


def _always_same(tables: Sequence[NDArray[numpy.int64] | None], one: int, other: int) -> bool:
    return all(table is not None and bool((table[:, one] == table[:, other]).all()) for table in tables)
