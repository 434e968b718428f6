"""The command line: parses, calls, prints."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from pgig import __version__
from pgig.errors import PgigError
from pgig.methods import METHODS, PAPER_METHODS
from pgig.vision import MODELS, Preprocess, load_model
from pgig.vision.explain import (
    chosen_methods,
    explain_picture,
    predictions,
    read_classes,
    read_patterns,
    read_pictures,
    read_references,
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Explain neural networks with Pattern-Guided Integrated Gradients and its peers.",
)
console = Console()
errors = Console(stderr=True)


def run() -> None:
    """Every error that a user can mend is one line on standard error, and exit code 2."""
    try:
        app()
    except PgigError as error:
        sys.exit(_refused(str(error)))
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        sys.exit(_refused(f"{error.strerror or error}{where}"))
    except KeyboardInterrupt:
        sys.exit(130)


def _refused(reason: str) -> int:
    print("pgig:", " ".join(reason.split()), file=sys.stderr)  # noqa: T201
    return 2


def _version(wanted: bool) -> None:
    if wanted:
        console.print(__version__)
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Explain neural networks with Pattern-Guided Integrated Gradients and its peers."""


@app.command()
def methods() -> None:
    """List the attribution methods with their options.

    Example: `pgig methods`
    """
    table = Table(box=None, pad_edge=False)
    table.add_column("method", no_wrap=True)
    table.add_column("what it is")
    table.add_column("options")
    for name, method in METHODS.items():
        options = ", ".join(f"{key}={value}" for key, value in method.options.items())
        table.add_row(name, method.about, options, style=None if name in PAPER_METHODS else "dim")
    console.print(table)


Model = Annotated[
    str, typer.Option(help=f"One of {', '.join(MODELS)}; or `module:factory`, your own callable that returns a module.")
]
Weights = Annotated[
    str | None,
    typer.Option(help="A safetensors or .pth file, a URL, `default` (torchvision's, downloaded), or `random`."),
]
Numbers = Annotated[str, typer.Option(help="Three numbers, for values in 0..1 in the model's channel order.")]


@app.command()
def explain(
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE...", help="Image files.", show_default=False)],
    model: Model,
    weights: Weights = None,
    methods: Annotated[str, typer.Option(help="Names, comma between; or `all`: the paper's ten and random.")] = "all",
    target: Annotated[int | None, typer.Option(help="The class to explain; without, the predicted one.")] = None,
    patterns: Annotated[Path | None, typer.Option(help="Patterns of this model (safetensors).")] = None,
    references: Annotated[
        Path | None, typer.Option(help="Folder of images for expected_gradients; without, the other images given.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("explained"),
    save_arrays: Annotated[bool, typer.Option("--save-arrays", help="Also write the raw attributions.")] = False,
    classes: Annotated[Path | None, typer.Option(help="Class names, one per line, line = class index.")] = None,
    score: Annotated[str, typer.Option(help="`probability` or `logit`.")] = "probability",
    steps: Annotated[int | None, typer.Option(help="Steps of the paths; without, the paper's.")] = None,
    samples: Annotated[int | None, typer.Option(help="Noisy or reference samples; without, the paper's.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random draws.")] = 0,
    batch_size: Annotated[int | None, typer.Option(help="Points at once; without, by memory.")] = None,
    size: Annotated[int, typer.Option(help="Side of the centre crop.")] = 224,
    resize: Annotated[int, typer.Option(help="Short side before the crop.")] = 256,
    mean: Numbers = "0.485,0.456,0.406",
    std: Numbers = "0.229,0.224,0.225",
    channels: Annotated[str, typer.Option(help="`RGB` or `BGR`.")] = "RGB",
) -> None:
    """Show what mattered to a model in an image: predictions, a heat map per method, and a sheet of all.

    Examples:
    `pgig explain dog.jpg --model vgg16 --weights default`

    `pgig explain dog.jpg cat.jpg --model mynet:make --weights mynet.safetensors --methods integrated_gradients,vargrad`

    `pgig explain dog.jpg --model vgg16 --weights vgg16.pth --patterns vgg16-patterns.safetensors --target 207`
    """
    preprocess = Preprocess(size, resize, _three(mean, "mean"), _three(std, "std"), channels)  # type: ignore[arg-type]
    names = read_classes(classes) if classes else []
    pictures = read_pictures(images, preprocess)
    drawn_from = read_references(references, preprocess) if references else None
    chosen, left_out = chosen_methods(methods, patterns is not None, drawn_from is not None or len(pictures) > 1)
    given = {"steps": steps, "samples": samples}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    options |= {"score": score, "seed": seed, "batch_size": batch_size}
    options["patterns"] = read_patterns(patterns) if patterns else None
    network = load_model(model, weights)
    for line in left_out:
        console.print(line, style="yellow")
    for number, picture in enumerate(pictures):
        _print_predictions(picture.name, predictions(network, picture), names)
        others = [other.x for other in pictures[:number] + pictures[number + 1 :]]
        with _progress(f"{picture.name}: {len(chosen)} methods") as progress:
            explain_picture(
                network, picture, chosen, target, out, drawn_from if drawn_from is not None else others,
                save_arrays=save_arrays, progress=progress, **options,
            )  # fmt: skip
        console.print(f"wrote {out / picture.name}/sheet.png and {len(chosen)} heat maps", highlight=False)


def _three(text: str, what: str) -> tuple[float, float, float]:
    try:
        one, two, three = (float(number) for number in text.split(","))
    except ValueError:
        raise PgigError(f"--{what} needs three numbers with commas between, got {text!r}") from None
    return one, two, three


def _print_predictions(name: str, likeliest: list[tuple[int, float]], names: list[str]) -> None:
    table = Table(title=name, title_justify="left", box=None, show_header=False, pad_edge=False)
    for index, probability in likeliest:
        label = names[index] if index < len(names) else ""
        table.add_row(f"{100 * probability:5.1f} %", f"class {index}", label)
    console.print(table)


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int, int], object]]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} points"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=errors, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
