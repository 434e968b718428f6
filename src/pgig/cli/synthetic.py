"""pgig stress, pgig truth, pgig demo"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, get_args

import typer
from rich.table import Table

from pgig.cli.app import app
from pgig.cli.options import Threads
from pgig.cli.terminal import console, errors, progress_of, shortened
from pgig.errors import PgigError
from pgig.explainers.registry import explainers, needs_patterns
from pgig.files import check_target
from pgig.synthetic import TruthTest, embedded, embedded_patterns, stress_test, truth_test
from pgig.synthetic.images import CLASSES, SETTINGS, pixels
from pgig.synthetic.networks import Variant
from pgig.synthetic.stress import FOLLOWS, LEAVES_ALONE, STRESS_METHODS, authors_patterns, stress_data

Out = Annotated[Path, typer.Option(help="Folder to write to.")]
EmbeddedModel = Annotated[str, typer.Option("--model", help="The embedded network: `plain`, or `bn` with batch norm.")]


@app.command()
def stress(
    out: Out = Path("stress"),
    seed: Annotated[int, typer.Option(help="Seed of the noise; 42 gives the published inputs.")] = 42,
    steps: Annotated[int, typer.Option(help="Steps of the paths.")] = 100,
    method: Annotated[
        list[str] | None,
        typer.Option(help="Names, comma between; `all`; `module:name`: a function of (model, inputs, targets)."),
    ] = None,
    published_patterns: Annotated[
        bool, typer.Option("--published-patterns", help="Those of the authors' code in place of estimated ones.")
    ] = False,
    threads: Threads = None,
) -> None:
    """Run the paper's stress test: does a method follow the signal on a plateau, and leave a distractor alone?

    Writes figure 2 (stress.png), its numbers (stress.csv) and the verdicts (verdicts.csv).

    Examples:
    `pgig stress`

    `pgig stress --method all --out stress-all`

    `pgig stress --method pgig --method mymodule:my_explainer`
    """
    from pgig.report.synthetic import verdict_rows, write_stress  # matplotlib is slow to load: only where it draws

    check_target(out / "stress.csv")
    patterns = authors_patterns(stress_data(seed)[1]) if published_patterns else None
    with progress_of("stress test") as progress:
        test = stress_test(method or STRESS_METHODS, seed=seed, steps=steps, patterns=patterns, progress=progress)
    write_stress(test, out)
    table = Table(box=None, pad_edge=False)
    for number, head in enumerate(("method", "signal", "output", "follows it", "distractor", "of IG's", "alone")):
        table.add_column(head, justify="right" if number else "left", no_wrap=not number)
    for name, *row in verdict_rows(test):
        table.add_row(shortened(str(name)), *(f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row))
    console.print(table)
    console.print(
        f"signal: the mean |attribution| of x1 on the plateau, which follows the output if within {FOLLOWS:.0%} of it; "
        f"distractor: that of x2, which is left alone if at most {LEAVES_ALONE:.0%} of integrated gradients'",
        highlight=False,
    )
    console.print(f"wrote {out / 'stress.png'}, stress.csv and verdicts.csv", highlight=False, soft_wrap=True)


@app.command()
def truth(
    out: Out = Path("truth"),
    setting: Annotated[
        list[str] | None, typer.Option(help=f"{', '.join(SETTINGS)}; several times for several; without, all.")
    ] = None,
    methods: Annotated[
        str, typer.Option(help="Names, comma between; `all`; `module:name` for your own or Captum-style explainers.")
    ] = "all",
    images: Annotated[int, typer.Option(help="Images per setting.")] = 256,
    model: EmbeddedModel = "plain",
    score: Annotated[str, typer.Option(help="`probability` or `logit`.")] = "probability",
    seed: Annotated[int, typer.Option(help="Seed of the images.")] = 0,
    threads: Threads = None,
) -> None:
    """Measure methods on generated images whose truth is known: which pixels carry the class.

    Writes truth.csv (means with intervals), truth-images.csv (every image), truth-comparisons.csv (PGIG, or the first
    method, against the others), truth.png and a sheet of examples per setting.

    Examples:
    `pgig truth --images 64`

    `pgig truth --setting suppressor --methods pgig,integrated_gradients,captum.attr:Saliency`
    """
    from pgig.report.page import write_figure
    from pgig.report.synthetic import write_truth
    from pgig.report.truth import truth_bars

    chosen = list(dict.fromkeys(setting or SETTINGS))
    for name in chosen:
        if name not in SETTINGS:
            raise PgigError(f"unknown setting {name!r}; choose one of: {', '.join(SETTINGS)}")
    check_target(out / "truth.csv")
    if images < 1:
        raise PgigError(f"at least one image is needed, got {images}")
    table = explainers(methods)
    network = embedded(_variant(model))
    patterns = None
    if needs_patterns(table):
        with progress_of("estimating patterns", "images") as progress:
            patterns = embedded_patterns(network, progress=progress)
    tests = {}
    for name in chosen:
        with progress_of(f"{name}: {len(table)} methods", "images") as progress:
            tests[name] = truth_test(
                name, table, model=network, images=images, seed=seed, score=score,  # type: ignore[arg-type]
                patterns=patterns, progress=progress,
            )  # fmt: skip
        _print_truth(tests[name])
        _write_examples(tests[name], out)
    for stale in {*out.glob("examples-*.png")} - {out / f"examples-{name}.png" for name in tests}:
        stale.unlink()  # of an earlier test in the same folder
    (out / "truth-comparisons.csv").unlink(missing_ok=True)
    write_truth(tests, out, "pgig" if "pgig" in table else next(iter(table)) if len(table) > 1 else None)
    write_figure(truth_bars({name: test.table() for name, test in tests.items()}, "precision, |a|"), out / "truth.png")
    console.print(
        "± is half of the 95 % bootstrap interval; chance is an explanation that says nothing", highlight=False
    )
    made = ", ".join(sorted(path.name for path in out.iterdir() if path.is_file()))
    console.print(f"in {out}: {made}", highlight=False, soft_wrap=True)


@app.command()
def demo(
    out: Out = Path("demo"),
    model: EmbeddedModel = "plain",
    images: Annotated[int, typer.Option(help="Images per setting with known truth.")] = 16,
    threads: Threads = None,
) -> None:
    """Show the whole product on the embedded default, without any download; writes one page, OUT/index.html.

    Example: `pgig demo --out demo`
    """
    from pgig.runs.demo import run_demo

    found = run_demo(out, _announced, model=_variant(model), images=images)
    console.print(f"the page is {found.page.resolve()}: open it in a browser", highlight=False, soft_wrap=True)


def _announced(what: str, unit: str) -> AbstractContextManager[Callable[[int, int], object]]:
    """Off a terminal, at least a line at the beginning of each stage."""
    if not errors.is_terminal:
        errors.print(f"{what} ...", highlight=False)
    return progress_of(what, unit)


def _variant(model: str) -> Variant:
    for variant in get_args(Variant):
        if model == variant:
            return variant  # type: ignore[no-any-return]
    raise PgigError(f"unknown embedded network {model!r}; choose one of: {', '.join(get_args(Variant))}")


def _print_truth(test: TruthTest) -> None:
    found = test.table()
    title = f"{test.setting}: {len(test.ids)} images explained, those that the network knew ({test.accuracy:.1%})"
    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    table.add_column("method", no_wrap=True)
    for column in found["chance"]:
        table.add_column(column.replace("precision", "prec"), justify="right")
    for name, row in found.items():
        table.add_row(shortened(name, 20), *(f"{f.mean:.2f}±{(f.high - f.low) / 2:.2f}" for f in row.values()))
    console.print(table)


def _write_examples(test: TruthTest, out: Path) -> None:
    from pgig.report.synthetic import write_sheet

    titles = [CLASSES[label] for label in test.examples.label.tolist()]
    write_sheet(
        out / f"examples-{test.setting}.png", list(pixels(test.examples.x)), list(test.examples.mask),
        {name: list(found) for name, found in test.example_attributions.items()}, titles,
    )  # fmt: skip
