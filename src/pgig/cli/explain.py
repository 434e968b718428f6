"""pgig explain"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from pgig.cli.command import app
from pgig.cli.groups import grouped
from pgig.cli.hints import HINTS
from pgig.cli.options import MethodOptions, ModelOptions, PreprocessOptions, Threads, patterns_file
from pgig.cli.terminal import console, errors, progress_of, visible
from pgig.errors import PgigError

if TYPE_CHECKING:
    from pgig.runs.explaining import Explained


@dataclass(frozen=True)
class QuestionOptions:
    """What is asked of every picture."""

    target: Annotated[
        list[str] | None,
        typer.Option(
            help="A class to explain, by its number or name; several times for several. Without, the likeliest."
        ),
    ] = None
    contrast: Annotated[
        list[str] | None,
        typer.Option(help="Two classes, comma between: why the one rather than the other? Several times for several."),
    ] = None
    top: Annotated[int | None, typer.Option(help="Explain each of the K likeliest classes.")] = None
    classes: Annotated[
        Path | None, typer.Option(help="Class names, one per line, line = class index; a named model brings its own.")
    ] = None


@dataclass(frozen=True)
class QuickMethodOptions(MethodOptions):
    methods: Annotated[
        str,
        typer.Option(
            help="Names, comma between (`pgig methods`); `quick`: occlusion, guided_backprop, smooth_taylor, "
            "integrated_gradients and pgig; `all`: the paper's ten and random; variants such as `pgig+start=one`, "
            "and `module:name` for your own."
        ),
    ] = "quick"


@dataclass(frozen=True)
class OutputOptions:
    """What is written, and where."""

    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("explained")
    save_arrays: Annotated[
        bool, typer.Option("--save-arrays", help="Also write attributions with all that is known of them, and as .npy.")
    ] = False
    signed: Annotated[
        bool, typer.Option("--signed", help="Draw PGIG with its sign, which turns where a picture is dark.")
    ] = False
    formats: Annotated[str, typer.Option(help="Of the sheets, comma between: `png`, `svg`, `pdf`.")] = "png"
    as_json: Annotated[
        bool, typer.Option("--json", help="Print predictions, methods and files as JSON, and nothing else.")
    ] = False


@app.command()
@grouped
def explain(
    images: Annotated[
        list[Path],
        typer.Argument(
            metavar="IMAGE...", help="Image files; or folders, zip or tar files of them.", show_default=False
        ),
    ],
    network: ModelOptions,
    asked: QuickMethodOptions,
    questions: QuestionOptions,
    output: OutputOptions,
    image: PreprocessOptions,
    steps: Annotated[int | None, typer.Option(help="Steps of the paths; without, the paper's.")] = None,
    samples: Annotated[int | None, typer.Option(help="Noisy or reference samples; without, the paper's.")] = None,
    batch_size: Annotated[
        str | None, typer.Option(help="Points at once; without, by memory; `whole` for a model that mixes its rows.")
    ] = None,
    threads: Threads = None,
) -> None:
    """Show what mattered to a network in a picture: one page, OUT/index.html, that opens in any browser.

    For every picture the likeliest classes, and for each method a map over the picture, what its colours mean, and how
    far the score falls without what it ranks highest. Beside the page are heat maps and a sheet of all for papers.

    Examples:
    `pgig explain cat.jpg`

    `pgig explain photos/ --methods integrated_gradients,pgig,occlusion --save-arrays --formats png,pdf`

    `pgig explain cat.jpg --target "Egyptian cat" --target tabby --contrast "tiger cat,Egyptian cat"`

    `pgig explain dog.jpg --model vgg16 --weights vgg16.pth --patterns vgg16-patterns.safetensors --top 3`

    `pgig explain dog.jpg cat.jpg --model mynet:make --weights mynet.safetensors --methods all`
    """
    from pgig.runs.explaining import Explaining

    if str(output.out) in ("", "."):
        raise PgigError("--out is the working folder: name a folder for the results")
    work = Explaining(
        images=images, model=network.model, weights=network.weights,
        preprocess=image.preprocess(network.model, network.weights), methods=asked.methods,
        patterns_file=partial(patterns_file, asked.patterns), force=asked.force, references=asked.references,
        score=asked.score,
        seed=asked.seed, targets=questions.target or [], contrasts=questions.contrast or [], top=questions.top,
        classes=questions.classes, out=output.out, save_arrays=output.save_arrays, formats=_formats(output.formats),
        options={name: value for name, value in (("steps", steps), ("samples", samples)) if value is not None},
        batch_size=_batch_size(batch_size), signed=output.signed,
    )  # fmt: skip
    quiet = output.as_json
    for what, left_out in work.lacking.items():
        line = f"left out: {', '.join(left_out)} ({HINTS[what]})"
        errors.print(line, style="yellow", highlight=False, soft_wrap=True)
    for note in work.notes:
        errors.print(f"note: {note}", highlight=False, soft_wrap=True)
    done: list[Explained] = []
    try:
        for _ in work.pictures():
            with progress_of(f"{work.current}: {len(work.chosen)} methods", "%") as progress:
                explained = work.explain_current(progress)
            done.append(explained)
            if not quiet:
                _print_explained(explained)
    except KeyboardInterrupt:
        there = f"{len(done)} of {work.count} pictures are on {work.page}" if done else "no picture was finished"
        errors.print(f"stopped; {there}; finished maps are in {output.out}", highlight=False, soft_wrap=True)
        sys.exit(130)
    finally:
        work.close()
    _print_skipped(work.skipped, work.count)
    if quiet:
        print(json.dumps(work.facts(), indent=2))  # noqa: T201
    else:
        console.print(f"the page is {work.page.resolve()}: open it in a browser", highlight=False, soft_wrap=True)


def _print_explained(explained: "Explained") -> None:
    table = Table(title=visible(explained.name), title_justify="left", box=None, show_header=False, pad_edge=False)
    for name, index, probability in explained.predictions:
        table.add_row(f"{100 * probability:5.1f} %", f"class {index}", visible(name))
    console.print(table)
    for method in explained.blank:
        errors.print(f"{method} is zero everywhere: its map is blank", highlight=False)
    for method, reason in explained.left_out.items():
        errors.print(f"left out: {method} ({reason})", style="yellow", highlight=False, soft_wrap=True)


def _print_skipped(skipped: Mapping[str, str], count: int) -> None:
    for shown, reason in skipped.items():
        errors.print(f"skipped {shown}: {reason}", highlight=False, soft_wrap=True)
    if skipped:
        errors.print(f"{len(skipped)} of {count} images skipped", highlight=False)


def _formats(text: str) -> Sequence[str]:
    found = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not found or set(found) - {"png", "svg", "pdf"}:
        raise PgigError(f"--formats needs some of png, svg, pdf with commas between, got {text!r}")
    return found


def _batch_size(text: str | None) -> Any:
    if text is None or text == "whole":
        return text
    if not text.isdecimal():
        raise PgigError(f"--batch-size needs a whole number, or `whole`, got {text!r}")
    return int(text)
