"""What a layer gives, in place of the input: the same call, from there on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from pgig.errors import PgigError
from pgig.network.inner_place import Side
from pgig.subject.inputs import Baseline, PerInput, Tensors, as_baseline
from pgig.subject.rows import check_rows
from pgig.subject.subject import Subject

Layer = str | nn.Module | Sequence[str | nn.Module]
_ROWS = 64  # inputs at a time


@dataclass(frozen=True)
class InnerCall:
    """What `attribute_all` is asked, where a layer takes the place of the input."""

    subject: Subject
    inputs: Tensors  # what the layer gives, or is given
    baseline: Baseline
    references: Tensors | None
    forward_args: tuple[Any, ...]
    forward_kwargs: dict[str, Any]


def inner_call(
    subject: Subject,
    layer: Layer,
    side: Side,
    inputs: Tensors | Mapping[str, Any],
    baseline: Baseline = 0,
    references: Tensors | None = None,
    forward_args: Any = (),
    forward_kwargs: dict[str, Any] | None = None,
    whole: bool = False,
    has_path: bool = True,
) -> InnerCall:
    """Inputs, baseline and references become what the layer gives for each of them; the baseline only for paths."""
    if subject.place is not None:
        raise PgigError(f"layer= of a Subject that starts at {subject.at!r} already: give one of the two")
    args = () if forward_args is None else forward_args if isinstance(forward_args, tuple) else (forward_args,)
    named = dict(forward_kwargs or {})
    members: tuple[Tensor, ...] = ()
    if isinstance(inputs, Mapping):
        named = {**inputs, **named}
    else:
        members = inputs if isinstance(inputs, tuple) else (inputs,)
    count = _count(members, named)
    inner = Subject(subject.model, subject.patterns, at=layer, side=side)
    inner.check([])
    at_once = count if whole else _ROWS

    def by_layer(given: Sequence[Tensor], rows: int, own: bool) -> list[tuple[Tensor, ...]]:
        return _values(inner, given, PerInput(args, named, count), rows, at_once, own)

    def values(given: Sequence[Tensor], rows: int, own: bool) -> Tensors:
        return _flat(by_layer(given, rows, own))

    if not whole and count > 1 and members and all(x.is_floating_point() for x in members):
        further = PerInput(args, named, count)
        check_rows(
            inner, members, [torch.zeros_like(x) for x in members], "inner",
            lambda given, rows: inner.inner(*given, *further.rows(rows)[0], **further.rows(rows)[1]),
            further=further.look,
        )  # fmt: skip
    there = by_layer(members, count, own=True)
    found = _flat(there)
    several = found if isinstance(found, tuple) else (found,)
    if any(value.dim() == 0 or len(value) != count for value in several) and not whole:
        shapes = ", ".join(str(tuple(value.shape)) for value in several)
        raise PgigError(f"layer {inner.at!r} gives {shapes} for {count} inputs: one row each is expected")
    start = _start(members, baseline, lambda at: values(at, count, own=True)) if has_path else 0
    others = None
    if references is not None:
        given = references if isinstance(references, tuple) else (references,)
        others = values(given, len(given[0]), own=False)
    return InnerCall(
        subject=Subject(subject.model, subject.patterns, at=layer, side=side, values=[len(layer) for layer in there]),
        inputs=found,
        baseline=start,
        references=others,
        forward_args=(*members, *args),
        forward_kwargs=named,
    )


def _count(members: Sequence[Tensor], named: Mapping[str, Any]) -> int:
    tensors = [x for x in (*members, *named.values()) if isinstance(x, Tensor) and x.dim() > 0]
    if not tensors or any(not isinstance(x, Tensor) or x.dim() == 0 for x in members):
        raise PgigError("inputs must be a tensor or a tuple of tensors, with a row for each input")
    return len(tensors[0])


def _values(
    inner: Subject, given: Sequence[Tensor], further: PerInput, count: int, at_once: int, own: bool
) -> list[tuple[Tensor, ...]]:
    """At each layer, for all rows, some at a time."""
    parts: list[list[tuple[Tensor, ...]]] = []
    for rows in torch.split(torch.arange(count), at_once):
        # references have no further arguments of their own: those of the first input stand for them
        args, kwargs = further.rows(rows if own else torch.zeros_like(rows))
        parts.append(inner.inner_by_layer(*(x.detach()[rows] for x in given), *args, **kwargs))
    return [tuple(torch.cat(pieces) for pieces in zip(*layer, strict=True)) for layer in zip(*parts, strict=True)]


def _flat(by_layer: list[tuple[Tensor, ...]]) -> Tensors:
    values = tuple(value for layer in by_layer for value in layer)
    return values[0] if len(values) == 1 else values


def _start(members: Sequence[Tensor], baseline: Baseline, values: Callable[[Sequence[Tensor]], Tensors]) -> Baseline:
    """What the layer gives for the baseline. Inputs by name have none: there it is the layer's own zero, or given."""
    if not members:
        if baseline is not None and not isinstance(baseline, int | float):
            raise PgigError("inputs by name have no baseline of their own: give them as tensors, or a number")
        return baseline
    given = baseline if isinstance(baseline, tuple) else (baseline,) * len(members)
    if len(given) != len(members):
        raise PgigError(f"{len(given)} baselines for {len(members)} inputs: give one each, or a single number")
    found = values([as_baseline(b, x) for b, x in zip(given, members, strict=True)])
    return cast(Baseline, found)
