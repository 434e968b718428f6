"""The inputs explained: checked once, and handed out one by one or packed for the model."""

import math
from collections.abc import Hashable, Mapping, Sequence
from functools import reduce
from operator import index
from typing import Any, SupportsIndex, TypeVar

import torch
from torch import Tensor

from pgig.errors import PgigError
from pgig.methods.points import Example

Tensors = Tensor | tuple[Tensor, ...]
# what is given back is like what was given
Given = TypeVar("Given", bound=Tensor | tuple[Tensor, ...] | Mapping[str, Tensor])
Baseline = float | Tensor | tuple[float | Tensor, ...]


class Inputs:
    """A batch of inputs, each a tensor or a tuple of tensors, with their baselines and references.

    Points see one tensor per input: the tensor itself, or the members of the tuple laid end to end.
    """

    def __init__(self, inputs: Tensors, baseline: Baseline, references: Tensors | None) -> None:
        self.is_tuple = isinstance(inputs, tuple)
        self._members = _members(inputs, "inputs")
        for member in self._members:
            _check_tensor(member, "inputs")
        self.count = len(self._members[0])
        if any(len(member) != self.count for member in self._members):
            raise PgigError(f"inputs of one tuple differ in number: {[len(member) for member in self._members]}")
        if len({member.device for member in self._members}) > 1:
            raise PgigError("inputs of one tuple must share a device")
        self.shapes = [member.shape[1:] for member in self._members]
        self.device = self._members[0].device
        # members of different dtypes are laid end to end in the widest
        self._joint = reduce(torch.promote_types, (member.dtype for member in self._members))
        self._baselines = self._matching_baselines(baseline)
        self._references = None if references is None else self._matching_references(references)

    @property
    def has_references(self) -> bool:
        return self._references is not None

    def example(self, index: int) -> Example:
        x, baseline = (self._join([m[index : index + 1] for m in part])[0] for part in (self._members, self._baselines))
        return Example(x, baseline, self._references)

    def some(self, start: int, stop: int) -> Tensor:
        """The inputs start..stop-1, [n, *input]."""
        return self._join([member[start:stop] for member in self._members])

    def for_model(self, at: Tensor) -> tuple[Tensor, ...]:
        """Places [n, *input] as the tensors that the model takes."""
        if not self.is_tuple:
            return (at,)
        sizes = [shape.numel() for shape in self.shapes]
        return tuple(
            part.reshape(len(at), *shape).to(member.dtype)
            for part, shape, member in zip(torch.split(at, sizes, dim=1), self.shapes, self._members, strict=True)
        )

    def joined(self, parts: Sequence[Tensor]) -> Tensor:
        """The inverse of `for_model`."""
        return self._join(list(parts))

    def like_inputs(self, attribution: Tensor) -> Tensors:
        parts = self.for_model(attribution.to(self._joint))
        return parts if self.is_tuple else parts[0]

    def at_baseline(self) -> tuple[Tensor, ...]:
        return self._baselines

    @property
    def members(self) -> tuple[Tensor, ...]:
        return self._members

    def _join(self, parts: list[Tensor]) -> Tensor:
        if not self.is_tuple:
            return parts[0]
        return torch.cat([part.reshape(len(part), -1).to(self._joint) for part in parts], dim=1)

    def _matching_baselines(self, baseline: Baseline) -> tuple[Tensor, ...]:
        given = baseline if isinstance(baseline, tuple) else (baseline,) * len(self._members)
        if len(given) != len(self._members):
            raise PgigError(
                f"{len(given)} baselines for {len(self._members)} inputs: give one each, or a single number"
            )
        return tuple(as_baseline(b, x) for b, x in zip(given, self._members, strict=True))

    def _matching_references(self, references: Tensors) -> Tensor:
        given = _members(references, "references")
        for tensor in given:
            _check_tensor(tensor, "references")
        shapes = [tensor.shape[1:] for tensor in given]
        if shapes != self.shapes:
            wanted, found = [tuple(s) for s in self.shapes], [tuple(s) for s in shapes]
            raise PgigError(f"references of shape {found} per input, expected {wanted}, with an axis in front of it")
        return self._join([tensor.to(self.device, self._joint) for tensor in given])


def as_baseline(baseline: float | Tensor, x: Tensor) -> Tensor:
    """A baseline in the shape of x."""
    if isinstance(baseline, int | float) and math.isfinite(baseline):
        return x.new_tensor(baseline).expand(x.shape)
    try:
        tensor = torch.as_tensor(baseline, dtype=x.dtype, device=x.device).detach()
    except (TypeError, ValueError, RuntimeError):
        raise PgigError(f"the baseline must be a number or a tensor, got {_short(baseline)}") from None
    if not tensor.isfinite().all():
        raise PgigError("the baseline has NaN or infinite values")
    try:
        return tensor.broadcast_to(x.shape)
    except RuntimeError:
        raise PgigError(
            f"a baseline of shape {tuple(tensor.shape)} does not broadcast to inputs {tuple(x.shape)}"
        ) from None


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) < 60 and "\n" not in shown else f"a {type(value).__name__}"


