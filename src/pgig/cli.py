"""The command line: parses, calls, prints."""

import signal
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from safetensors import SafetensorError

from pgig import __version__
from pgig.errors import PgigError
from pgig.methods import METHODS, PAPER_METHODS
from pgig.patterns import Patterns
from pgig.preflight import check as preflight
from pgig.terminal import console, errors, progress_of, stoppable
from pgig.vision import MODELS, Preprocess, load_model
from pgig.vision.estimate import estimate_from_folder
from pgig.vision.explain import (
    chosen_methods,
    explain_picture,
    has_relu,
    predictions,
    read_classes,
    read_pictures,
    read_references,
)
from pgig.vision.folders import ImageFolder
from pgig.vision.preprocess import example as torch_example
from pgig.vision.published import PUBLISHED_PREPROCESS, read_published_patterns

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Explain neural networks with Pattern-Guided Integrated Gradients and its peers.",
)


def run() -> None:
    """Every error that a user can mend is one line on standard error, and exit code 2."""
    warnings.showwarning = lambda message, *_: print("pgig:", message, file=sys.stderr)  # noqa: T201
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that half-written files are removed
    try:
        app()
    except PgigError as error:
        sys.exit(_refused(str(error)))
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        sys.exit(_refused(f"{error.strerror or error}{where}"))
    except SafetensorError as error:  # a full disk, as its writer says it
        sys.exit(_refused(str(error)))
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
    typer.Option(
        help="A safetensors or .pth file, a URL, `default` (torchvision's, downloaded), `random`, or the published "
        "VGG-16 as .npz, which also sets its preprocessing."
    ),
]
Size = Annotated[int, typer.Option(help="Side of the centre crop.")]
Resize = Annotated[int, typer.Option(help="Short side before the crop.")]
Mean = Annotated[str | None, typer.Option(help="Three numbers for values in 0..1, comma between; without, ImageNet's.")]
Std = Annotated[str | None, typer.Option(help="Likewise.")]
Channels = Annotated[str | None, typer.Option(help="`RGB` (without) or `BGR`.")]


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
    force: Annotated[bool, typer.Option("--force", help="Use patterns of other weights all the same.")] = False,
    size: Size = 224,
    resize: Resize = 256,
    mean: Mean = None,
    std: Std = None,
    channels: Channels = None,
) -> None:
    """Show what mattered to a model in an image: predictions, a heat map per method, and a sheet of all.

    Examples:
    `pgig explain dog.jpg --model vgg16 --weights default`

    `pgig explain dog.jpg cat.jpg --model mynet:make --weights mynet.safetensors --methods integrated_gradients,vargrad`

    `pgig explain dog.jpg --model vgg16 --weights vgg16.pth --patterns vgg16-patterns.safetensors --target 207`
    """
    preprocess = _preprocess(weights, size, resize, mean, std, channels)
    names = read_classes(classes) if classes else []
    pictures = read_pictures(images, preprocess)
    drawn_from = read_references(references, preprocess) if references else None
    chosen, left_out = chosen_methods(methods, patterns is not None, drawn_from is not None or len(pictures) > 1)
    given = {"steps": steps, "samples": samples}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    options |= {"score": score, "seed": seed, "batch_size": batch_size}
    options["patterns"] = _patterns(patterns, force) if patterns else None
    network = load_model(model, weights)
    likeliest = [predictions(network, picture) for picture in pictures]
    if methods == "all" and not has_relu(network, pictures[0]):
        chosen.remove("guided_backprop")
        left_out.append("left out: guided_backprop (the model has no ReLU)")
    for line in left_out:
        console.print(line, style="yellow")
    out.mkdir(parents=True, exist_ok=True)
    for number, picture in enumerate(pictures):
        _print_predictions(picture.name, likeliest[number], names)
        others = [other.x for other in pictures[:number] + pictures[number + 1 :]]
        with progress_of(f"{picture.name}: {len(chosen)} methods") as progress:
            found = explain_picture(
                network, picture, chosen, target, out, drawn_from if drawn_from is not None else others,
                save_arrays=save_arrays, progress=progress, **options,
            )  # fmt: skip
        for name, attribution in found.items():
            if not attribution.any():
                errors.print(f"{name} is zero everywhere: its heat map is blank", highlight=False)
        console.print(
            f"wrote {out / picture.name}/sheet.png and the heat maps beside it", highlight=False, soft_wrap=True
        )


