"""pgig explain"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy
import typer
from rich.table import Table
from torch import Tensor

from pgig.cli.app import app
from pgig.cli.groups import grouped
from pgig.cli.hints import HINTS
from pgig.cli.options import MethodOptions, ModelOptions, PreprocessOptions, Threads
from pgig.cli.terminal import console, errors, progress_of, visible
from pgig.errors import PgigError
from pgig.explainers.registry import explainers
from pgig.explainers.together import needing_references
from pgig.patterns.patterns import Patterns
from pgig.records.explanation import Explanation
from pgig.runs.explain import chosen_methods, explain_picture, has_rectifier, predictions, write_explanations
from pgig.subject.subject import Subject
from pgig.vision import Preprocess, load_model
from pgig.vision.image_folder import DAMAGED
from pgig.vision.pictures import Picture, Source, find_sources, read_classes, read_references

POOL = 64  # pictures that expected gradients draw from, at most


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
    asked: MethodOptions,
    image: PreprocessOptions,
    target: Annotated[int | None, typer.Option(help="The class to explain; without, the predicted one.")] = None,
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("explained"),
    save_arrays: Annotated[bool, typer.Option("--save-arrays", help="Also write the raw attributions.")] = False,
    classes: Annotated[Path | None, typer.Option(help="Class names, one per line, line = class index.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of the paths; without, the paper's.")] = None,
    samples: Annotated[int | None, typer.Option(help="Noisy or reference samples; without, the paper's.")] = None,
    batch_size: Annotated[
        str | None, typer.Option(help="Points at once; without, by memory; `whole` for a model that mixes its rows.")
    ] = None,
    threads: Threads = None,
) -> None:
    """Show what mattered to a model in an image: predictions, a heat map per method, and a sheet of all.

    Examples:
    `pgig explain dog.jpg --model vgg16 --weights default`

    `pgig explain dog.jpg cat.jpg --model mynet:make --weights mynet.safetensors --methods integrated_gradients,vargrad`

    `pgig explain dog.jpg --model vgg16 --weights vgg16.pth --patterns vgg16-patterns.safetensors --target 207`

    `pgig explain photos/ --model vgg16 --weights default --methods integrated_gradients`
    """
    preprocess = image.preprocess(network.model, network.weights)
    names = read_classes(classes) if classes else []
    sources = find_sources(images)
    skipped: dict[str, str] = {}
    known = _first_pictures(sources, preprocess, skipped)
    first = next(iter(known.values()))
    drawn_from = read_references(asked.references, preprocess) if asked.references else None
    chosen, lacking = chosen_methods(
        asked.methods, asked.patterns is not None, drawn_from is not None or len(known) > 1
    )  # fmt: skip
    options: dict[str, Any] = {"steps": steps, "samples": samples}
    options = {name: value for name, value in options.items() if value is not None}
    options |= {
        "score": asked.score, "seed": asked.seed, "batch_size": _batch_size(batch_size), "black": preprocess.black,
    }  # fmt: skip
    patterns = asked.read_patterns()
    _note_other_preprocessing(patterns, preprocess)
    subject = Subject(load_model(network.model, network.weights), patterns)
    subject.check_patterns()
    predictions(subject.module, first)  # does the model take such images at all?
    left_out = [f"left out: {', '.join(found)} ({HINTS[what]})" for what, found in lacking.items()]
    if asked.methods == "all" and not has_rectifier(subject.module, first):
        chosen.remove("guided_backprop")
        left_out.append("left out: guided_backprop (the model has no ReLU)")
    for line in left_out:
        console.print(line, style="yellow")
    out.mkdir(parents=True, exist_ok=True)
    draws_others = drawn_from is None and needing_references(explainers(chosen))
    pool = _pool(sources, preprocess, known) if draws_others else {}
    for source in sources:
        picture = known.pop(source.name, None) or _read(source, preprocess, skipped)
        if picture is None:
            continue
        likeliest = predictions(subject.module, picture)
        _print_predictions(source.shown if source.in_folder else picture.name, likeliest, names)
        others = [x for name, x in pool.items() if name != picture.name]
        wanted = likeliest[0][0] if target is None else target
        references = drawn_from if drawn_from is not None else others
        with progress_of(f"{picture.name}: {len(chosen)} methods") as progress:
            found = explain_picture(subject, picture, chosen, wanted, references, progress=progress, **options)
        write_explanations(found, picture, out, save_arrays=save_arrays)
        _print_written(found, out / picture.name)
    _print_skipped(skipped, len(sources))


def _print_written(found: Mapping[str, Explanation], folder: Path) -> None:
    for name, explanation in found.items():
        if not numpy.any(explanation.attribution):
            errors.print(f"{name} is zero everywhere: its heat map is blank", highlight=False)
    console.print(f"wrote {folder}/sheet.png and the heat maps beside it", highlight=False, soft_wrap=True)


def _print_skipped(skipped: Mapping[str, str], count: int) -> None:
    for shown, reason in skipped.items():
        errors.print(f"skipped {shown}: {reason}", highlight=False, soft_wrap=True)
    if skipped:
        errors.print(f"{len(skipped)} of {count} images skipped", highlight=False)


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


def _note_other_preprocessing(patterns: Mapping[str, Tensor] | None, preprocess: Preprocess) -> None:
    stored = patterns.facts.get("preprocessing", {}) if isinstance(patterns, Patterns) else {}
    for name, now in preprocess.facts.items():
        before = stored.get(name)
        if before is not None and _as_read(before) != _as_read(now):
            errors.print(f"note: the patterns were estimated with {name} {before}, not {now}", highlight=False)


def _as_read(value: object) -> object:
    """Tuples come back from a file as lists."""
    return list(value) if isinstance(value, tuple) else value
