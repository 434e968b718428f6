"""pgig methods, pgig explain"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from torch import Tensor

from pgig.cli.app import app
from pgig.cli.options import (
    Channels,
    MaxPixels,
    Mean,
    Model,
    Resize,
    Size,
    Std,
    Threads,
    Weights,
    patterns_of,
    preprocess_of,
)
from pgig.cli.terminal import console, errors, progress_of, visible
from pgig.errors import PgigError
from pgig.explainers.occlusion import Occlusion
from pgig.explainers.registry import OTHERS, explainers, needs_references
from pgig.methods.table import METHODS, PAPER_METHODS, Method
from pgig.patterns.patterns import Patterns
from pgig.runs.explain import (
    Picture,
    Source,
    chosen_methods,
    explain_picture,
    find_sources,
    has_relu,
    predictions,
    read_classes,
    read_references,
)
from pgig.vision import Preprocess, load_model
from pgig.vision.decoding import MAX_PIXELS
from pgig.vision.image_folder import DAMAGED

POOL = 64  # pictures that expected gradients draw from, at most


@app.command()
def methods() -> None:
    """List the attribution methods with their options.

    Example: `pgig methods`
    """
    table = Table(box=None, pad_edge=False)
    table.add_column("method", no_wrap=True)
    table.add_column("what it is")
    table.add_column("options")
    known: dict[str, Method | Occlusion] = {**METHODS, **OTHERS}
    for name, method in known.items():
        options = ", ".join(f"{key}={value}" for key, value in method.options.items())
        table.add_row(name, method.about, options, style=None if name in PAPER_METHODS else "dim")
    console.print(table)


@app.command()
def explain(
    images: Annotated[
        list[Path],
        typer.Argument(
            metavar="IMAGE...", help="Image files; or folders, zip or tar files of them.", show_default=False
        ),
    ],
    model: Model,
    weights: Weights = None,
    methods: Annotated[
        str,
        typer.Option(help="Names, comma between (`pgig methods`; `module:name` for your own); or `all`: the paper's."),
    ] = "all",
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
    batch_size: Annotated[
        str | None, typer.Option(help="Points at once; without, by memory; `whole` for a model that mixes its rows.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Use patterns of other weights all the same.")] = False,
    size: Size = 224,
    resize: Resize = 256,
    mean: Mean = None,
    std: Std = None,
    channels: Channels = None,
    max_pixels: MaxPixels = MAX_PIXELS,
    threads: Threads = None,
) -> None:
    """Show what mattered to a model in an image: predictions, a heat map per method, and a sheet of all.

    Examples:
    `pgig explain dog.jpg --model vgg16 --weights default`

    `pgig explain dog.jpg cat.jpg --model mynet:make --weights mynet.safetensors --methods integrated_gradients,vargrad`

    `pgig explain dog.jpg --model vgg16 --weights vgg16.pth --patterns vgg16-patterns.safetensors --target 207`

    `pgig explain photos/ --model vgg16 --weights default --methods integrated_gradients`
    """
    preprocess = preprocess_of(weights, size, resize, mean, std, channels, max_pixels)
    names = read_classes(classes) if classes else []
    sources = find_sources(images)
    skipped: dict[str, str] = {}
    known = _first_pictures(sources, preprocess, skipped)
    first = next(iter(known.values()))
    drawn_from = read_references(references, preprocess) if references else None
    chosen, left_out = chosen_methods(methods, patterns is not None, drawn_from is not None or len(known) > 1)
    given = {"steps": steps, "samples": samples}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    options |= {"score": score, "seed": seed, "batch_size": _batch_size(batch_size), "black": preprocess.black}
    options["patterns"] = patterns_of(patterns, force) if patterns else None
    if options["patterns"] is not None:
        _warn_of_other_preprocessing(options["patterns"], preprocess)
    network = load_model(model, weights)
    if isinstance(options["patterns"], Patterns):
        options["patterns"].check(network)
    predictions(network, first)  # does the model take such images at all?
    if methods == "all" and not has_relu(network, first):
        chosen.remove("guided_backprop")
        left_out.append("left out: guided_backprop (the model has no ReLU)")
    for line in left_out:
        console.print(line, style="yellow")
    out.mkdir(parents=True, exist_ok=True)
    pool = _pool(sources, preprocess, known) if drawn_from is None and needs_references(explainers(chosen)) else {}
    for source in sources:
        picture = known.pop(source.name, None) or _read(source, preprocess, skipped)
        if picture is None:
            continue
        likeliest = predictions(network, picture)
        _print_predictions(source.shown if source.in_folder else picture.name, likeliest, names)
        others = [x for name, x in pool.items() if name != picture.name]
        wanted = likeliest[0][0] if target is None else target
        with progress_of(f"{picture.name}: {len(chosen)} methods") as progress:
            found = explain_picture(
                network, picture, chosen, wanted, out, drawn_from if drawn_from is not None else others,
                save_arrays=save_arrays, progress=progress, **options,
            )  # fmt: skip
        for name, attribution in found.items():
            if not attribution.any():
                errors.print(f"{name} is zero everywhere: its heat map is blank", highlight=False)
        console.print(
            f"wrote {out / picture.name}/sheet.png and the heat maps beside it", highlight=False, soft_wrap=True
        )
    for shown, reason in skipped.items():
        errors.print(f"skipped {shown}: {reason}", highlight=False, soft_wrap=True)
    if skipped:
        errors.print(f"{len(skipped)} of {len(sources)} images skipped", highlight=False)


def _read(source: Source, preprocess: Preprocess, skipped: dict[str, str]) -> Picture | None:
    """A picture; of a folder's images, those that cannot be read are noted and passed over."""
    try:
        return source.picture(preprocess)
    except (PgigError, *DAMAGED) as error:
        if not source.in_folder:
            raise
        skipped[source.shown] = str(error).removeprefix(f"cannot read the image {source.shown}: ")
        return None


