"""The whole main job on the embedded default: patterns, explanations, the stress test and known truth, on one page."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from pgig.errors import PgigError
from pgig.files import check_target, written
from pgig.methods import METHODS
from pgig.patterns import Patterns
from pgig.report.page import write_figure, write_page
from pgig.report.synthetic import VERDICT_HEAD, verdict_rows, write_sheet, write_stress, write_truth
from pgig.report.truth import truth_bars
from pgig.synthetic import StressTest, TruthTest, embedded, embedded_patterns, stress_test, truth_test
from pgig.synthetic.images import CLASSES, SETTINGS, pixels
from pgig.synthetic.networks import Variant
from pgig.synthetic.stress import FOLLOWS, LEAVES_ALONE

# a context that shows progress of what is named, counted in a unit
Stage = Callable[[str, str], AbstractContextManager[Callable[[int, int], object]]]
_COLUMN = "precision, |a|"


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
                examples=len(SETTINGS),
                progress=progress,
            )
    write_truth(truth, out, "pgig")
    tables = {setting: test.table() for setting, test in truth.items()}
    write_page(
        out / "index.html",
        "demo.html",
        model=model,
        health=str(patterns.health()),
        samples=patterns.facts["samples"],
        stress_image=stress_image,
        verdict_head=VERDICT_HEAD,
        verdicts=verdict_rows(stress),
        follows=FOLLOWS,
        leaves_alone=LEAVES_ALONE,
        sheet=_sheet(truth, out),
        bars=write_figure(truth_bars(tables, _COLUMN), out / "truth.png"),
        column=_COLUMN,
        settings={name: setting.about for name, setting in SETTINGS.items()},
        tables=tables,
        images={setting: len(test.ids) for setting, test in truth.items()},
        methods={name: METHODS[name].about for name in next(iter(truth.values())).example_attributions},
    )
    return Demo(out / "index.html", patterns, stress, truth)


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
    )
