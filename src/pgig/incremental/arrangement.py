"""The steps of a plan, and what is decided about them once: what is kept, and what is taken as it was just computed."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy
import torch
from numpy.typing import NDArray

from pgig.incremental.caches import Cache
from pgig.incremental.reach import Places
from pgig.incremental.windows import Convolution, Operation, Pair, Pointwise

_PROVABLE = 512  # pixels: beyond, there are too many windows to look at all


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


def arrange(steps: Sequence[Step], outputs: Sequence[int]) -> None:
    """Decide, and have a cache for all that is not taken as it was just computed."""
    _decide_what_is_fresh(steps)
    _decide_what_follows(steps, outputs)
    for step in steps:
        if step.operation is None:
            continue
        for number, fresh in zip(step.inputs, step.fresh, strict=True):
            if not fresh:
                _cache(steps, number, step.operation)
    for number in outputs:
        _cache(steps, number, None)
    _cache(steps, 0, None)
    _decide_what_is_overwritten(steps)


def reached(steps: Sequence[Step], axis: int, intervals: Places) -> Places:  # [e, 2] -> [e, steps, 2]
    """What of every step's map intervals of changed pixels reach, along one axis."""
    found: list[tuple[Places, Places]] = []
    for step in steps:
        if step.operation is None:
            found.append((intervals[:, 0], intervals[:, 1]))
            continue
        lo = numpy.min([found[number][0] for number in step.inputs], axis=0)
        hi = numpy.max([found[number][1] for number in step.inputs], axis=0)
        found.append(step.operation.axes[axis].after(lo, hi))
    for number, step in reversed(list(enumerate(steps))):
        if step.follows is not None:
            found[number] = found[step.follows]
    return numpy.stack([numpy.stack(pair, 1) for pair in found], 1)


def last_uses(steps: Sequence[Step]) -> list[list[int]]:
    """After each step, which values are not needed any more."""
    last = dict.fromkeys(range(len(steps)), -1)
    for number, step in enumerate(steps):
        last[number] = number
        for other, fresh in zip(step.inputs, step.fresh, strict=True):
            if fresh:
                last[other] = number
    return [[other for other, use in last.items() if use == number] for number in range(len(steps))]


def _decide_what_is_fresh(steps: Sequence[Step]) -> None:
    """Where an operation is local and its window is always the input's, it takes what was just computed."""
    tables = [_all_windows(steps, axis) for axis in (0, 1)]
    for number, step in enumerate(steps):
        step.fresh = tuple(
            step.is_local and (len(step.inputs) == 1 or _always_same(tables, number, other)) for other in step.inputs
        )


def _decide_what_follows(steps: Sequence[Step], outputs: Sequence[int]) -> None:
    """Before branches are joined, a short one is computed in the window of the longest, and need not be kept.

    That is where it begins with a convolution of one pixel, from maps that are kept for another branch.
    """
    users: list[list[int]] = [[] for _ in steps]
    for number, step in enumerate(steps):
        for other in step.inputs:
            users[other].append(number)
    for number in outputs:
        users[number].append(-1)
    for number, step in enumerate(steps):
        for place, other in enumerate(step.inputs if step.is_local and len(step.inputs) > 1 else ()):
            if step.fresh[place] or (branch := _branch(steps, other, users)) is None:
                continue
            step.fresh = tuple(fresh or at == place for at, fresh in enumerate(step.fresh))
            for one, next_ in zip(branch, [number, *branch], strict=False):
                steps[one].follows = next_
            steps[branch[-1]].fresh = (False,)


def _branch(steps: Sequence[Step], last: int, users: list[list[int]]) -> list[int] | None:
    """The steps of a branch from its last back to its first, if it can be computed in another window."""
    branch = [last]
    while users[branch[-1]] == users[branch[-1]][:1]:
        step = steps[branch[-1]]
        if not step.is_local or len(step.inputs) != 1:
            return None
        source = step.inputs[0]
        if isinstance(step.operation, Convolution):
            kept = (steps[user] for user in users[source] if user not in (branch[-1], -1))
            shared = any(
                user.operation is not None and user.operation.margin == 0 and not user.fresh[user.inputs.index(source)]
                for user in kept
            )
            return branch if shared else None
        branch.append(source)
    return None


def _decide_what_is_overwritten(steps: Sequence[Step]) -> None:
    """What nothing else takes as it was just computed may be overwritten."""
    takers = [0] * len(steps)
    for step in steps:
        for other, fresh in zip(step.inputs, step.fresh, strict=True):
            takers[other] += fresh
    for step in steps:
        operation = step.operation
        if isinstance(operation, Pointwise) and operation.overwriting is not None:
            alone = len(step.inputs) == 1 and takers[step.inputs[0]] == 1
            if alone and steps[step.inputs[0]].operation is not None:
                step.operation = replace(operation, function=operation.overwriting)


def _all_windows(steps: Sequence[Step], axis: int) -> NDArray[numpy.int64] | None:
    size = steps[0].size[axis]
    if size > _PROVABLE or not any(len(step.inputs) > 1 for step in steps):
        return None
    lo, hi = numpy.triu_indices(size)
    return reached(steps, axis, numpy.stack([lo, hi + 1], 1)).astype(numpy.int16)


def _cache(steps: Sequence[Step], number: int, operation: Operation | None) -> None:
    step = steps[number]
    value = 0.0 if operation is None else operation.margin
    if operation is None and step.caches:
        return
    cache = step.caches.setdefault(value, Cache(step.channels, step.size, step.dtype, value))
    if operation is not None:
        cache.widen((operation.axes[0].margins, operation.axes[1].margins))


def _always_same(tables: Sequence[NDArray[numpy.int64] | None], one: int, other: int) -> bool:
    return all(table is not None and bool((table[:, one] == table[:, other]).all()) for table in tables)