def _first_pictures(sources: Sequence[Source], preprocess: Preprocess, skipped: dict[str, str]) -> dict[str, Picture]:
    """The first two that can be read; of files that were named all, so that a mistake shows at once."""
    found: dict[str, Picture] = {}
    for source in sources:
        if len(found) < 2 or not source.in_folder:
            picture = _read(source, preprocess, skipped)
            found |= {source.name: picture} if picture is not None else {}
    if not found:
        shown, reason = next(iter(skipped.items()))
        raise PgigError(f"none of the {len(sources)} images could be read; {shown}: {reason}")
    return found


def _batch_size(text: str | None) -> Any:
    if text is None or text == "whole":
        return text
    if not text.isdecimal():
        raise PgigError(f"--batch-size needs a whole number, or `whole`, got {text!r}")
    return int(text)


def _pool(sources: Sequence[Source], preprocess: Preprocess, known: Mapping[str, Picture]) -> dict[str, Tensor]:
    """The pictures that expected gradients draw their references from: of many, the first."""
    found: dict[str, Tensor] = {}
    for source in sources:
        picture = known.get(source.name) or _read(source, preprocess, {})
        if picture is not None:
            found[picture.name] = picture.x
        if len(found) > POOL:
            break
    return found


def _print_predictions(name: str, likeliest: list[tuple[int, float]], names: list[str]) -> None:
    table = Table(title=visible(name), title_justify="left", box=None, show_header=False, pad_edge=False)
    for index, probability in likeliest:
        label = names[index] if index < len(names) else ""
        table.add_row(f"{100 * probability:5.1f} %", f"class {index}", visible(label))
    console.print(table)


def _warn_of_other_preprocessing(patterns: Mapping[str, Any], preprocess: Preprocess) -> None:
    stored = patterns.facts.get("preprocessing", {}) if isinstance(patterns, Patterns) else {}
    for name, now in preprocess.facts.items():
        before = stored.get(name)
        if before is not None and _as_read(before) != _as_read(now):
            errors.print(f"note: the patterns were estimated with {name} {before}, not {now}", highlight=False)


def _as_read(value: object) -> object:
    """Tuples come back from a file as lists."""
    return list(value) if isinstance(value, tuple) else value
