"""Captum's arguments, read as pgig's."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from pgig.errors import PgigError
from pgig.network.outputs import answer_of
from pgig.subject.context import BatchSize
from pgig.subject.inputs import Baseline, Tensors, as_baseline
from pgig.subject.rows import MixedRowsError
from pgig.subject.scores import Score, Target

Forward = Callable[..., Any]
T = TypeVar("T")


def read_target(target: Target, forward: Callable[[], Any]) -> tuple[Score, Target]:
    """Which score is explained. forward: gives the model's output, where a target counts from the end (-1)."""
    if target is None:
        return only_output, None
    if isinstance(target, Tensor) and target.numel() == 1:
        target = int(target)
    if not _is_negative(target):
        return "logit", target
    with torch.no_grad():
        shape = answer_of(forward()).shape[1:]
    return "logit", _from_the_start(target, tuple(shape))


def only_output(output: Any) -> Any:
    """Without a target: one number for each input, or one for the whole batch."""
    if isinstance(output, Tensor) and output.dim() > 0 and output.numel() == len(output):
        return output.reshape(len(output))
    if isinstance(output, Tensor) and output.dim() > 1 and output.numel() > len(output):
        shape = tuple(output.shape[1:])
        raise PgigError(f"the model gives one scalar per input, or target= says which: it gives {shape} for each input")
    return output


def rows_or_whole(run: Callable[[BatchSize], T], batch_size: BatchSize = None) -> T:
    """A forward function that mixes rows, or gives one number for all, is given whole batches."""
    try:
        return run(batch_size)
    except MixedRowsError:
        return run("whole")


def forward_args(additional: Any) -> tuple[Any, ...]:
    return () if additional is None else additional if isinstance(additional, tuple) else (additional,)


def baseline_of(baselines: Baseline | None) -> Baseline:
    return 0 if baselines is None else baselines


def baselines_like(baselines: Baseline | None, members: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """One for each member of the inputs, in its shape."""
    given = baseline_of(baselines)
    several = given if isinstance(given, tuple) else (given,) * len(members)
    if len(several) != len(members):
        raise PgigError(f"{len(several)} baselines for {len(members)} inputs: give one each, or a single number")
    return tuple(as_baseline(b, x) for b, x in zip(several, members, strict=True))


def members_of(inputs: Tensors) -> tuple[Tensor, ...]:
    return inputs if isinstance(inputs, tuple) else (inputs,)


def checked_members(inputs: Any) -> tuple[Tensor, ...]:
    """The first has the rows; a further one may be a list of indices of any length, and be empty."""
    members = members_of(inputs)
    for number, x in enumerate(members):
        if not isinstance(x, Tensor) or x.dim() == 0 or (number == 0 and len(x) == 0):
            found = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise PgigError(f"inputs must be a tensor or a tuple of tensors with at least one row, got {found}")
    return members


def like_given(parts: tuple[Tensor, ...], given: Any) -> Tensors:
    return parts if isinstance(given, tuple) else parts[0]


def scaled(inputs: Tensors) -> Tensors:
    """Whole numbers as the floating point numbers that they become on a path."""

    def floating(x: Any) -> Any:
        is_whole = isinstance(x, Tensor) and not x.is_floating_point() and not x.is_complex()
        return x.to(torch.get_default_dtype()) if is_whole else x

    return tuple(map(floating, inputs)) if isinstance(inputs, tuple) else floating(inputs)


def tiled(value: Any, times: int, count: int) -> Any:
    """A further argument with one row per input, again and again: all inputs first, then all of them once more."""
    if isinstance(value, Tensor) and value.dim() > 0 and len(value) == count:
        return value.repeat(times, *[1] * (value.dim() - 1))
    return value


def tiled_target(target: Any, times: int, count: int) -> Any:
    """Targets, likewise; one for all stays one."""
    if isinstance(target, list) and len(target) == count:
        return target * times
    return tiled(target, times, count) if isinstance(target, Tensor) and target.numel() > 1 else target


def drawn_seed(seed: int | None) -> int:
    """The seed given, or one from torch's global generator: `torch.manual_seed` works, and calls differ."""
    return int(torch.randint(2**62, ())) if seed is None else seed


def _is_negative(target: Any) -> bool:
    if isinstance(target, list | tuple):
        return any(map(_is_negative, target))
    if isinstance(target, Tensor):
        return not target.is_floating_point() and bool((target < 0).any())
    return isinstance(target, int) and target < 0


def _from_the_start(target: Any, shape: tuple[int, ...]) -> Any:
    if isinstance(target, Tensor):
        target = target.tolist() if target.dim() < 2 else [tuple(row) for row in target.tolist()]
    if isinstance(target, list):
        return [_from_the_start(one, shape) for one in target]
    index = target if isinstance(target, tuple) else (target,)
    found = tuple(i + size if -size <= i < 0 else i for i, size in zip(index, shape, strict=False))
    return found if isinstance(target, tuple) else found[0] if found else target
