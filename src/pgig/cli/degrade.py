"""pgig degrade"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from pgig.cli.app import app
from pgig.cli.options import Channels, MaxPixels, Mean, Model, Resize, Std, Threads, Weights, preprocess_of
from pgig.cli.terminal import console, errors, goes_on, standing_of
from pgig.degradation import Protocol
from pgig.degradation.protocol import Departure, Order
from pgig.errors import PgigError
from pgig.files import check_target
from pgig.methods.table import PAPER_METHODS
from pgig.records.config import read_toml
from pgig.runs.degrade import prepare, run_degradation
from pgig.runs.job import Job, grid_of
from pgig.runs.labels import read_labels
from pgig.runs.memory import needed_memory
from pgig.runs.ownership import owned
from pgig.vision.decoding import MAX_PIXELS
from pgig.vision.image_folder import ImageFolder


def _from_file(context: typer.Context, path: Path | None) -> Path | None:
    """Options of a file are defaults: those on the command line win."""
    if path is None:
        return None
    sections = read_toml(path)
    known = {parameter.name for parameter in context.command.params} - {"config"}
    found: dict[str, Any] = {}
    for name, section in sections.items():
        values = section if isinstance(section, dict) else {name: section}
        found |= {_OPTION.get(key, key.replace("-", "_")): value for key, value in values.items()}
    # where attributions come from another run, theirs and this run's own can differ
    found |= {own: found[run] for own, run in (("seed", "order_seed"), ("target", "scored")) if run in found}
    for name in ("mean", "std", "methods"):
        if isinstance(found.get(name), list):
            found[name] = ",".join(map(str, found[name]))
    own = {"digest", "weights_digest", "patterns_digest", "labels_digest", "references_digest", "explained_score",
           "order_seed", "scored", "pgig", "torch", "numpy", "pillow"}  # fmt: skip
    if unknown := found.keys() - known - own:
        raise PgigError(f"{path} has the unknown option {sorted(unknown)[0]!r}")
    found = {name: value for name, value in found.items() if name in known}
    _check_types(path, found)
    context.default_map = {**(context.default_map or {}), **found}
    return path


def _check_types(path: Path, found: Mapping[str, Any]) -> None:
    """TOML has types of its own: a list where one value belongs, or 2.5 steps, are a mistake."""
    hints = get_type_hints(degrade)
    for name, value in found.items():
        kinds = set(get_args(hints[name])) or {hints[name]}
        wanted = next((kind for kind in (bool, int, float) if kind in kinds), str)
        text = str if Path in kinds else str | int | float  # a fill may be a number
        fitting: Any = {float: int | float, str: text}.get(wanted, wanted)
        if not isinstance(value, fitting) or (isinstance(value, bool) and wanted is not bool):
            raise PgigError(f"{path}: {name} = {value!r} is no {_KINDS[wanted]}")


_KINDS = {bool: "true or false", int: "whole number", float: "number", str: "text"}


def _check_no_code(context: typer.Context, config: Path | None, model: str, methods: str) -> None:
    """A file may not name code to run: whoever wrote it need not be the one who runs it."""
    for option, named in (("model", [model]), ("methods", methods.split(","))):
        source = context.get_parameter_source(option)
        code = [name for name in named if ":" in name]
        if code and source is not None and source.name == "DEFAULT_MAP":
            raise PgigError(
                f"{config} names code to run, {code[0].strip()}, which a file may not: repeat it on the command line, "
                f"--{option} {','.join(named)}, if you trust it"
            )


_OPTION = {"departure": "protocol", "count": "limit"}  # what a run's own config.toml calls otherwise


@app.command()
def degrade(
    context: typer.Context,
    model: Model,
    images: Annotated[Path, typer.Option(help="Folder of images, flat or one level per class; or a zip or tar file.")],
    out: Annotated[Path, typer.Option(help="Folder of the run; given again, it goes on.")],
    weights: Weights = None,
    patterns: Annotated[Path | None, typer.Option(help="Patterns of this model (safetensors).")] = None,
    methods: Annotated[
        str,
        typer.Option(
            help="Names, comma between; `all`: the paper's ten and random; also `occlusion`, variants such as "
            "`pgig+start=one`, and `module:name` for your own."
        ),
    ] = "all",
    limit: Annotated[int | None, typer.Option(help="Only the first N images.")] = None,
    patch: Annotated[int, typer.Option(help="Side of a patch, in pixels.")] = 9,
    steps: Annotated[int, typer.Option(help="Scores to take, each after more patches are replaced.")] = 100,
    patches_per_step: Annotated[int, typer.Option(help="Patches to replace between two scores.")] = 1,
    order: Annotated[str, typer.Option(help=", ".join(f"`{name}`" for name in get_args(Order)))] = "descending",
    fill: Annotated[
        str, typer.Option(help="`mean` (of the patch), `image_mean`, `blur`, `road`, or a number.")
    ] = "mean",
    protocol: Annotated[
        str, typer.Option(help=f"{', '.join(f'`{name}`' for name in get_args(Departure))}: the released code's way.")
    ] = "paper",
    score: Annotated[str, typer.Option(help="`probability` or `logit`.")] = "probability",
    target: Annotated[str, typer.Option(help="`predicted` for the intact image, or `label`.")] = "predicted",
    labels: Annotated[
        Path | None, typer.Option(help="CSV of file,class_index; without, each folder is a class.")
    ] = None,
    references: Annotated[
        Path | None, typer.Option(help="Images for expected_gradients; without, others of the run.")
    ] = None,
    save_attributions: Annotated[
        bool, typer.Option("--save-attributions", help="Keep patch scores, for runs with another protocol.")
    ] = False,
    attributions_from: Annotated[
        Path | None, typer.Option(help="A run with saved attributions to take them from.")
    ] = None,
    evaluator: Annotated[
        str, typer.Option(help="`dense`: whole forward passes; `incremental`: only what a patch reaches; or `auto`.")
    ] = "auto",
    seed: Annotated[int, typer.Option(help="Of all random draws.")] = 0,
    workers: Annotated[int, typer.Option(help="Processes; torch's threads are divided among them.")] = 1,
    batch_size: Annotated[
        int | None, typer.Option(help="Images, or pairs of image and method, at once; without, what memory allows.")
    ] = None,
    memory: Annotated[
        float | None, typer.Option(help="GB for kept activations; without, a quarter of what is free.")
    ] = None,
    threads: Threads = None,
    force: Annotated[bool, typer.Option("--force", help="Use patterns of other weights all the same.")] = False,
    config: Annotated[
        Path | None,
        typer.Option(help="Options from a TOML file, such as a run's config.toml.", callback=_from_file, is_eager=True),
    ] = None,
    size: Annotated[int, typer.Option(help="Side of the centre crop.")] = 224,
    resize: Resize = 256,
    mean: Mean = None,
    std: Std = None,
    channels: Channels = None,
    max_pixels: MaxPixels = MAX_PIXELS,
) -> None:
    """Measure which method's ranking of patches makes the model's score fall fastest.

    A run is a folder. It can be stopped at any moment; the same command goes on where it stopped.

    Examples:
    `pgig degrade --model vgg16 --weights default --patterns vgg16.safetensors --images imagenet/val --out runs/vgg16`

    `pgig degrade --model mynet:make --images photos/ --methods integrated_gradients,mine:explain --out runs/mine`

    `pgig degrade --config runs/vgg16/config.toml --attributions-from runs/vgg16 --fill blur --out runs/vgg16-blur`
    """
    _check_no_code(context, config, model, methods)
    if target not in ("predicted", "label"):
        raise PgigError(f"unknown target {target!r}; choose 'predicted' or 'label'")
    if limit is not None and limit < 1:
        raise PgigError(f"limit must be at least 1, got {limit}")
    check_target(out / "config.toml")
    folder = ImageFolder.open(images)
    names = folder.first(limit).names
    job = Job(
        model, weights, images, names, read_labels(labels, folder.names),
        preprocess_of(weights, size, resize, mean, std, channels, max_pixels),
        tuple(_listed(methods)), Protocol(patch, steps, patches_per_step, order, fill, protocol),  # type: ignore[arg-type]
        out, patterns, force, references, score, target == "label", seed, evaluator,
        batch_size, memory, threads,
        save_attributions, attributions_from, str(labels) if labels else None,
    )  # fmt: skip
    with owned(out):
        _run(job, workers)


def _run(job: Job, workers: int) -> None:
    ready = prepare(job, workers)
    job, out, protocol = ready.job, job.out, job.protocol
    border = grid_of(job).border
    console.print(
        f"{len(job.names)} images of {job.images}, {len(job.methods)} methods, "
        f"{protocol.steps} patches of {protocol.patch} x {protocol.patch}; at most about "
        f"{needed_memory(job, ready.model, ready.chosen.bytes, ready.workers) / 2**30:.1f} GB of memory",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    console.print(f"evaluator: {ready.chosen.note}", highlight=False, soft_wrap=True)
    if ready.chosen.doubt:
        errors.print(f"warning: {ready.chosen.doubt}: every step is computed whole", highlight=False, soft_wrap=True)
    if any(border):
        errors.print(
            f"note: {border[0]} rows and {border[1]} columns at the border belong to no patch", highlight=False
        )
    with goes_on(out), standing_of(out.name) as say:
        standing = run_degradation(ready, say)
    if standing.skipped:
        errors.print(f"{standing.skipped} images skipped: see {out}/skipped.csv", highlight=False, soft_wrap=True)
    if not standing.areas:
        raise PgigError(f"none of the {len(job.names)} images could be read: see {out}/skipped.csv")
    for method, area in sorted(standing.areas.items(), key=lambda item: item[1]):
        console.print(f"{method:32s} AUC {area:.4f}", highlight=False)
    console.print(f"done: {out}; pgig report {out} --out report makes the page", highlight=False, soft_wrap=True)


def _listed(methods: str) -> list[str]:
    names = [name.strip() for name in methods.split(",") if name.strip()]
    found = [each for name in names for each in (PAPER_METHODS if name == "all" else [name])]
    if not found:
        raise PgigError("no method given: see pgig methods")
    return list(dict.fromkeys(found))
