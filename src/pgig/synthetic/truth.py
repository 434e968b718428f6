"""The known-truth test: which methods find the pixels that carry the class?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy
import torch
from torch import Tensor, nn

from pgig.errors import PgigError
from pgig.explainers.registry import explainers
from pgig.explainers.together import explain_group, needing_patterns
from pgig.methods.rules import plain
from pgig.patterns.estimation import estimate_patterns
from pgig.patterns.patterns import Patterns
from pgig.patterns.regimes import Regimes
from pgig.statistics import Comparison, Interval, compare, corrected, interval
from pgig.subject.context import Context
from pgig.subject.scores import Score
from pgig.subject.subject import Subject
from pgig.synthetic.images import SETTINGS, Samples, samples
from pgig.synthetic.metrics import COLUMNS, Scores, chance, truth_scores
from pgig.synthetic.networks import Variant, embedded

_BATCH = 16


@dataclass(frozen=True)
class TruthTest:
    """What a test found, image by image."""

    setting: str
    accuracy: float  # of the model on the images drawn; those it gets wrong are not explained
    ids: tuple[int, ...]  # the sample numbers of the images explained
    scores: Mapping[str, Scores]  # by method; beside them "chance"
    examples: Samples
    example_attributions: Mapping[str, Tensor]

    def table(self) -> dict[str, dict[str, Interval]]:
        """Means with bootstrap intervals, by method and column."""
        return {name: {c: interval(found[c]) for c in COLUMNS} for name, found in self.scores.items()}

    def against(self, method: str) -> dict[str, dict[str, Comparison]]:
        """`method` against every other, image by image; p-values corrected for the number of others in a column."""
        if method not in self.scores:
            raise PgigError(f"no method {method!r} in this test; there are {', '.join(self.scores)}")
        others = [name for name in self.scores if name != method]
        found = {name: {c: compare(self.scores[method][c], self.scores[name][c]) for c in COLUMNS} for name in others}
        for column in COLUMNS:
            for name, pair in corrected({name: found[name][column] for name in others}).items():
                found[name][column] = pair
        return found


def embedded_patterns(
    model: nn.Module,
    images: int = 1200,
    progress: Callable[[int, int], object] | None = None,
    regime: Regimes = "auto",
) -> Patterns:
    """The recipe of the embedded networks' patterns: generated images of all settings in equal parts."""
    if images < len(SETTINGS):
        raise PgigError(f"patterns need at least {len(SETTINGS)} images, one of each setting, got {images}")
    each = images // len(SETTINGS)
    firsts = range(0, each, 50)
    batches = [
        samples(setting, min(50, each - first), first=first, purpose="patterns").x
        for first in firsts
        for setting in SETTINGS
    ]
    facts = {"generated": list(SETTINGS)}
    say = None if progress is None else lambda done, total: progress(done, total or done)
    return estimate_patterns(model, batches, regime, preprocessing=facts, progress=say)


def truth_test(
    setting: str,
    methods: str | Sequence[str] | Mapping[str, Any] = "all",
    *,
    model: Variant | nn.Module = "plain",
    images: int = 256,
    seed: int = 0,
    score: Score = "probability",
    patterns: Mapping[str, Tensor] | None = None,
    examples: int = 4,
    progress: Callable[[int, int], object] | None = None,
) -> TruthTest:
    """Explain generated images of a setting, and compare with the truth.

    methods: as `pgig.explain` takes them: names, methods, Captum's explainers, functions.
    model: an embedded network, or a classifier of the generated images of your own.
    patterns: without, estimated by `embedded_patterns`.
    """
    if images < 1:
        raise PgigError(f"at least one image is needed, got {images}")
    table = explainers(methods)
    if "chance" in table:
        raise PgigError("'chance' stands for an explanation that says nothing: give the explainer another name")
    network = embedded(model) if isinstance(model, str) and model in get_args(Variant) else model
    if not isinstance(network, nn.Module):
        raise PgigError(f"unknown model {model!r}; choose one of {', '.join(get_args(Variant))}, or pass a module")
    Subject(network).check([plain])
    if patterns is None and needing_patterns(table):
        patterns = embedded_patterns(network)
    subject = Subject(network, patterns)
    references = samples(setting, 64, seed=seed, purpose="references").x
    drawn = samples(setting, images, seed=seed)
    with torch.no_grad():
        right = torch.cat([network(x).argmax(1) for x in torch.split(drawn.x, 64)]) == drawn.label
    if not right.any():
        raise PgigError("the model classifies none of the images correctly: there is nothing to explain")
    chosen = right.nonzero()[:, 0].tolist()
    parts: dict[str, list[Scores]] = {name: [] for name in table}
    kept: dict[str, list[Tensor]] = {name: [] for name in table}
    for start in range(0, len(chosen), _BATCH):
        ids = chosen[start : start + _BATCH]
        context = Context(score=score, seed=seed, ids=ids, references=references)
        found = explain_group(table, subject, drawn.x[ids], drawn.label[ids], context)
        for name, attributions in found.items():
            parts[name].append(truth_scores(attributions, drawn.mask[ids]))
            kept[name].append(attributions[: max(0, examples - start)])
        if progress is not None:
            progress(start + len(ids), len(chosen))
    scores = {
        name: {c: numpy.concatenate([part[c] for part in found]) for c in COLUMNS} for name, found in parts.items()
    }
    scores["chance"] = chance(drawn.mask[chosen])
    shown = chosen[:examples]
    return TruthTest(
        setting,
        float(right.float().mean()),
        tuple(chosen),
        scores,
        Samples(drawn.x[shown], drawn.label[shown], drawn.mask[shown]),
        {name: torch.cat(found) for name, found in kept.items()},
    )
