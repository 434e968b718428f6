"""Completeness: how far an attribution's sum is from the change of the score along the path."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from pgig.attribution.chunks import ChunkSize
from pgig.errors import PgigError
from pgig.subject.context import BatchSize
from pgig.subject.inputs import Baseline, Inputs, PerInput, Tensors
from pgig.subject.rows import check_rows
from pgig.subject.scores import Explained, Score, Target
from pgig.subject.subject import Subject

_ROWS = 64  # inputs at a time


def completeness(
    attribution: Tensors,
    model: Callable[..., Any] | Subject,
    inputs: Tensors,
    target: Target = None,
    *,
    score: Score = "probability",
    baseline: Baseline = 0,
    batch_size: BatchSize = None,
    forward_args: Any = (),
    forward_kwargs: dict[str, Any] | None = None,
) -> Tensor:
    """`sum(attribution) - (f(x) - f(x0))`, one number per input.

    A law for integrated gradients: it goes to zero as the steps grow. For pgig and every other method it is the
    honest residual and no law: patterns do not conserve the sum.

    batch_size: inputs at once; "whole" for a model that mixes the rows of its batch, where only the sum over the batch
        goes to zero.

    attribution: as `attribute` gave it. model, inputs, target, score, baseline, forward_args, forward_kwargs: what it
        was given. Raises PgigError where shapes do not fit.

    >>> model, x = torch.nn.Linear(2, 3).eval(), torch.ones(1, 2)
    >>> a = pgig.attribute("integrated_gradients", model, x, 0, score="logit")
    >>> bool(pgig.completeness(a, model, x, 0, score="logit").abs() < 1e-5)
    True
    """
    batch = Inputs(inputs, baseline, None)
    subject = Subject.of(model)
    subject.check([])
    parts = attribution if isinstance(attribution, tuple) else (attribution,)
    if [part.shape for part in parts] != [x.shape for x in batch.members]:
        raise PgigError(f"an attribution of shape {[tuple(p.shape) for p in parts]} is not one of these inputs")
    explained = Explained(score, target, batch.count, whole=batch_size == "whole")
    further = PerInput(forward_args, forward_kwargs, batch.count)

    def outputs(inputs: Sequence[Tensor], rows: list[int]) -> Any:
        args, kwargs = further.rows(torch.tensor(rows))
        return subject(*(x.clone() for x in inputs), *args, **kwargs)

    ChunkSize(batch.count if batch_size == "whole" else batch_size, batch.device)  # refuses what is no size
    if batch_size != "whole" and batch.count > 1:
        check_rows(
            subject, batch.members, batch.at_baseline(), score, lambda x, rows: explained.judged(outputs(x, rows)),
            alone=batch_size == 1, further=further.look,
        )  # fmt: skip
    change = []
    at_once = batch.count if batch_size == "whole" else batch_size or _ROWS
    for rows in torch.split(torch.arange(batch.count), at_once):
        listed = rows.tolist()
        with torch.no_grad():
            output = outputs([x[rows] for x in batch.members], listed)
            explained.predict(output, listed)
            at_input = explained(output, listed)
            at_baseline = explained(outputs([x0[rows] for x0 in batch.at_baseline()], listed), listed)
        change.append(at_input - at_baseline)
    total = torch.stack([part.detach().reshape(batch.count, -1).sum(1) for part in parts]).sum(0)
    changes = torch.cat(change)
    return (
        total if len(changes) == batch.count else total.sum()
    ) - changes  # one number for a whole batch, or one each
