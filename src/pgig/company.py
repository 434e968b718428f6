"""Does a model treat each row of a batch by itself? Where it does not, results would depend on the chunks."""

import warnings
from collections.abc import Callable, Hashable, MutableMapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from pgig.calls import tensors_in
from pgig.errors import PgigError

# well above rounding, which differs with the number of rows
_TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3}
_HALF_TOLERANCE = 5e-2
# what a model that was made for whole batches, or for other shapes, says of one row
_FAILURES = RuntimeError, ValueError, TypeError, IndexError, AssertionError
# By model, and by score of the caller's own: the shapes of inputs that were found to be treated one by one.
_Shapes = MutableMapping[Callable[..., Any], set[Hashable]]
_SOUND: MutableMapping[Callable[..., Any], _Shapes] = WeakKeyDictionary()
# inputs and the rows they belong to -> what the model says of them
Ask = Callable[[Sequence[Tensor], list[int]], Any]


def check_rows(
    model: Callable[..., Any], inputs: Sequence[Tensor], others: Sequence[Tensor], score: object, ask: Ask
) -> None:
    """Refuse a model whose answer for one input depends on the others; looked at once per model and shape.

    others: something else than the inputs of the same shape, to be the first row's company.
    """
    key = tuple((x.shape[1:], x.dtype) for x in inputs)
    try:
        sound = _SOUND.setdefault(model, WeakKeyDictionary()).setdefault(score if callable(score) else _fault, set())
    except TypeError:  # what cannot be held weakly is looked at each time
        sound = set()
    if key in sound:
        return
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a checkpoint says of inputs without gradients
        if (fault := _fault(inputs, others, ask)) is not None:
            raise PgigError(fault)
    sound.add(key)


def _fault(inputs: Sequence[Tensor], others: Sequence[Tensor], ask: Ask) -> str | None:
    first = [x[:1] for x in inputs]
    try:
        alone = ask(first, [0])
    except _FAILURES as error:
        if isinstance(error, PgigError) or (fault := _diagnosis(inputs, ask)) is None:
            raise
        return fault
    if not _has_rows(alone, 1):
        return _diagnosis(inputs, ask)
    company = [torch.cat([x, _different(y[:1], x)]) for x, y in zip(first, others, strict=True)]
    if _difference(alone, ask(company, [0, 0]), 2) <= 1:
        return None
    if _difference(alone, ask(first, [0]), 1) > 1:  # what is random is no question of company
        return None
    return f"the model's answer for one input depends on the others in its batch: {_REMEDY}"


_REMEDY = "give batch_size='whole', which puts all inputs through it together"


def _diagnosis(inputs: Sequence[Tensor], ask: Ask) -> str | None:
    """What is wrong where one row alone does not go through."""
    if _goes_through(ask, [x[None] for x in inputs], [0]):
        shape = tuple(inputs[0].shape)
        return f"inputs of shape {shape} have no batch axis, which this model expects: give x[None]"
    count = len(inputs[0])
    if count > 1 and _goes_through(ask, inputs, list(range(count))):
        return f"the model takes its whole batch of {count}, but not one input by itself: {_REMEDY}"
    return None


def _goes_through(ask: Ask, inputs: Sequence[Tensor], rows: list[int]) -> bool:
    try:
        return _has_rows(ask(inputs, rows), len(rows))
    except _FAILURES:
        return False


def _has_rows(output: Any, count: int) -> bool:
    first = next(tensors_in(output), None)
    return first is not None and first.dim() > 0 and len(first) == count


def _different(other: Tensor, x: Tensor) -> Tensor:
    return other + 1 if torch.equal(other, x) else other


def _difference(alone: Any, other: Any, count: int) -> float:
    """Of the first rows of an output for one input and of one for `count`, the largest, in units of the tolerance."""
    found = 0.0
    for one, two in zip(tensors_in(alone), tensors_in(other), strict=False):
        has_rows = one.dim() > 0 and two.shape == (count, *one.shape[1:]) and len(one) == 1
        if not has_rows or not one.is_floating_point():
            continue
        tolerance = _TOLERANCE.get(one.dtype, _HALF_TOLERANCE)
        one, two = one[0].double(), two[0].double()
        if bool(one.isfinite().all()) and not bool(two.isfinite().all()):
            return float("inf")
        scale = float(torch.maximum(one.abs().max(), two.abs().max())) if one.numel() else 0.0
        if 0 < scale < float("inf"):
            found = max(found, float((one - two).abs().max()) / (tolerance * scale))
    return found
