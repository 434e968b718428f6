"""Does a model treat each row of a batch by itself? Where it does not, results would depend on the chunks."""

import warnings
from collections.abc import Callable, Hashable, MutableMapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from pgig.errors import PgigError, PgigWarning
from pgig.network.checks import FAILURES
from pgig.network.nested import tensors_in
from pgig.subject.subject import Subject


class MixedRowsError(PgigError):
    """The model's answer is one for its whole batch, or depends on it: only whole batches can be explained."""


WHOLE = "give batch_size='whole', which puts all inputs through it together"
_RANDOM = "the model gives another answer each time it is asked: it draws random numbers, and so does what explains it"
# well above rounding, which differs with the number of rows
_TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3}
_HALF_TOLERANCE = 5e-2
_HUGE = 1e30  # what stands for minus infinity says nothing of the size of the rest
# by score of the caller's own: the shapes of inputs that were found to be treated one by one
_Shapes = MutableMapping[Callable[..., Any], set[Hashable]]
# inputs and the rows they belong to -> what the model says of them
Ask = Callable[[Sequence[Tensor], list[int]], Any]


def check_rows(
    subject: Subject,
    inputs: Sequence[Tensor],
    others: Sequence[Tensor],
    score: object,
    ask: Ask,
    *,
    remedy: str = WHOLE,
    alone: bool = False,
    further: Hashable = (),
) -> None:
    """Refuse a model whose answer for one input depends on the others; looked at once per model and shape.

    others: something else than the inputs of the same shape, to be the first input's company. alone: inputs are put
    through one by one, so that a model which takes no more than one will do. further: what else the answer may depend
    on, such as the model's other arguments.
    """
    key = further, alone, subject.place, subject.names, *((x.shape[1:], x.dtype) for x in inputs)
    by_score: _Shapes = subject.recall("rows", WeakKeyDictionary)
    try:
        sound = by_score.setdefault(score if callable(score) else _fault, set())
    except TypeError:  # what cannot be held weakly is looked at each time
        sound = set()
    if key in sound:
        return
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a checkpoint says of inputs without gradients
        fault = _fault(inputs, others, ask, remedy, alone)
    if fault == _RANDOM:
        warnings.warn(_RANDOM, PgigWarning, stacklevel=5)
    elif fault is not None:
        raise MixedRowsError(fault)
    sound.add(key)


def _fault(inputs: Sequence[Tensor], others: Sequence[Tensor], ask: Ask, remedy: str, alone: bool) -> str | None:
    first = [x[:1] for x in inputs]
    try:
        answer = ask(first, [0])
    except FAILURES as error:
        if isinstance(error, PgigError) or (fault := why_not_one(inputs, ask, remedy)) is None:
            raise
        return fault
    if not _has_rows(answer, 1):
        return why_not_one(inputs, ask, remedy)
    # in the middle of others, of which one is large
    company = [torch.cat([3 * x + 1, x, _different(y[:1], x)]) for x, y in zip(first, others, strict=True)]
    try:
        together = ask(company, [0, 0, 0])
    except FAILURES as error:
        if alone:
            return None  # it takes one input at a time, and gets no more
        raise PgigError(
            f"the model takes one input alone, but not three ({_first_line(error)}): give batch_size=1"
        ) from error
    if not _differ(answer, together, 3, 1):
        return None
    if _differ(answer, ask(first, [0]), 1, 0):  # no question of company
        return _RANDOM
    return f"the model's answer for one input depends on the others in its batch: {remedy}"


def why_not_one(inputs: Sequence[Tensor], ask: Ask, remedy: str = WHOLE) -> str | None:
    """What is wrong where one row alone does not go through, if that can be told."""
    if _has_rows(_answer(ask, [x[None] for x in inputs], [0]), 1):
        shape = tuple(inputs[0].shape)
        return f"inputs of shape {shape} have no batch axis, which this model expects: give x[None]"
    count = len(inputs[0])
    answer = _answer(ask, inputs, list(range(count)))
    if count > 1 and _has_rows(answer, count):
        return f"the model takes its whole batch of {count}, but not one input by itself: {remedy}"
    if isinstance(answer, Tensor) and answer.numel() == 1:
        return (
            f"what is explained is one number for the whole batch of {count}: give one for each input, as a loss with "
            f"reduction='none' does; and {remedy}"
        )
    return None


def _answer(ask: Ask, inputs: Sequence[Tensor], rows: list[int]) -> Any:
    try:
        return ask(inputs, rows)
    except FAILURES:
        return None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _has_rows(output: Any, count: int) -> bool:
    first = next(tensors_in(output), None)
    return first is not None and first.dim() > 0 and len(first) == count


def _different(other: Tensor, x: Tensor) -> Tensor:
    return other + 2 if torch.equal(other, x) else other


def _differ(alone: Any, other: Any, count: int, row: int) -> bool:
    """Is an output for one input another than its row in an output for `count`?"""
    pairs = [(a, b) for a, b in zip(tensors_in(alone), tensors_in(other), strict=False) if a.dim() > 0 and b.dim() > 0]
    for number, (one, two) in enumerate(pairs):
        if (len(one), len(two)) != (1, count):
            if number == 0 and len(one) == 1:  # the answer itself does not grow with the batch
                return True
            continue  # not a tensor of rows
        if one.shape[1:] != two.shape[1:]:
            return True
        if one.is_floating_point() and _far_apart(one[0], two[row]):
            return True
    return False


def _far_apart(one: Tensor, two: Tensor) -> bool:
    tolerance = _TOLERANCE.get(one.dtype, _HALF_TOLERANCE)
    one, two = one.double(), two.double()
    usual = (one.abs() < _HUGE) & (two.abs() < _HUGE)
    if not torch.equal(one.abs() < _HUGE, two.abs() < _HUGE):
        return True
    if not bool(usual.any()):
        return False
    one, two = one[usual], two[usual]
    return float((one - two).abs().max()) > tolerance * float(torch.maximum(one.abs(), two.abs()).max())
