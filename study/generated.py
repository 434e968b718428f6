"""The study on the embedded networks, whose generated images are smaller: the same measures, patches of four pixels."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy
import torch
from candidates import blended
from published import DIGITS, is_published
from settings import DECIDES, DECIDES_NOTHING, MAIN, Planned
from torch import Tensor

from pgig.explainers.protocol import Explainer
from pgig.explainers.registry import explainers
from pgig.explainers.together import explain_group
from pgig.measures import Setting, judge_of
from pgig.patterns.choice import patterns_by_quality
from pgig.patterns.estimation import estimate_moments
from pgig.patterns.patterns import Patterns
from pgig.patterns.quality import signal_quality
from pgig.records.measures import asked_measure
from pgig.records.tables import write_csv
from pgig.subject.subject import Subject
from pgig.synthetic import embedded, embedded_patterns
from pgig.synthetic.images import SETTINGS, samples
from pgig.synthetic.truth import TruthImages

EMBEDDED = "embedded-plain", "embedded-bn"
IMAGES = {"many": 34, "few": 8}  # of each of the three settings: 102 and 24
BATCHES = 24  # of 50 generated images, for patterns
GRID = {"patch": 4, "steps": 40}


def run_generated(network: str, tables: Path) -> None:
    """What is not published yet."""
    folder, model = tables / network, embedded(network.removeprefix("embedded-"))  # type: ignore[arg-type]
    patterns: dict[str, Patterns] = {}
    for planned in (*DECIDES, *DECIDES_NOTHING):
        name = f"{planned.name}-0"
        if planned.patterns == "shared" or is_published(folder, name):  # these networks have no joins
            continue
        if planned.patterns not in patterns:
            patterns[planned.patterns] = patterns_of(model, planned.patterns)
        print(f"{network}: {planned.name}", flush=True)
        found = measured(Subject(model, patterns[planned.patterns]), planned)
        if found.curves:
            points = max(len(curves[0]) for curves in found.curves.values())
            write_csv(
                folder / f"{name}-curves.csv", ["measure", "method", *map(str, range(points))], found.mean_curves()
            )
        write_csv(folder / f"{name}.csv", ["photograph", "method", *planned.measures], found.rows)


def patterns_of(model: torch.nn.Module, name: str) -> Patterns:
    """From generated images of all settings; those kept out are further ones."""
    held_out = [samples(setting, 50, first=10_000, purpose="patterns").x for setting in SETTINGS]
    if name == "quality":
        return patterns_by_quality(model, estimate_moments(model, generated_batches(), "quality"), held_out)
    patterns = embedded_patterns(model)
    if name != "blended":
        return patterns
    return blended(patterns.with_quality(signal_quality(model, patterns, held_out)))


def generated_batches() -> list[Tensor]:
    return [
        samples(s, 50, first=50 * n, purpose="patterns").x for n in range(BATCHES // len(SETTINGS)) for s in SETTINGS
    ]


@dataclass
class Found:
    """What was measured of images and methods, setting by setting."""

    rows: list[list[object]] = field(default_factory=list)
    curves: dict[tuple[str, str], list[Tensor]] = field(default_factory=dict)  # measure, method -> of each image

    def mean_curves(self) -> Iterator[list[object]]:
        for (label, method), curves in self.curves.items():
            yield [label, method, *(f"{value:.4f}" for value in torch.stack(curves).mean(0).tolist())]


def measured(subject: Subject, planned: Planned) -> Found:
    """On images that the network gets right, of every setting."""
    table = explainers(planned.methods)
    found = Found()
    for setting in SETTINGS:
        print(f"  {setting}", flush=True)
        drawn = TruthImages.of(setting, subject.module, 2 * IMAGES["many"], 0)
        chosen = list(drawn.chosen[: IMAGES[planned.use]])
        names = [f"{setting}-{number}" for number in chosen]
        shown = Shown(subject, table, drawn.drawn.x[chosen], drawn.drawn.label[chosen], names, drawn.references)
        columns = {label: shown.judged(label, found.curves) for label in planned.measures}
        found.rows += [
            [image, method, *(f"{columns[label][method][place]:.{DIGITS}g}" for label in planned.measures)]
            for place, image in enumerate(names)
            for method in table
        ]
    return found


@dataclass(frozen=True)
class Shown:
    """Images of a setting, explained once."""

    subject: Subject
    table: Mapping[str, Explainer]
    x: Tensor
    label: Tensor
    names: Sequence[str]
    references: Tensor

    @cached_property
    def attributions(self) -> dict[str, Tensor]:
        return self.explain(self.x)

    def explain(self, x: Tensor) -> dict[str, Tensor]:
        context = Setting(ids=self.names, references=self.references)
        return explain_group(self.table, self.subject, x, self.label, context)

    def judged(self, label: str, curves: dict[tuple[str, str], list[Tensor]]) -> dict[str, Sequence[float]]:
        """The column that ranks, by method; with patches for small images. Curves are added to."""
        constants = asked_measure(label, {}).measure.constants
        own = [f"{constant.name}={GRID[constant.name]}" for constant in constants if constant.name in GRID]
        asked = asked_measure("+".join([label, *own]), {})
        setting = Setting(ids=self.names, explain=self.explain)
        records = judge_of(asked)(self.subject, self.x, self.label, self.attributions, setting)
        for method, of_images in records.items():
            if label in MAIN:
                curves.setdefault((label, method), []).extend(torch.as_tensor(of_images))
        return {m: asked.columns_of(numpy.asarray(r))[asked.measure.ranks_by].tolist() for m, r in records.items()}
