"""What `pgig bench` and `pgig degrade` share: the options of a run, and carrying it out."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgig.cli.backend_options import BackendOptions
from pgig.cli.config_file import check_no_code
from pgig.cli.options import (
    ExecutionOptions,
    Images,
    MethodOptions,
    ModelOptions,
    PreprocessOptions,
    check_apart,
    patterns_file,
)
from pgig.cli.terminal import console, errors, goes_on, standing_of
from pgig.errors import PgigError
from pgig.files import check_target

if TYPE_CHECKING:
    from pgig.degradation.protocol import Protocol
    from pgig.runs.benchmark import Standing
    from pgig.runs.prepare import Prepared
    from pgig.runs.request import Request


@dataclass(frozen=True)
class RunOptions:
    """What is measured, and where it is kept."""

    images: Images
    out: Annotated[Path, typer.Option(help="Folder of the run; given again, it goes on.")]
    limit: Annotated[int | None, typer.Option(help="Only the first N images.")] = None
    target: Annotated[str, typer.Option(help="`predicted` for the intact image, or `label`.")] = "predicted"
    labels: Annotated[Path | None, typer.Option(help="CSV of file,class_index; without, each folder is a class.")] = (
        None
    )
    save_attributions: Annotated[
        bool, typer.Option("--save-attributions", help="Keep patch scores, for runs with another protocol.")
    ] = False
    attributions_from: Annotated[Path | None, typer.Option(help="A run with saved attributions to take them from.")] = (
        None
    )


@dataclass(frozen=True)
class Options:
    """All groups of options of a run."""

    context: typer.Context
    config: Path | None
    network: ModelOptions
    run: RunOptions
    asked: MethodOptions
    execution: ExecutionOptions
    place: BackendOptions
    image: PreprocessOptions

    def request(self, protocol: "Protocol", measures: "Measures") -> "Request":
        from pgig.explainers.registry import explainers
        from pgig.explainers.together import needing_patterns
        from pgig.runs.request import Request
        from pgig.vision.models import load_model

        network, run, asked, execution = self.network, self.run, self.asked, self.execution
        check_no_code(self.context, self.config, network.model, asked.methods)
        table = explainers(asked.methods)
        file = None
        if needing_patterns(table) and run.attributions_from is None:
            asked_for = _recorded_patterns(run.out) if asked.patterns == "auto" else None
            file = patterns_file(asked_for or asked.patterns, lambda: load_model(network.model, network.weights))
        return Request(
            model=network.model, weights=network.weights, images=run.images, limit=run.limit,
            preprocess=self.image.preprocess(network.model, network.weights), methods=tuple(table),
            protocol=protocol, measures=measures.labels, constants=measures.constants, masks=measures.masks,
            out=run.out, force=asked.force, patterns=file, references=asked.references,
            score=asked.score, target=run.target, labels=run.labels,  # type: ignore[arg-type]
            seed=asked.seed, evaluator=execution.evaluator, where=self.place.where(),
            batch_size=execution.batch_size, memory=execution.memory, threads=execution.threads,
            save_attributions=run.save_attributions, attributions_from=run.attributions_from,
        )  # fmt: skip


@dataclass(frozen=True)
class Measures:
    """What is measured; without labels, what the protocol's order says."""

    labels: tuple[str, ...] = ()
    constants: tuple[tuple[str, int | float | str], ...] = ()
    masks: Path | None = None


def carry_out(request: "Request") -> None:
    from pgig.runs.benchmark import run_benchmark
    from pgig.runs.ownership import owned
    from pgig.runs.prepare import prepare
    from pgig.vision.image_folder import ImageFolder

    out, images = request.out, request.images
    check_target(out / "config.toml")
    check_apart(out, str(images))
    ImageFolder.open(images)  # before there is a folder of the run
    with owned(out):
        ready = prepare(request)
        _announce(ready)
        with goes_on(out), standing_of(out.name) as say:
            standing = run_benchmark(ready, say)
    _conclude(ready, standing)


def _recorded_patterns(out: Path) -> str | None:
    """A run goes on with the patterns that it began with, whatever was estimated since."""
    from pgig.records.config import read_toml

    path = out / "config.toml"
    recorded = read_toml(path).get("files", {}).get("patterns") if path.is_file() else None
    return recorded if isinstance(recorded, str) and Path(recorded).is_file() else None


def _announce(ready: "Prepared") -> None:
    from pgig.runs.job import grid_of
    from pgig.runs.memory import needed_memory

    asked, protocol = ready.job.asked, ready.job.asked.protocol
    what = (
        f"{len(asked.measures)} measure{'s' * (len(asked.measures) > 1)}: {', '.join(asked.measures)}" if asked.measures
        else f"{protocol.steps} patches of {protocol.patch} x {protocol.patch}"
    )  # fmt: skip
    memory = needed_memory(asked, ready.subject.module, ready.chosen.bytes, ready.where.here)
    console.print(
        f"{len(ready.job.names)} images of {asked.images}, {len(asked.methods)} methods, {what}; "
        f"at most about {memory / 2**30:.1f} GB of memory",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    console.print(f"evaluator: {ready.chosen.note}", highlight=False, soft_wrap=True)
    if ready.chosen.doubt:
        errors.print(f"warning: {ready.chosen.doubt}: every step is computed whole", highlight=False, soft_wrap=True)
    border = grid_of(asked).border
    if any(border):
        errors.print(
            f"note: {border[0]} rows and {border[1]} columns at the border belong to no patch", highlight=False
        )


def _conclude(ready: "Prepared", standing: "Standing") -> None:
    from pgig.runs.backends.handing import TRIES
    from pgig.runs.standing import SET_ASIDE

    out = ready.job.asked.out
    if standing.skipped:
        errors.print(f"{standing.skipped} images skipped: see {out}/skipped.csv", highlight=False, soft_wrap=True)
    if standing.aside:
        errors.print(
            f"{len(standing.aside)} parts were the end of {TRIES} workers each and are set aside: see "
            f"{out}/{SET_ASIDE}; the same command tries them again", highlight=False, soft_wrap=True,
        )  # fmt: skip
    if not standing.areas:
        raise PgigError(f"none of the {len(ready.job.names)} images could be read: see {out}/skipped.csv")
    if ready.job.asked.measures:
        console.print(f"{standing.measure.label}, the best first:", highlight=False)
    for method, area in standing.areas.items():
        console.print(f"{method:32s} {standing.column} {area:.4f}", highlight=False)
    if standing.aside:
        raise typer.Exit(1)
    console.print(f"done: {out}; pgig report {out} --out report makes the page", highlight=False, soft_wrap=True)
