"""The whole main job on one page: photographs on a real network, the stress test, known truth, degradation."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy
from numpy.typing import NDArray
from torch import nn

from pgig.degradation import DenseEvaluator, Protocol, degrade, scored_by
from pgig.errors import PgigError
from pgig.explainers.reading import drawn_by_magnitude
from pgig.files import check_target, written
from pgig.methods.table import METHODS
from pgig.patterns.patterns import Patterns
from pgig.report.curves import bands_of, curves_figure
from pgig.report.explained import believing, shown
from pgig.report.page import write_figure, write_page
from pgig.report.synthetic import VERDICT_HEAD, verdict_rows, write_sheet, write_stress, write_truth
from pgig.report.truth import truth_bars
from pgig.runs.photographs import explain_photographs
from pgig.statistics import Interval, auc
from pgig.synthetic import StressTest, TruthTest, embedded, embedded_patterns, stress_test, truth_test
from pgig.synthetic.images import CLASSES, SETTINGS, pixels
from pgig.synthetic.networks import Variant
from pgig.synthetic.stress import FOLLOWS, LEAVES_ALONE

# a context that shows progress of what is named, counted in a unit
Stage = Callable[[str, str], AbstractContextManager[Callable[[int, int], object]]]
_COLUMN = "precision, |a|"
_PROTOCOL = Protocol(patch=4, steps=40)
_EXAMPLES = 6  # of each setting, for the sheet and the curves


@dataclass(frozen=True)
class Demo:
    page: Path
    patterns: Patterns
    stress: StressTest
    truth: dict[str, TruthTest]


def run_demo(out: Path, stage: Stage, *, model: Variant = "plain", images: int = 16, seed: int = 0) -> Demo:
    """Write `out`/index.html with the figures and tables beside it."""
    if images < 1:
        raise PgigError(f"at least one image is needed, got {images}")
    check_target(out / "index.html")
    with stage("explaining three photographs on EfficientNet-Lite0", "%") as progress:
        pictures, benchmarked = explain_photographs(out / "photographs", progress)
    network = embedded(model)
    with stage("estimating patterns", "images") as progress:
        patterns = embedded_patterns(network, progress=progress)
    patterns.save(out / "patterns.safetensors")
    with written(out / "health.txt") as path:
        path.write_text(f"{patterns.health()}\n", encoding="utf-8")
    stress = stress_test()
    stress_image = write_stress(stress, out)
    truth = {}
    for setting in SETTINGS:
        with stage(f"explaining images with known truth, {setting}", "images") as progress:
            truth[setting] = truth_test(
                setting,
                model=network,
                images=images,
                seed=seed,
                patterns=patterns,
                examples=_EXAMPLES,
                progress=progress,
            )
    write_truth(truth, out, "pgig")
    with stage("replacing patches", "settings") as progress:
        curves = _curves(network, truth, progress)
    areas = {name: float(auc(of_images).mean()) for name, of_images in curves.items()}
    drawn = curves_figure(
        bands_of(curves), f"{len(curves['pgig'])} generated images, patches of {_PROTOCOL.patch} x {_PROTOCOL.patch}"
    )
    tables = {setting: test.table() for setting, test in truth.items()}
    write_page(
        out / "index.html",
        "demo.html",
        pictures=pictures,
        benchmarked=benchmarked,
        believing=believing,
        shown=shown,
        model=model,
        health=str(patterns.health()),
        verdict=patterns.health().verdict,
        samples=patterns.facts["samples"],
        stress_image=stress_image,
        verdict_head=VERDICT_HEAD,
        verdicts=verdict_rows(stress),
        follows=FOLLOWS,
        leaves_alone=LEAVES_ALONE,
        sheet=_sheet(truth, out),
        bars=write_figure(truth_bars(tables, _COLUMN), out / "truth.png"),
        column=_COLUMN,
        curves=write_figure(drawn, out / "degradation.png"),
        settings={name: setting.about for name, setting in SETTINGS.items()},
        tables=tables,
        best={setting: best_of(table, _COLUMN) for setting, table in tables.items()},
        places={setting: place_of(table, _COLUMN, "pgig") for setting, table in tables.items()},
        areas=dict(sorted(areas.items(), key=lambda item: item[1])),
        images={setting: len(test.ids) for setting, test in truth.items()},
        methods={name: METHODS[name].about for name in next(iter(truth.values())).example_attributions},
    )
    return Demo(out / "index.html", patterns, stress, truth)


def _curves(
    network: nn.Module, truth: dict[str, TruthTest], progress: Callable[[int, int], object]
) -> dict[str, NDArray[numpy.float64]]:
    """Degradation curves of the example images of all settings."""
    evaluator = DenseEvaluator(scored_by(network, "probability"))
    found: dict[str, list[NDArray[numpy.float64]]] = {}
    for number, test in enumerate(truth.values(), 1):
        grid = _PROTOCOL.grid(test.examples.x)
        sums = {name: grid.sums(a) for name, a in test.example_attributions.items()}
        # beside PGIG its magnitudes: its sign turns where an image is darker than the baseline
        sums |= {"pgig+absolute": grid.sums(test.example_attributions["pgig"].abs())}
        curves = degrade(evaluator, test.examples.x, test.examples.label, sums, _PROTOCOL, range(len(test.examples.x)))
        for name, curve in curves.items():
            found.setdefault(name, []).append(numpy.asarray(curve))
        progress(number, len(truth))
    return {name: numpy.concatenate(parts) for name, parts in found.items()}


def best_of(table: Mapping[str, Mapping[str, Interval]], column: str) -> str:
    """The method with the highest mean, of a table of known truth."""
    return max((name for name in table if name != "chance"), key=lambda name: table[name][column].mean)


def place_of(table: Mapping[str, Mapping[str, Interval]], column: str, method: str) -> tuple[int, int]:
    """Which place a method has, and of how many."""
    names = sorted((name for name in table if name != "chance"), key=lambda name: -table[name][column].mean)
    return names.index(method) + 1, len(names)


def _sheet(truth: dict[str, TruthTest], out: Path) -> str:
    """One image of each setting with all heat maps: the first of the first, the second of the second, ..."""
    shown = [(test, min(number, len(test.ids) - 1)) for number, test in enumerate(truth.values())]
    methods = list(shown[0][0].example_attributions)
    return write_sheet(
        out / "examples.png",
        [pixels(test.examples.x[i]) for test, i in shown],
        [test.examples.mask[i] for test, i in shown],
        {name: [test.example_attributions[name][i] for test, i in shown] for name in methods},
        [f"{test.setting}\n{CLASSES[int(test.examples.label[i])]}" for test, i in shown],
        drawn_by_magnitude(methods),
    )
