"""pgig truth"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from pgig.cli.backend_options import BackendOptions
from pgig.cli.command import app
from pgig.cli.embedded import EmbeddedModel, Out, variant_of
from pgig.cli.groups import grouped
from pgig.cli.options import Threads
from pgig.cli.terminal import console, progress_of, shortened, standing_of
from pgig.errors import PgigError
from pgig.files import check_target

if TYPE_CHECKING:
    from pgig.synthetic import TruthTest


@app.command()
@grouped
def truth(
    place: BackendOptions,
    out: Out = Path("truth"),
    setting: Annotated[
        list[str] | None,
        typer.Option(help="`white`, `correlated`, `suppressor`; several times for several; without, all."),
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

    `pgig truth --images 1024 --backend processes --workers 4`

    `pgig truth --setting suppressor --methods pgig,integrated_gradients,captum.attr:Saliency`
    """
    from pgig.explainers.registry import explainers
    from pgig.explainers.together import needing_patterns
    from pgig.report.page import write_figure
    from pgig.report.synthetic import write_truth
    from pgig.report.truth import truth_bars
    from pgig.runs.truth import TruthJob, run_truth
    from pgig.synthetic import embedded, embedded_patterns
    from pgig.synthetic.images import SETTINGS

    chosen = list(dict.fromkeys(setting or SETTINGS))
    for name in chosen:
        if name not in SETTINGS:
            raise PgigError(f"unknown setting {name!r}; choose one of: {', '.join(SETTINGS)}")
    check_target(out / "truth.csv")
    if images < 1:
        raise PgigError(f"at least one image is needed, got {images}")
    table = explainers(methods)
    network = embedded(variant_of(model))
    patterns = None
    if needing_patterns(table):
        with progress_of("estimating patterns", "images") as progress:
            patterns = embedded_patterns(network, progress=progress)
    job = TruthJob(
        settings=tuple(chosen), methods=methods, model=variant_of(model), images=images, seed=seed,
        score=score, threads=threads,  # type: ignore[arg-type]
    )  # fmt: skip
    with standing_of(f"{', '.join(chosen)}: {len(table)} methods") as say:
        tests = run_truth(job, patterns, out, say, place.where())
    for test in tests.values():
        _print_truth(test)
        _write_examples(test, out)
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


def _print_truth(test: "TruthTest") -> None:
    found = test.table()
    title = f"{test.setting}: {len(test.ids)} images explained, those that the network knew ({test.accuracy:.1%})"
    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    table.add_column("method", no_wrap=True)
    for column in found["chance"]:
        table.add_column(column.replace("precision", "prec"), justify="right")
    for name, row in found.items():
        table.add_row(shortened(name, 20), *(f"{f.mean:.2f}±{(f.high - f.low) / 2:.2f}" for f in row.values()))
    console.print(table)


def _write_examples(test: "TruthTest", out: Path) -> None:
    from pgig.explainers.reading import drawn_by_magnitude
    from pgig.report.synthetic import write_sheet
    from pgig.synthetic.images import CLASSES, pixels

    titles = [CLASSES[label] for label in test.examples.label.tolist()]
    write_sheet(
        out / f"examples-{test.setting}.png", list(pixels(test.examples.x)), list(test.examples.mask),
        {name: list(found) for name, found in test.example_attributions.items()}, titles,
        drawn_by_magnitude(test.example_attributions),
    )  # fmt: skip
