"""Degradation: the score as patches are replaced in the order of an attribution."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy
from numpy.typing import NDArray
from torch import Tensor

from pgig.degradation import DenseEvaluator, Evaluator, Protocol, degrade, scored_by
from pgig.errors import PgigError
from pgig.subject.context import Context
from pgig.subject.inputs import checked_ids
from pgig.subject.subject import Subject


@dataclass(frozen=True)
class Degradation:
    """Records are the curves [n, steps + 1] of every method."""

    protocol: Protocol = field(default_factory=Protocol)
    evaluator: Evaluator | None = None  # without, whole forward passes

    def __call__(
        self, subject: Subject, x: Tensor, target: Tensor, attributions: Mapping[str, Tensor], context: Context
    ) -> dict[str, NDArray[numpy.float64]]:
        grid = self.protocol.grid(x)
        sums = {name: grid.sums(attribution) for name, attribution in attributions.items()}
        evaluator = self.evaluator
        if evaluator is None:
            if callable(context.score):
                raise PgigError("degradation takes the score 'probability' or 'logit', not a function")
            evaluator = DenseEvaluator(scored_by(subject, context.score))
        return self.of_sums(evaluator, x, target, sums, checked_ids(context.ids, len(x)), context.seed)

    def of_sums(
        self,
        evaluator: Evaluator,
        x: Tensor,
        target: Tensor,
        sums: Mapping[str, Tensor],
        ids: Sequence[Hashable],
        seed: int,
    ) -> dict[str, NDArray[numpy.float64]]:
        """The same from the sums [n, patches] of attributions over patches."""
        curves = degrade(evaluator, x, target, sums, self.protocol, ids, seed)
        return {name: curve.numpy() for name, curve in curves.items()}
