"""Completeness: how far an attribution's sum is from the change of the score along the path."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pgig.errors import PgigError
from pgig.inputs import Baseline, Inputs, PerInput, Tensors
from pgig.models import check_model
from pgig.scores import Explained, Score, Target

_ROWS = 64  # inputs at a time


def completeness(
    attribution: Tensors,
    model: Callable[..., Any],
    inputs: Tensors,
    target: Target = None,
    *,
    score: Score = "probability",
    baseline: Baseline = 0,
    forward_args: Any = (),
    forward_kwargs: dict[str, Any] | None = None,
) -> Tensor:
    """`sum(attribution) - (f(x) - f(x0))`, one number per input.

    A law for integrated gradients: it goes to zero as the steps grow. For pgig and every other method it is the
    honest residual and no law: patterns do not conserve the sum.
    """
    batch = Inputs(inputs, baseline, None)
    check_model(model, [], None)
    parts = attribution if isinstance(attribution, tuple) else (attribution,)
    if [part.shape for part in parts] != [x.shape for x in batch.members]:
        raise PgigError(f"an attribution of shape {[tuple(p.shape) for p in parts]} is not one of these inputs")
    explained = Explained(score, target, batch.count)
    further = PerInput(forward_args, forward_kwargs, batch.count)
    change = []
    for rows in torch.split(torch.arange(batch.count), _ROWS):
        args, kwargs = further.rows(rows)
        listed = rows.tolist()
        with torch.no_grad():
            output = model(*(x[rows] for x in batch.members), *args, **kwargs)
            explained.predict(output, listed)
            at_input = explained(output, listed)
            at_baseline = explained(model(*(x0[rows] for x0 in batch.at_baseline()), *args, **kwargs), listed)
        change.append(at_input - at_baseline)
    total = torch.stack([part.detach().reshape(batch.count, -1).sum(1) for part in parts]).sum(0)
    return total - torch.cat(change)
