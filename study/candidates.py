"""The candidates of study/questions.md: lines of the vocabulary, or small classes; `candidates:consensus` names one."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from pgig.errors import PgigError
from pgig.explainers.consensus import Consensus, PatternConsensus
from pgig.explainers.methods import MethodExplainer
from pgig.explainers.occlusion import Occlusion
from pgig.explainers.protocol import Needs
from pgig.explainers.registry import explainers
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


class RememberedOcclusion(Occlusion):
    """Occlusion, which three methods of the study ask for in turn: the last answer is kept."""

    def explain(self, subject: Subject, x: Tensor, target: Tensor, context: Context) -> Tensor:
        asked = (self, context.score)
        if not (_last and _last[0] is subject and _last[1] == asked and all(map(torch.equal, _last[2], (x, target)))):
            found = super().explain(subject, x, target, context)
            _last[:] = [subject, asked, (x.clone(), target.clone()), found]
        return _last[3].clone()


_last: list[Any] = []  # the subject, what was asked, of what, and the answer


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
consensus = Consensus(
    explainers(["integrated_gradients", "pgig+absolute"]), "Mean rank of integrated gradients and |PGIG|"
)
consensus_ipa = Consensus(
    explainers(["integrated_gradients", "integrated_pattern_attribution+absolute"]),
    "Mean rank of integrated gradients and |PGIG without the factor|",
)
expected_consensus = Consensus(
    {
        "expected_gradients": MethodExplainer(METHODS["expected_gradients"]),
        "patterns": MethodExplainer(replace(expected_pgig, multiply_by_input=False), absolute=True),
    },
    "Mean rank of expected gradients and their pattern gradients by magnitude",
)
occlusion = RememberedOcclusion()
# occlusion, integrated gradients and |PGIG without the factor|
removal_consensus = PatternConsensus({**PatternConsensus().views, "removal": occlusion})
# no candidate: tells what the patterns bring to the one above
removal_control = Consensus(
    {"occlusion": occlusion, **explainers(["integrated_gradients"])}, "Mean rank without patterns"
)


def cost(method: str, side: int = 224) -> str:
    """Of a candidate, as the page names it, for one image: gradients, and windows of occlusion (passes without)."""
    name = method.partition(", ")[0].partition("+")[0]
    found = globals().get(name) or METHODS[name]
    if isinstance(found, MeanPgig):
        found = METHODS["pgig"]
    if isinstance(found, Method):
        return f"{found.points.count}"
    removal = [view for view in found.views.values() if isinstance(view, Occlusion)]
    windows = "".join(f" + {len(view.boxes(side, side))} windows" for view in removal)
    return f"{found.gradients}{windows}"
