"""The candidates of study/questions.md: lines of the vocabulary, or small classes; `candidates:consensus` names one."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from pgig.errors import PgigError
from pgig.explainers.methods import MethodExplainer, explain_methods
from pgig.explainers.protocol import Needs
from pgig.methods import rules
from pgig.methods.points import NoisyLines, References
from pgig.methods.table import METHODS, Method
from pgig.patterns.patterns import Patterns
from pgig.subject.context import Context
from pgig.subject.subject import Subject

expected_pgig = Method(
    References(49), rules.pattern, multiply_by_input=True, start="score",
    about="PGIG with baselines drawn from data",
)  # fmt: skip
smoothed_pgig = Method(
    NoisyLines(5, 5, 0.15), rules.pattern, multiply_by_input=True, start="score",
    about="PGIG of noisy inputs",
)  # fmt: skip


@dataclass(frozen=True)
class _Fixed:
    """What all candidates that are no plain method share: they have no options."""

    @property
    def options(self) -> Mapping[str, Any]:
        return {}

    @property
    def shares(self) -> Hashable | None:
        return None

    def with_options(self, **values: Any) -> Self:
        if values:
            raise PgigError("a candidate has no options to tune")
        return self


@dataclass(frozen=True)
class MeanPgig(_Fixed):
    """PGIG along a line from the mean of the data."""

    about = "PGIG from the mean of the data"

    @property
    def needs(self) -> Needs:
        return Needs(patterns=True, references=True)

    def explain(self, subject: Subject, x: Tensor, target: Tensor, context: Context) -> Tensor:
        if not isinstance(context.references, Tensor):
            raise PgigError("the mean of the data needs references", lacks="references")
        mean = context.references.mean(0, keepdim=True).expand_as(x)
        moved = Context(
            score=context.score, seed=context.seed, ids=context.ids, baseline=mean, batch_size=context.batch_size,
            progress=context.progress,
        )  # fmt: skip
        return MethodExplainer(METHODS["pgig"]).explain(subject, x, target, moved)


@dataclass(frozen=True)
class Consensus(_Fixed):
    """The mean of the ranks of integrated gradients and of PGIG's magnitudes, over pixels; they share their passes."""

    about = "Mean rank of integrated gradients and |PGIG|"

    @property
    def needs(self) -> Needs:
        return Needs(patterns=True)

    def explain(self, subject: Subject, x: Tensor, target: Tensor, context: Context) -> Tensor:
        views = {
            "signed": MethodExplainer(METHODS["integrated_gradients"]),
            "magnitudes": MethodExplainer(METHODS["pgig"], absolute=True),
        }
        found = explain_methods(views, subject, x, target, context)
        ranks = [pixel_ranks(each) for each in found.values()]
        return ((ranks[0] + ranks[1]) / 2 / x.shape[1]).expand_as(x).to(x.dtype).clone()


def pixel_ranks(attribution: Tensor) -> Tensor:  # [n, channels, height, width] -> [n, 1, height, width]
    """Each pixel's place among those of its image, 0 to 1, by the sum over channels; equal ones as they lie."""
    summed = attribution.double().sum(1).flatten(1)
    places = summed.argsort(dim=1, stable=True).argsort(dim=1).double()
    return (places / max(1, summed.shape[1] - 1)).reshape(len(attribution), 1, *attribution.shape[2:])


def blended(patterns: Patterns) -> Patterns:
    """Between w * p and w by each layer's signal quality rho on held-out data: p' = rho p + (1 - rho)."""
    quality = patterns.facts.get("quality")
    if not quality:
        raise PgigError("these patterns do not say how well they catch the signal", lacks="held-out images")
    tensors = {}
    for name, pattern in patterns.items():
        rho = min(1.0, max(0.0, quality[name][1])) if quality.get(name) else 1.0
        tensors[name] = rho * pattern + (1 - rho) * torch.ones_like(pattern)
    return Patterns(tensors, patterns.digest, patterns.layers, {**patterns.facts, "blended": True})


mean_pgig = MeanPgig()
consensus = Consensus()
