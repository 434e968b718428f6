"""A randomisation run: a folder that grows stage by stage, can be stopped at any moment, and goes on."""

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import astuple, dataclass, fields, replace
from functools import cached_property, partial
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
from pgig.randomization.comparison import (
    Asked,
    Key,
    Mode,
    Row,
    Stage,
    compare_randomised,
    layers_from_the_top,
    stages_of,
)
from pgig.records.config import Section, check_same, read_config, write_config
from pgig.records.parts import Part
from pgig.records.tables import write_csv
from pgig.runs.backends.events import Backend, Worker
from pgig.runs.delivery import made_for, received
from pgig.runs.sent_model import SentModel, SentPatterns
from pgig.runs.standing import Headway, write_set_aside
from pgig.runs.where import RAY_LOG, Where
from pgig.subject.scores import Score
from pgig.subject.subject import Subject
from pgig.vision.image_folder import ImageFolder
from pgig.vision.models import classes_of, load_model, output_for
from pgig.vision.preprocess import Preprocess

HEAD = [field.name for field in fields(Row)]
_BATCH = 8  # images of an estimation at once


@dataclass(frozen=True, kw_only=True)
class Randomization:
    """All that determines the result, beside model and patterns: plain values, which can be sent to other processes."""

    model: str  # as it was asked for
    weights: str | None = None
    place: Path | str  # of the images
    limit: int | None = None
    preprocess: Preprocess
    methods: tuple[str, ...]
    out: Path
    estimation_place: Path | None = None  # of images to estimate patterns from anew
    estimation_limit: int | None = None
    modes: tuple[Mode, ...] = ("cascading", "independent")
    layers: int | None = None
    score: Score = "probability"
    seed: int = 0
    threads: int | None = None

    @property
    def images(self) -> ImageFolder:
        return ImageFolder.open(self.place).first(self.limit)

    @property
    def estimation(self) -> ImageFolder | None:
        place = self.estimation_place
        return None if place is None else ImageFolder.open(place).first(self.estimation_limit)


def run_randomization(
    job: Randomization,
    model: nn.Module,
    patterns: Patterns | None,
    say: Callable[[Headway], object],
    where: Where | None = None,
    backend: Backend | None = None,
) -> Headway:
    """Do the stages that are not done yet, each a part; the same whoever works on them."""
    where = where or Where()
    where.check(job.place)
    table = explainers(job.methods)
    if (needing := needing_patterns(table)) and patterns is None and job.estimation_place is None:
        raise PgigError(f"{', '.join(needing)} need patterns", lacks="patterns")
    if patterns is not None:
        patterns.check(model)
    classes_of(model, job.preprocess.size)
    images, skipped, contents = _read(job.images, job.preprocess)
    if needing_references(table) and len(images) < 2:
        raise PgigError("expected_gradients draws its references from the other images: give more than one")
    _estimator(job)
    stages = stages_of(layers_from_the_top(model, next(iter(images.values()))), job.modes, job.layers)
    _settle(job, model, patterns, contents)
    write_csv(job.out / "skipped.csv", ["image", "reason"], skipped.items())
    write_csv(
        job.out / "stages.csv", ["stage", "mode", "number", "layer", "randomised"],
        ([stage.name, stage.mode, stage.number, stage.layer, len(stage.layers)] for stage in stages),
    )  # fmt: skip
    todo = [n for n, stage in enumerate(stages) if not (job.out / _name(stage)).is_file()]
    done = (len(stages) - len(todo)) * len(images)
    headway = Headway(len(stages) * len(images), before=done, done=done)
    say(headway)
    where = where.fitted(len(todo))
    job = replace(job, threads=where.threads(job.threads, torch.get_num_threads()))
    backend = backend or where.made(job.out / RAY_LOG)
    parts = [Part(number, tuple(images)) for number in todo]
    with closing(backend.map(_worker_maker(job, model, patterns, backend), parts)) as events:
        for _ in headway.follow(received(events, job.out)):
            pass
    write_set_aside(headway, job.out)
    return headway


