"""A randomisation run: a folder that grows stage by stage, can be stopped at any moment, and goes on."""

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy
import torch
from torch import Tensor, nn

from pgig import __version__
from pgig.digests import digest_of, digest_of_file
from pgig.errors import PgigError
from pgig.explainers.registry import explainers
from pgig.explainers.together import needing_patterns, needing_references
from pgig.patterns.estimation import estimate_patterns
from pgig.patterns.patterns import Patterns
from pgig.randomization.comparison import Asked, Mode, Row, Stage, compare_randomised, layers_from_the_top, stages_of
from pgig.records.config import Section, check_same, read_config, write_config
from pgig.records.tables import write_csv
from pgig.subject.scores import Score
from pgig.subject.subject import Subject
from pgig.vision.image_folder import ImageFolder
from pgig.vision.models import classes_of, output_for
from pgig.vision.preprocess import Preprocess

HEAD = [field.name for field in fields(Row)]
_BATCH = 8  # images of an estimation at once


@dataclass(frozen=True, kw_only=True)
class Randomization:
    """All that determines the result."""

    model: str  # as it was asked for
    images: ImageFolder
    preprocess: Preprocess
    methods: tuple[str, ...]
    out: Path
    patterns: Patterns | None = None
    estimation: ImageFolder | None = None  # images to estimate patterns from anew
    modes: tuple[Mode, ...] = ("cascading", "independent")
    layers: int | None = None
    score: Score = "probability"
    seed: int = 0


def run_randomization(job: Randomization, model: nn.Module, progress: Callable[[int, int], object]) -> list[Stage]:
    """Do the stages that are not done yet; gives all of them."""
    table = explainers(job.methods)
    if (needing := needing_patterns(table)) and job.patterns is None and job.estimation is None:
        raise PgigError(f"{', '.join(needing)} need patterns", lacks="patterns")
    if job.patterns is not None:
        job.patterns.check(model)
    classes_of(model, job.preprocess.size)
    estimate = _estimator(job)
    images, skipped, contents = _read(job.images, job.preprocess)
    if needing_references(table) and len(images) < 2:
        raise PgigError("expected_gradients draws its references from the other images: give more than one")
    stages = stages_of(layers_from_the_top(model, next(iter(images.values()))), job.modes, job.layers)
    _settle(job, model, contents)
    write_csv(job.out / "skipped.csv", ["image", "reason"], skipped.items())
    write_csv(
        job.out / "stages.csv", ["stage", "mode", "number", "layer", "randomised"],
        ([stage.name, stage.mode, stage.number, stage.layer, len(stage.layers)] for stage in stages),
    )  # fmt: skip
    todo = [stage for stage in stages if not _path(job.out, stage).is_file()]
    total = len(stages) * len(images)
    progress(total - len(todo) * len(images), total)
    if not todo:
        return stages
    targets = {image: int(output_for(model, x)[0].argmax()) for image, x in images.items()}
    asked = Asked(
        table=table, images=images, targets=targets, patterns=job.patterns, estimate=estimate, seed=job.seed,
        score=job.score, black=job.preprocess.black,
    )  # fmt: skip
    originals = dict(asked.maps(model))
    for number, stage in enumerate(todo, len(stages) - len(todo)):
        done: list[Row] = []
        for row in compare_randomised(asked, model, stage, originals):
            done.append(row)
            progress(number * len(images) + len({each.image for each in done}), total)
        write_csv(_path(job.out, stage), HEAD, (astuple(row) for row in done))
    return stages


def _estimator(job: Randomization) -> Callable[[nn.Module], Mapping[str, Tensor]] | None:
    if job.estimation is None:
        return None
    folder = job.estimation
    if next(folder.batches(job.preprocess, 1, 0, {}), None) is None:
        raise PgigError("none of the images to estimate patterns from could be read")
    return lambda model: estimate_patterns(model, (x for _, x in folder.batches(job.preprocess, _BATCH, 0, {})))


def _read(folder: ImageFolder, preprocess: Preprocess) -> tuple[dict[str, Tensor], dict[str, str], str]:
    """Images by name, those that cannot be read with reasons, and a digest of all files."""
    found: dict[str, Tensor] = {}
    skipped: dict[str, str] = {}
    contents: list[str] = []

    def read(name: str) -> bytes:
        content = folder.read(name)
        contents.append(digest_of_file(content))
        return content

    for name in folder.names:
        one = ImageFolder((name,), read)
        for _, x in one.batches(preprocess, 1, 0, skipped):
            found[name] = x
    if not found:
        name, reason = next(iter(skipped.items()))
        raise PgigError(f"none of the images could be read; {name}: {reason}")
    return found, skipped, digest_of(" ".join(contents))


def _settle(job: Randomization, model: nn.Module, contents: str) -> None:
    """Write the configuration, or compare it with that of the run which goes on."""
    values: dict[str, Section] = {
        "images": {
            "count": len(job.images.names), "digest": job.images.digest, "contents": contents, **job.preprocess.facts,
        },
        "model": {"model": job.model, "weights_digest": digest_of(Subject.of(model).digest)},
        "attributions": {
            "methods": list(job.methods), "score": job.score, "seed": job.seed,
            "patterns_digest": None if job.patterns is None else job.patterns.content_digest(),
            "estimation_digest": None if job.estimation is None else job.estimation.digest,
        },
        "randomization": {"modes": list(job.modes), "layers": job.layers},
        "versions": {"pgig": __version__, "torch": str(torch.__version__), "numpy": numpy.__version__},
    }  # fmt: skip
    if any((job.out / "stages").glob("*.csv")):
        check_same(job.out, values)
    elif (job.out / "config.toml").exists():
        read_config(job.out / "config.toml", ["randomization"])  # refuses what is another kind of run
    write_config(job.out / "config.toml", values)


def _path(out: Path, stage: Stage) -> Path:
    return out / "stages" / f"{stage.name}.csv"
