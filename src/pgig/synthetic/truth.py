"""The known-truth test: which methods find the pixels that carry the class?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pgig.errors import PgigError
from pgig.explainers.protocol import Explainer
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
    """What a test found, image by image: see `truth_test`.

    setting, ids: which images. accuracy: of the network on them. scores: method -> measure -> [n]. examples,
    example_attributions: a few to be drawn. A value; errors are those of `truth_test`.

    >>> test = pgig.synthetic.truth_test("white", ["gradient", "pgig"], images=4)
    >>> sorted(test.table()), test.examples.x.shape[1:]
    (['chance', 'gradient', 'pgig'], torch.Size([3, 64, 64]))
    >>> all(0 <= pair.p <= 1 for pair in test.against("pgig")["gradient"].values())
    True
    """

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
    """The recipe of the embedded networks' patterns: generated images of all settings in equal parts.

    model: the network. images: how many, in all. progress: called with (images done, images in all).
    regime: as for `pgig.estimate_moments`, and with its errors.

    >>> len(pgig.synthetic.embedded_patterns(pgig.synthetic.embedded(), images=150))
    6
    """
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
    images: how many are explained. seed: of the images. score: as for `pgig.attribute`. examples: images to keep for
    drawing.
    progress: called with (points done, points in all).

    Raises PgigError for a setting or methods that there are not, and patterns that do not fit; torch's own errors for a
    model that does not take 64 x 64 images.

    >>> test = pgig.synthetic.truth_test("white", "gradient", images=4)
    >>> sorted(test.scores), test.accuracy > 0.5
    (['chance', 'gradient'], True)
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
    shown = TruthImages.of(setting, network, images, seed)
    subject = Subject(network, patterns)
    parts: list[TruthPart] = []
    for ids in shown.batches:
        parts.append(explained_part(table, subject, shown, ids, score))
        if progress is not None:
            progress(sum(len(part.ids) for part in parts), len(shown.chosen))
    return gathered(setting, shown, parts, examples)


@dataclass(frozen=True)
class TruthImages:
    """The images of a test, and which of them are explained: those that the model gets right."""

    drawn: Samples
    references: Tensor
    chosen: tuple[int, ...]
    accuracy: float
    seed: int

    @staticmethod
    def of(setting: str, network: nn.Module, images: int, seed: int) -> "TruthImages":
        drawn = samples(setting, images, seed=seed)
        with torch.no_grad():
            right = torch.cat([network(x).argmax(1) for x in torch.split(drawn.x, 64)]) == drawn.label
        if not right.any():
            raise PgigError("the model classifies none of the images correctly: there is nothing to explain")
        references = samples(setting, 64, seed=seed, purpose="references").x
        return TruthImages(drawn, references, tuple(right.nonzero()[:, 0].tolist()), float(right.float().mean()), seed)

    @property
    def batches(self) -> list[tuple[int, ...]]:
        """Those explained together."""
        return [self.chosen[start : start + _BATCH] for start in range(0, len(self.chosen), _BATCH)]


@dataclass(frozen=True)
class TruthPart:
    ids: tuple[int, ...]
    scores: Mapping[str, Scores]  # by method
    attributions: Mapping[str, NDArray[numpy.float32]]  # of all images


def explained_part(
    table: Mapping[str, Explainer], subject: Subject, shown: TruthImages, ids: tuple[int, ...], score: Score
) -> TruthPart:
    rows, drawn = list(ids), shown.drawn
    context = Context(score=score, seed=shown.seed, ids=rows, references=shown.references)
    found = explain_group(table, subject, drawn.x[rows], drawn.label[rows], context)
    return TruthPart(
        ids,
        {name: truth_scores(attributions, drawn.mask[rows]) for name, attributions in found.items()},
        {name: attributions.detach().numpy() for name, attributions in found.items()},
    )


def gathered(setting: str, shown: TruthImages, parts: Sequence[TruthPart], examples: int = 4) -> TruthTest:
    """parts: in the order of the images."""
    methods = list(parts[0].scores)
    scores = {m: {c: numpy.concatenate([part.scores[m][c] for part in parts]) for c in COLUMNS} for m in methods}
    scores["chance"] = chance(shown.drawn.mask[list(shown.chosen)])
    first = list(shown.chosen[:examples])
    kept = {m: numpy.concatenate([part.attributions[m] for part in parts])[:examples] for m in methods}
    return TruthTest(
        setting,
        shown.accuracy,
        shown.chosen,
        scores,
        Samples(shown.drawn.x[first], shown.drawn.label[first], shown.drawn.mask[first]),
        {m: torch.from_numpy(found) for m, found in kept.items()},
    )
