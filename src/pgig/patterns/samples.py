"""Batches of data, as estimation takes them: checked, and known again by a fingerprint."""

from collections.abc import Callable, Iterable, Mapping, Sized
from hashlib import blake2b
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pgig.errors import PgigError
from pgig.subject.inputs import PerInput


def checked_batches(batches: Iterable[Any]) -> Iterable[Any]:
    if isinstance(batches, Tensor) or not isinstance(batches, Iterable):
        kind = type(batches).__name__
        raise PgigError(f"batches must be an iterable of batches, such as a DataLoader or [x], got a {kind}")
    return batches


# further arguments of the model: fixed, or as a function of the batch
Further = tuple[Any, ...] | Callable[[Any], tuple[Any, ...]]
FurtherNamed = Mapping[str, Any] | Callable[[Any], Mapping[str, Any]]


class Call(NamedTuple):
    """What the model is called with for a batch."""

    x: Tensor  # what samples are counted by
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def first_row(self) -> "Call":
        """The same of one sample alone."""
        return Call(self.x[:1], *PerInput(self.args, self.kwargs, len(self.x)).rows(torch.tensor([0])))


def call_of(batch: Any, forward_args: Further = (), forward_kwargs: FurtherNamed | None = None) -> Call:
    """A tensor, or the first of a tuple, goes first; a mapping, such as a tokenizer gives, by its names."""
    x = checked_batch(batch)
    args = forward_args(batch) if callable(forward_args) else forward_args
    kwargs = forward_kwargs(batch) if callable(forward_kwargs) else forward_kwargs
    args = args if isinstance(args, tuple) else (args,)
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise PgigError(f"forward_kwargs must be a mapping, or a function that gives one, got {type(kwargs).__name__}")
    if isinstance(batch, Mapping):
        return Call(x, args, {**batch, **(kwargs or {})})
    return Call(x, (x, *args), dict(kwargs or {}))


def checked_batch(batch: Any) -> Tensor:
    if isinstance(batch, Mapping):
        x = next((value for value in batch.values() if isinstance(value, Tensor)), None)
    else:
        x = batch[0] if isinstance(batch, list | tuple) and batch else batch
    if not isinstance(x, Tensor):
        raise PgigError(
            f"a batch must be a tensor, a tuple that begins with one, or a mapping of names to tensors, got "
            f"{type(batch if isinstance(batch, Mapping) else x).__name__}"
        )
    if x.dim() == 0 or len(x) == 0:
        raise PgigError(f"a batch of shape {tuple(x.shape)} is empty")
    if x.is_floating_point() and not x.isfinite().all():
        raise PgigError("a batch has NaN or infinite values")
    return x.detach()


def samples_in(batches: Iterable[Any]) -> int | None:
    """How many samples there will be, where that is known."""
    if isinstance(batches, list | tuple):
        return sum(len(checked_batch(batch)) for batch in batches)
    dataset = getattr(batches, "dataset", None)
    return len(dataset) if isinstance(dataset, Sized) and not getattr(batches, "drop_last", False) else None


def fingerprint(x: Tensor) -> int:
    """A sum over samples, so that it does not depend on their order or batches."""
    rows = x.cpu().contiguous().flatten(1) if x.dim() > 1 else x.cpu()[:, None]
    digests = (blake2b(row.contiguous().view(torch.uint8).numpy().data, digest_size=8).digest() for row in rows)
    return sum(int.from_bytes(digest, "little") for digest in digests)