class StageWorker:
    """Randomises the layers of one stage after another; what the model itself says is asked once."""

    def __init__(self, job: Randomization, model: nn.Module, patterns: Patterns | None) -> None:
        self._job, self._model, self._patterns = job, model, patterns
        if job.threads is not None:
            torch.set_num_threads(job.threads)
        self._images = _read(job.images, job.preprocess)[0]
        first = next(iter(self._images.values()))
        self._stages = stages_of(layers_from_the_top(model, first), job.modes, job.layers)

    def run(self, part: Part) -> Generator[int, None, None]:
        stage = self._stages[part.number]
        rows: list[Row] = []
        seen: set[str] = set()
        for row in compare_randomised(self._asked, self._model, stage, self._originals):
            rows.append(row)
            if row.image not in seen:
                seen.add(row.image)
                yield 1
        write_csv(self._job.out / _name(stage), HEAD, (astuple(row) for row in rows))

    @cached_property
    def _asked(self) -> Asked:
        targets = {image: int(output_for(self._model, x)[0].argmax()) for image, x in self._images.items()}
        return Asked(
            table=explainers(self._job.methods), images=self._images, targets=targets, patterns=self._patterns,
            estimate=_estimator(self._job), seed=self._job.seed, score=self._job.score,
            black=self._job.preprocess.black,
        )  # fmt: skip

    @cached_property
    def _originals(self) -> dict[Key, Tensor]:
        return dict(self._asked.maps(self._model))


def _make_worker(job: Randomization, patterns: SentPatterns | None) -> StageWorker:
    model = load_model(job.model, job.weights)
    return StageWorker(job, model, None if patterns is None else patterns.patterns())


def _make_sent_worker(job: Randomization, sent: SentModel, out: Path) -> StageWorker:
    subject, patterns = sent.load()
    return StageWorker(replace(job, out=out), subject.module, patterns)


def _worker_maker(
    job: Randomization, model: nn.Module, patterns: Patterns | None, backend: Backend
) -> Callable[[], Worker]:
    if getattr(backend, "in_process", False):
        return partial(StageWorker, job, model, patterns)
    if not getattr(backend, "is_far", False):
        return partial(_make_worker, job, None if patterns is None else SentPatterns.of(patterns))
    return made_for(
        backend, partial(_make_sent_worker, job, SentModel.of(job.model, Subject.of(model), patterns)), job.out
    )


def _estimator(job: Randomization) -> Callable[[nn.Module], Mapping[str, Tensor]] | None:
    folder = job.estimation
    if folder is None:
        return None
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


def _settle(job: Randomization, model: nn.Module, patterns: Patterns | None, contents: str) -> None:
    """Write the configuration, or compare it with that of the run which goes on."""
    images, estimation = job.images, job.estimation
    values: dict[str, Section] = {
        "images": {
            "count": len(images.names), "digest": images.digest, "contents": contents, **job.preprocess.facts,
        },
        "model": {"model": job.model, "weights_digest": digest_of(Subject.of(model).digest)},
        "attributions": {
            "methods": list(job.methods), "score": job.score, "seed": job.seed,
            "patterns_digest": None if patterns is None else patterns.content_digest(),
            "estimation_digest": None if estimation is None else estimation.digest,
        },
        "randomization": {"modes": list(job.modes), "layers": job.layers},
        "versions": {"pgig": __version__, "torch": str(torch.__version__), "numpy": numpy.__version__},
    }  # fmt: skip
    if any((job.out / "stages").glob("*.csv")):
        check_same(job.out, values)
    elif (job.out / "config.toml").exists():
        read_config(job.out / "config.toml", ["randomization"])  # refuses what is another kind of run
    write_config(job.out / "config.toml", values)


def _name(stage: Stage) -> str:
    return f"stages/{stage.name}.csv"
