"""pgig patterns, pgig check"""

from pathlib import Path
from typing import Annotated

import typer
from torch import Tensor, nn

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
    preprocess_of,
    regime_of,
)
from pgig.cli.terminal import console, progress_of, stoppable, visible
from pgig.degradation import Protocol
from pgig.errors import PgigError
from pgig.explaining.check import check as preflight
from pgig.files import check_target
from pgig.patterns.quality import signal_quality
from pgig.runs.evaluators import Wish, choose
from pgig.runs.patterns import estimate_from_folder
from pgig.vision import load_model
from pgig.vision.decoding import MAX_PIXELS
from pgig.vision.image_folder import ImageFolder
from pgig.vision.models import check_image, classes_of
from pgig.vision.preprocess import example as torch_example
from pgig.vision.published import read_published_patterns


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
    held_out: Annotated[
        int, typer.Option(help="Keep the last N images out, and measure the signal quality on them.", min=0)
    ] = 0,
    imported: Annotated[
        Path | None, typer.Option("--import", help="Take the published VGG-16 patterns (.npz) in place of images.")
    ] = None,
    size: Size = 224,
    resize: Resize = 256,
    mean: Mean = None,
    std: Std = None,
    channels: Channels = None,
    max_pixels: MaxPixels = MAX_PIXELS,
    threads: Threads = None,
) -> None:
    """Estimate patterns of a model from images, for PGIG and pattern attribution.

    Labels are not needed, and one pass is enough. ctrl-C keeps what was done, and --resume goes on from there.

    Examples:
    `pgig patterns --model vgg16 --weights default --images imagenet/val --limit 5000 --out vgg16.safetensors`

    `pgig patterns --model mynet:make --images photos.zip --size 64 --resize 64 --out mynet.safetensors`

    `pgig patterns --model resnet50 --weights default --images val.tar --limit 2200 --held-out 200 --out r.safetensors`

    `pgig patterns --model vgg16 --weights vgg16.npz --import patterns.npz --out vgg16.safetensors`
    """
    if (images is None) == (imported is None):
        raise PgigError("give either --images or --import")
    _check_targets(out, moments, weights)
    network = load_model(model, weights)
    if imported is not None:
        found = read_published_patterns(imported).for_model(network)
    else:
        preprocess = preprocess_of(weights, size, resize, mean, std, channels, max_pixels)
        folder, kept_out = ImageFolder.open(Path(str(images))).first(limit).split(held_out)
        check_image(network, preprocess.size)
        checkpoint = moments or out.with_name(f"{out.stem}.moments.safetensors")
        if moments is None and not resume and checkpoint.exists():
            raise PgigError(
                f"{checkpoint} holds what an unfinished estimation has done: give --resume to go on, or delete it to "
                "begin anew"
            )
        console.print(f"{len(folder.names)} images of {images}; {preprocess}", highlight=False, soft_wrap=True)
        with stoppable(checkpoint) as stop, progress_of(f"patterns of {model}", "images") as progress:
            found, skipped = estimate_from_folder(
                network, folder, preprocess, checkpoint, regime=regime_of(regime), batch_size=batch_size, resume=resume,
                progress=progress, stop=stop,
            )  # fmt: skip
        if held_out:
            batches = (batch for _, batch in kept_out.batches(preprocess, batch_size, 0, skipped))
            found = found.with_quality(signal_quality(network, found, batches))
        for name, reason in skipped.items():
            console.print(f"skipped {name}: {reason}", style="yellow", highlight=False)
        if skipped:
            console.print(f"{len(skipped)} of {len(folder.names) + held_out} images skipped", style="yellow")
    found.save(out)
    if imported is None and moments is None:
        checkpoint.unlink(missing_ok=True)
    print(visible(str(found.health()), lines=True))  # noqa: T201 (a wide table: no wrapping)
    console.print(f"wrote {out}", highlight=False, soft_wrap=True)


@app.command()
def check(
    model: Model,
    weights: Weights = "random",
    size: Size = 224,
    threads: Threads = None,
) -> None:
    """Look at a model before you rely on it: how every operation is treated, and a self-test of the rules.

    Also which evaluator a degradation run would use on it, and why.

    Exit code 0 if pattern methods can be trusted on it, 2 if not.

    Examples:
    `pgig check --model resnet50`

    `pgig check --model mynet:make --size 64`
    """
    network = load_model(model, None if ":" in model and weights == "random" else weights)
    check_image(network, size)
    image = torch_example(size)
    report = preflight(network, image)
    print(visible(str(report), lines=True))  # noqa: T201 (a wide table: no wrapping)
    print(f"degradation: {_evaluator(network, image, size)}")  # noqa: T201
    if not report.ok:
        raise typer.Exit(2)


def _evaluator(network: nn.Module, image: Tensor, size: int) -> str:
    """Which one a degradation run would use, or why there can be none."""
    try:
        classes_of(network, size)
    except PgigError as error:
        return f"not possible: {error}"
    return choose(Wish(), network, image, Protocol(patch=min(9, size), steps=1)).note


def _check_targets(out: Path, moments: Path | None, weights: str | None) -> None:
    """Before hours of work: can the files be written, and does none overwrite another?"""
    for path in (out, *([moments] if moments else [])):
        check_target(path)
        if weights and Path(weights).exists() and path.exists() and path.samefile(weights):
            raise PgigError(f"{path} is the weights file: write somewhere else")
    if moments is not None and moments.absolute() == out.absolute():
        raise PgigError(f"--out and --moments are both {out}: give two files")