def named_inputs(inputs: Mapping[str, Any]) -> tuple[tuple[str, ...], Tensors, dict[str, Any]]:
    """Inputs by name, as a tokenizer or a data set gives them: the names and tensors to explain, and all else."""
    floating = {
        name: value for name, value in inputs.items() if isinstance(value, Tensor) and value.is_floating_point()
    }
    if not floating:
        raise PgigError(
            f"none of {', '.join(map(str, inputs)) or 'the inputs'} is a floating point tensor, which alone has a "
            "gradient: pgig.explain_tokens explains token ids"
        )
    tensors = tuple(floating.values())
    rest = {name: value for name, value in inputs.items() if name not in floating}
    return tuple(floating), tensors[0] if len(tensors) == 1 else tensors, rest


class PerInput:
    """Further arguments of the model: a tensor with one row per input is cut to the rows in work, all else is kept."""

    def __init__(self, args: Any, kwargs: dict[str, Any] | None, count: int) -> None:
        self._args = () if args is None else args if isinstance(args, tuple) else (args,)
        if kwargs is not None and not isinstance(kwargs, Mapping):
            raise PgigError(f"forward_kwargs must be a mapping of names to values, got {type(kwargs).__name__}")
        self._kwargs = kwargs or {}
        self._count = count

    @property
    def look(self) -> Hashable:
        """What of them a model may go another way by: shapes, and values that are no tensors."""

        def of(value: Any) -> str:
            return str((value.shape, value.dtype)) if isinstance(value, Tensor) else repr(value)

        return (*map(of, self._args), *((name, of(value)) for name, value in sorted(self._kwargs.items())))

    def rows(self, indices: Sequence[int] | Tensor) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if not self._args and not self._kwargs:
            return (), {}
        wanted = torch.as_tensor(indices)

        def cut(value: Any) -> Any:
            has_rows = isinstance(value, Tensor) and value.dim() > 0 and len(value) == self._count
            return value[wanted.to(value.device)] if has_rows else value

        return tuple(map(cut, self._args)), {name: cut(value) for name, value in self._kwargs.items()}


def checked_ids(ids: Sequence[Hashable] | Tensor | None, count: int) -> list[Hashable]:
    """One id per input; the index in the batch where none are given."""
    if ids is not None and not hasattr(ids, "__iter__"):
        raise PgigError(f"ids must be one per input, got {ids!r}")
    listed: list[Hashable] = (
        list(range(count)) if ids is None else ids.tolist() if isinstance(ids, Tensor) else list(ids)
    )
    if len(listed) != count:
        raise PgigError(f"{len(listed)} ids for {count} inputs: give one each")
    # numpy's numbers and strings print differently from Python's, and draws go by what is printed
    return [index(i) if isinstance(i, SupportsIndex) else str(i) if isinstance(i, str) else i for i in listed]


def _members(tensors: Tensors, what: str) -> tuple[Tensor, ...]:
    members = tensors if isinstance(tensors, tuple) else (tensors,)
    if not members:
        raise PgigError(f"{what} is an empty tuple")
    for member in members:
        if not isinstance(member, Tensor):
            raise PgigError(f"{what} must be a tensor or a tuple of tensors, got {type(member).__name__}")
    return tuple(member.detach() for member in members)


def all_finite(values: Tensor) -> bool:
    """A finite sum has finite terms; where it is not, they are looked at one by one: they may only be large."""
    return math.isfinite(float(values.detach().sum())) or bool(values.detach().isfinite().all())


def _check_tensor(tensor: Tensor, what: str) -> None:
    if not tensor.is_floating_point():
        raise PgigError(
            f"{what} must be floating point to have a gradient, got {tensor.dtype}: pgig.explain_tokens explains "
            "token ids; if they are values, call .float() first"
        )
    if tensor.device.type == "meta":
        raise PgigError(f"{what} are on the meta device, and have no values")
    if tensor.dim() < 1 or tensor.numel() == 0:
        raise PgigError(f"{what} of shape {tuple(tensor.shape)} are empty: give a batch of at least one")
    if not all_finite(tensor):
        bad = int((~tensor.isfinite()).flatten(1).any(1).nonzero()[0]) if tensor.dim() > 1 else 0
        raise PgigError(f"{what} have NaN or infinite values, first in row {bad}")
