"""Scores: the scalar that is explained."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from pgig.errors import PgigError
from pgig.network.outputs import answer_of
from pgig.subject.inputs import all_finite

Score = Literal["probability", "logit"] | Callable[[Any], Tensor]
Index = int | tuple[int, ...]
ALWAYS_SURE = "the probability of a single output is always 1 and has no gradient: use the score 'logit'"
Target = Index | Sequence[Index] | Tensor | NDArray[Any] | None


class Explained:
    """Turns the model's output for some rows into one scalar each; or, of a whole batch, into one for all."""

    def __init__(self, score: Score, target: Target, count: int, whole: bool = False) -> None:
        if not callable(score) and score not in ("probability", "logit"):
            raise PgigError(f"unknown score {score!r}; choose 'probability', 'logit', or pass a callable")
        if callable(score) and target is not None:
            raise PgigError("a callable score already says what is explained: leave target at None")
        self._score = score
        self._whole = whole
        self._classes: list[tuple[int, ...] | None] = [None] * count
        if target is not None:
            self._classes = list(_listed_targets(target, count))

    @property
    def is_open(self) -> bool:
        """Must the classes still be predicted?"""
        return not callable(self._score) and None in self._classes

    @property
    def classes(self) -> list[tuple[int, ...] | None]:
        """Of every input, what is explained of its output: an index, or None where the caller's score says it."""
        return list(self._classes)

    def judged(self, output: Any) -> Any:
        """What of an output must not depend on other rows: all of it, or what the caller's own score makes of it."""
        return self._score(output) if callable(self._score) else output

    def predict(self, output: Any, rows: Sequence[int]) -> None:
        """Settle the class of `rows` by the output for x itself."""
        if not self.is_open:
            return
        tensor = _as_tensor(output, len(rows))
        if tensor.dim() > 2:
            raise PgigError(
                f"an output of shape {tuple(tensor.shape)} has no single predicted class: "
                f"give target as a tuple of {tensor.dim() - 1} indices"
            )
        best = [()] * len(rows) if tensor.dim() == 1 else [(int(i),) for i in tensor.argmax(1)]
        for row, index in zip(rows, best, strict=True):
            self._classes[row] = index

    def __call__(self, output: Any, rows: Sequence[int]) -> Tensor:  # [len(rows)], or [1] for a whole batch
        scores = self._custom(output, len(rows)) if callable(self._score) else self._selected(output, rows)
        if not all_finite(scores):
            bad = rows[int((~scores.detach().isfinite()).nonzero()[0])]
            raise PgigError(f"the model's score for input {bad} is NaN or infinite")
        return scores

    def _custom(self, output: Any, count: int) -> Tensor:
        assert callable(self._score)
        scores = self._score(output)
        if isinstance(scores, Tensor) and scores.numel() == 1 and (self._whole or count == 1):
            return scores.reshape(1)
        if not isinstance(scores, Tensor) or scores.shape not in ((count,), (count, 1)):
            found = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
            raise PgigError(f"the score must be one scalar per input, shape ({count},), got {found}")
        return scores.reshape(count)

    def _selected(self, output: Any, rows: Sequence[int]) -> Tensor:
        tensor = _as_tensor(output, len(rows))
        if self._score == "probability":
            if tensor.dim() == 1 or tensor.shape[1] == 1:
                raise PgigError(ALWAYS_SURE)
            if not tensor.is_floating_point():
                raise PgigError(f"the model returned {tensor.dtype}, which has no gradient")
            # in float32 a sure prediction is 1.0 exactly, and its gradient comes out wrong
            tensor = (tensor if tensor.device.type == "mps" else tensor.double()).softmax(1)
        indices = [self._classes[row] or () for row in rows]
        for index in set(indices):
            _check_index(index, tensor.shape[1:])
        if tensor.dim() == 1:  # one output per input: there is nothing to select
            return tensor
        if len(indices[0]) == 1 and indices.count(indices[0]) == len(indices):  # the same of all
            return tensor[:, indices[0][0]]
        columns = torch.tensor(indices, device=tensor.device).reshape(len(rows), -1).unbind(1)
        return tensor[torch.arange(len(rows), device=tensor.device), *(c.long() for c in columns)]


def _as_tensor(output: Any, count: int) -> Tensor:
    tensor = answer_of(output)
    if tensor.dim() == 0 or len(tensor) != count:
        raise PgigError(f"the model returned shape {tuple(tensor.shape)} for {count} inputs: one row each is expected")
    return tensor


def _check_index(index: tuple[int, ...], shape: torch.Size) -> None:
    if not shape and index in ((), (0,)):
        return
    if len(index) != len(shape):
        wanted = "one class" if len(shape) == 1 else f"a tuple of {len(shape)} indices"
        raise PgigError(f"target {_shown(index)} does not fit an output of shape {tuple(shape)}: give {wanted}")
    if any(not 0 <= i < size for i, size in zip(index, shape, strict=True)):
        limit = f"0..{shape[0] - 1}" if len(shape) == 1 else f"within {tuple(shape)}"
        raise PgigError(f"target {_shown(index)} is out of range: the model's classes are {limit}")


def _listed_targets(target: Target, count: int) -> list[tuple[int, ...]]:
    if isinstance(target, numpy.ndarray):
        if target.dtype.kind not in "iuf":
            raise PgigError(f"target must be whole numbers, got an array of {target.dtype}")
        target = torch.from_numpy(target)
    if isinstance(target, Tensor):
        if target.is_floating_point():
            raise PgigError(f"target must be whole numbers, got {target.dtype}")
        target = target.tolist() if target.dim() < 2 else [tuple(row) for row in target.tolist()]
    if isinstance(target, tuple) or _is_integer(target):
        return [_index(target)] * count
    if not isinstance(target, Sequence) or isinstance(target, str):
        raise PgigError(f"target must be a class index, or one per input, got {target!r}")
    if len(target) != count:
        raise PgigError(f"{len(target)} targets for {count} inputs: give one class per input, or one for all")
    return [_index(item) for item in target]


def _index(value: Any) -> tuple[int, ...]:
    index = tuple(value) if isinstance(value, tuple | list) else (value,)
    index = tuple(i.item() if isinstance(i, Tensor) and i.numel() == 1 else i for i in index)
    if not all(_is_integer(i) for i in index):
        raise PgigError(f"target must be whole numbers, got {value!r}")
    return tuple(int(i) for i in index)


def _is_integer(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool | list)


def _shown(index: tuple[int, ...]) -> str:
    return str(index[0]) if len(index) == 1 else str(index)
