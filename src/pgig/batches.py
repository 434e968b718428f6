"""Batches of data, as estimation takes them: checked, and known again by a fingerprint."""

from collections.abc import Iterable, Sized
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor

from pgig.errors import PgigError


def checked_batches(batches: Iterable[Any]) -> Iterable[Any]:
    if isinstance(batches, Tensor) or not isinstance(batches, Iterable):
        kind = type(batches).__name__
        raise PgigError(f"batches must be an iterable of batches, such as a DataLoader or [x], got a {kind}")
    return batches


def checked_batch(batch: Any) -> Tensor:
    x = batch[0] if isinstance(batch, list | tuple) and batch else batch
    if not isinstance(x, Tensor):
        raise PgigError(f"a batch must be a tensor, or a tuple that begins with one, got {type(x).__name__}")
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