@app.command()
def patterns(
    model: Model,
    out: Annotated[Path, typer.Option(help="Patterns file to write (safetensors).")],
    images: Annotated[
        Path | None, typer.Option(help="Folder of images, flat or one level per class; or a zip or tar file.")
    ] = None,
    weights: Weights = None,
    limit: Annotated[int | None, typer.Option(help="Only the first N images.", min=1)] = None,
    batch_size: Annotated[int, typer.Option(help="Images at once.")] = 8,
    regime: Annotated[
        str, typer.Option(help="`auto`, `positive`, `negative`, `linear`, `centred`; or layer=regime, comma between.")
    ] = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an interrupted run stopped.")] = False,
    moments: Annotated[
        Path | None, typer.Option(help="Keep the moments here; without, beside OUT until it is done.")
    ] = None,
    imported: Annotated[
        Path | None, typer.Option("--import", help="Take the published VGG-16 patterns (.npz) in place of images.")
    ] = None,
    size: Size = 224,
    resize: Resize = 256,
    mean: Mean = None,
    std: Std = None,
    channels: Channels = None,
) -> None:
    """Estimate patterns of a model from images, for PGIG and pattern attribution.

    Labels are not needed, and one pass is enough. ctrl-C keeps what was done, and --resume goes on from there.

    Examples:
    `pgig patterns --model vgg16 --weights default --images imagenet/val --limit 5000 --out vgg16.safetensors`

    `pgig patterns --model mynet:make --images photos.zip --size 64 --resize 64 --out mynet.safetensors`

    `pgig patterns --model vgg16 --weights vgg16.npz --import patterns.npz --out vgg16.safetensors`
    """
    if (images is None) == (imported is None):
        raise PgigError("give either --images or --import")
    network = load_model(model, weights)
    if imported is not None:
        found = read_published_patterns(imported).for_model(network)
    else:
        preprocess = _preprocess(weights, size, resize, mean, std, channels)
        folder = ImageFolder.open(Path(str(images))).first(limit)
        checkpoint = moments or out.with_name(f"{out.stem}.moments.safetensors")
        console.print(f"{len(folder.names)} images of {images}; {preprocess}", highlight=False)
        with stoppable(checkpoint) as stop, progress_of(f"patterns of {model}", "images") as progress:
            found, skipped = estimate_from_folder(
                network, folder, preprocess, checkpoint, regime=_regime(regime), batch_size=batch_size, resume=resume,
                progress=progress, stop=stop,
            )  # fmt: skip
        for name, reason in skipped.items():
            console.print(f"skipped {name}: {reason}", style="yellow", highlight=False)
        if skipped:
            console.print(f"{len(skipped)} of {len(folder.names)} images skipped", style="yellow")
    found.save(out)
    if imported is None and moments is None:
        checkpoint.unlink(missing_ok=True)
    print(found.health())  # noqa: T201 (a wide table: no wrapping)
    console.print(f"wrote {out}", highlight=False, soft_wrap=True)


@app.command()
def check(
    model: Model,
    weights: Weights = "random",
    size: Size = 224,
) -> None:
    """Look at a model before you rely on it: how every operation is treated, and a self-test of the rules.

    Exit code 0 if pattern methods can be trusted on it, 2 if not.

    Examples:
    `pgig check --model resnet50`

    `pgig check --model mynet:make --size 64`
    """
    network = load_model(model, None if ":" in model and weights == "random" else weights)
    report = preflight(network, torch_example(size))
    print(report)  # noqa: T201 (a wide table: no wrapping)
    if not report.ok:
        raise typer.Exit(2)


def _preprocess(
    weights: str | None, size: int, resize: int, mean: str | None, std: str | None, channels: str | None
) -> Preprocess:
    default = PUBLISHED_PREPROCESS if weights and weights.endswith(".npz") else Preprocess()
    return Preprocess(
        size, resize,
        default.mean if mean is None else _three(mean, "mean"),
        default.std if std is None else _three(std, "std"),
        default.channels if channels is None else channels,  # type: ignore[arg-type]
    )  # fmt: skip


def _regime(text: str) -> Any:
    if "=" not in text:
        return text
    pairs = [part.split("=") for part in text.split(",")]
    if any(len(pair) != 2 for pair in pairs):
        raise PgigError(f"--regime needs one name, or layer=regime with commas between, got {text!r}")
    return {layer.strip(): name.strip() for layer, name in pairs}


def _patterns(path: Path, force: bool) -> Any:
    found = Patterns.load(path)
    return dict(found) if force else found


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
