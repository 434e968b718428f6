"""pgig patterns"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgig.cli.backend_options import BackendOptions
from pgig.cli.command import app
from pgig.cli.groups import grouped
from pgig.cli.options import ModelOptions, PreprocessOptions, Threads, regime_of
from pgig.cli.terminal import console, goes_on, progress_of, standing_of, stoppable, visible
from pgig.errors import PgigError
from pgig.files import check_target

if TYPE_CHECKING:
    from torch import nn

    from pgig.patterns.patterns import Patterns
    from pgig.runs.where import Where
    from pgig.vision.preprocess import Preprocess


@dataclass(frozen=True)
class EstimationOptions:
    """From which images, and how."""

    images: Annotated[
        str | None,
        typer.Option(
            help="Folder of images, flat or one level per class; a zip or tar file, or a folder of such; or an address."
        ),
    ] = None
    limit: Annotated[int | None, typer.Option(help="Only the first N images.", min=1)] = None
    batch_size: Annotated[int, typer.Option(help="Images at once.")] = 8
    regime: Annotated[
        str,
        typer.Option(
            help="`auto`, `positive`, `negative`, `linear`, `centred`, `quality`; or layer=regime, comma between."
        ),
    ] = "auto"
    joins: Annotated[
        str, typer.Option(help="What sums of branches send back: `summed`, all to each; `shared`, a share to each.")
    ] = "summed"
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an interrupted run stopped.")] = False
    moments: Annotated[
        Path | None, typer.Option(help="Keep the moments here; without, beside OUT until it is done.")
    ] = None
    held_out: Annotated[
        int,
        typer.Option(
            help="Keep the last N images out, to measure the signal quality on; `quality` chooses by it.", min=0
        ),
    ] = 0

    def checkpoint(self, out: Path) -> Path:
        """Where the moments go while work is under way."""
        return self.moments or out.with_name(f"{out.stem}.moments.safetensors")

    def sums(self, out: Path) -> Path:
        """The same where several work: a folder."""
        return self.checkpoint(out).with_name(f"{self.checkpoint(out).name}.sums")


@app.command()
@grouped
def patterns(
    network: ModelOptions,
    asked: EstimationOptions,
    image: PreprocessOptions,
    place: BackendOptions,
    out: Annotated[
        Path | None, typer.Option(help="Patterns file to write (safetensors); without, only kept for commands to find.")
    ] = None,
    table: Annotated[bool, typer.Option("--table", help="Print the health of every layer below the verdict.")] = False,
    imported: Annotated[
        Path | None, typer.Option("--import", help="Take the published VGG-16 patterns (.npz) in place of images.")
    ] = None,
    threads: Threads = None,
) -> None:
    """Estimate patterns of a model from images, for PGIG and pattern attribution.

    Labels are not needed, and one pass is enough. With --backend or several --workers, images are summed up in fixed
    shards: the same bits whoever works on them, and to rounding those of one worker without it. ctrl-C keeps what was
    done, and --resume goes on from there. The patterns are also kept in a cache ($PGIG_CACHE), where other commands
    find them by the weights they belong to. Ends with a verdict on them in one line.

    Examples:
    `pgig patterns --images photos/`

    `pgig patterns --model vgg16 --weights default --images imagenet/val --limit 5000 --out vgg16.safetensors`

    `pgig patterns --model vgg16 --weights default --images imagenet/val --backend ray --address auto`

    `pgig patterns --model mynet:make --images photos.zip --size 64 --resize 64 --out mynet.safetensors`

    `pgig patterns --model resnet50 --weights default --images val.tar --limit 2200 --held-out 200 --out r.safetensors`

    `pgig patterns --model resnet50 --weights default --images val.tar --regime quality --held-out 200 --joins shared
    --out r.safetensors`

    `pgig patterns --model vgg16 --weights vgg16.npz --import patterns.npz --out vgg16.safetensors`
    """
    from pgig.patterns.kept import keep_patterns, why_not_kept
    from pgig.runs.sharded_patterns import discard
    from pgig.vision.models import load_model
    from pgig.vision.published import read_published_patterns

    if (asked.images is None) == (imported is None):
        raise PgigError("give either --images or --import")
    name = network.model.replace(":", "-").replace("/", "-")
    # without a file to write, the checkpoint lies here
    beside = out if out is not None else Path(f"{name}-patterns.safetensors")
    _check_targets(beside, asked.moments, network.weights)
    cannot = why_not_kept()
    if cannot and out is None:
        raise PgigError(f"{cannot}: give --out FILE, or another folder in PGIG_CACHE")
    model = load_model(network.model, network.weights)
    if imported is not None:
        found = read_published_patterns(imported).for_model(model)
    else:
        found = _estimated(
            model, network, asked, image.preprocess(network.model, network.weights), beside, place.where(), threads
        )
    found = found.with_facts(regime=asked.regime if imported is None else "published")
    if out is not None:
        found.save(out)
    kept = None if cannot else keep_patterns(found)
    if imported is None:
        discard(asked.sums(beside))
        if asked.moments is None:
            asked.checkpoint(beside).unlink(missing_ok=True)
    health = found.health()
    console.print(f"verdict: {health.verdict}", highlight=False, soft_wrap=True)
    if table:
        print(visible(str(health), lines=True))  # noqa: T201 (a wide table: no wrapping)
    else:
        console.print("--table shows every layer", highlight=False)
    told = [*([f"wrote {out}"] if out is not None else []), f"kept as {kept}" if kept else f"not kept: {cannot}"]
    console.print("; ".join(told), highlight=False, soft_wrap=True)


def _estimated(
    model: "nn.Module",
    network: ModelOptions,
    asked: EstimationOptions,
    preprocess: "Preprocess",
    out: Path,
    where: "Where",
    threads: int | None,
) -> "Patterns":
    from pgig.patterns.choice import patterns_by_quality
    from pgig.patterns.quality import signal_quality
    from pgig.patterns.regimes import asks_for_quality, check_joins
    from pgig.runs.patterns import estimate_from_folder
    from pgig.runs.sharded_patterns import PatternsJob, estimate_on, has_begun
    from pgig.runs.shards import shard_count
    from pgig.subject.subject import Subject
    from pgig.vision.image_folder import ImageFolder
    from pgig.vision.models import check_image

    folder, kept_out = ImageFolder.open(str(asked.images)).first(asked.limit).split(asked.held_out)
    check_image(model, preprocess.size)
    regime = regime_of(asked.regime)
    if asks_for_quality(regime) and not asked.held_out:
        raise PgigError("the quality regime is chosen on images that patterns have not seen", lacks="held-out images")
    check_joins(asked.joins)  # type: ignore[arg-type]
    checkpoint = asked.checkpoint(out)
    sums = asked.sums(out)
    begun = [sums] if has_begun(sums) else [checkpoint] if asked.moments is None and checkpoint.exists() else []
    if begun and not asked.resume:
        raise PgigError(
            f"{begun[0]} holds what an unfinished estimation has done: give --resume to go on, or delete it to begin "
            "anew"
        )
    console.print(f"{len(folder.names)} images of {asked.images}; {preprocess}", highlight=False, soft_wrap=True)
    if where.backend is None and (where.workers or 1) == 1:
        with stoppable(checkpoint) as stop, progress_of(f"patterns of {network.model}", "images") as progress:
            moments, skipped = estimate_from_folder(
                model, folder, preprocess, checkpoint, regime=regime, joins=asked.joins,  # type: ignore[arg-type]
                batch_size=asked.batch_size, resume=asked.resume, progress=progress, stop=stop,
            )  # fmt: skip
    else:
        job = PatternsJob(
            model=network.model, weights=network.weights, images=str(asked.images), names=folder.names,
            shards=shard_count(len(folder.names)),
            preprocess=preprocess, regime=regime, joins=asked.joins,  # type: ignore[arg-type]
            batch_size=asked.batch_size, out=sums, threads=threads,
        )  # fmt: skip
        with goes_on(job.out, "the same command with --resume"), standing_of(f"patterns of {network.model}") as say:
            moments, skipped = estimate_on(where, job, Subject.of(model), say)
        if asked.moments is not None:
            moments.save(asked.moments)
    by_quality = asks_for_quality(regime)
    if not by_quality:
        found = moments.patterns()
    if asked.held_out:
        batches = (batch for _, batch in kept_out.batches(preprocess, asked.batch_size, 0, skipped))
        if by_quality:
            found = patterns_by_quality(model, moments, batches)
        else:
            found = found.with_quality(signal_quality(model, found, batches))
    for image, reason in skipped.items():
        console.print(f"skipped {image}: {reason}", style="yellow", highlight=False)
    if skipped:
        console.print(f"{len(skipped)} of {len(folder.names) + asked.held_out} images skipped", style="yellow")
    return found


def _check_targets(out: Path, moments: Path | None, weights: str | None) -> None:
    """Before hours of work: can the files be written, and does none overwrite another?"""
    for path in (out, *([moments] if moments else [])):
        check_target(path)
        if weights and Path(weights).exists() and path.exists() and path.samefile(weights):
            raise PgigError(f"{path} is the weights file: write somewhere else")
    if moments is not None and moments.absolute() == out.absolute():
        raise PgigError(f"--out and --moments are both {out}: give two files")
