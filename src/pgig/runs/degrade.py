"""A degradation run: a folder that grows part by part, can be stopped at any moment, and goes on."""

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from pgig import __version__
from pgig.degradation import PatchGrid
from pgig.degradation.dense import check_score
from pgig.errors import PgigError
from pgig.explainers.registry import explainers, needs_patterns
from pgig.files import sweep
from pgig.patterns.patterns import Patterns, model_digest
from pgig.records.config import Section, check_same, config_digest, read_config, write_config
from pgig.records.parts import (
    PART,
    Finished,
    Part,
    check_sums,
    is_finished,
    parts_of,
    read_finished,
    read_sums,
    write_skipped,
)
from pgig.runs.evaluators import Chosen, Wish, choose
from pgig.runs.job import (
    Job,
    Tally,
    Worker,
    digest_of,
    digest_of_file,
    digest_of_patterns,
    draws_references,
    grid_of,
    reference_pool,
)
from pgig.runs.labels import checked_labels
from pgig.statistics import auc
from pgig.subject.rows import check_rows
from pgig.vision.image_folder import DAMAGED, ImageFolder
from pgig.vision.models import classes_of, load_model
from pgig.vision.preprocess import example

_SPAWN = multiprocessing.get_context("spawn")


@dataclass
class Standing:
    """Where a run stands."""

    total: int  # images
    before: int = 0  # of those, found finished when the run began
    skipped: int = 0  # of those, could not be used; known at the end
    tally: Tally = field(default_factory=lambda: _SPAWN.Value("q", 0))  # images since then, counted by all processes
    _areas: dict[str, list[float]] = field(default_factory=dict)

    @property
    def done(self) -> int:
        return self.before + self.tally.value

    def add(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            self._areas.setdefault(row["method"], []).append(float(auc(row["curve"])))

    @property
    def measured(self) -> int:
        """Images that have areas."""
        return max(map(len, list(self._areas.values())), default=0)

    @property
    def areas(self) -> dict[str, float]:
        """The mean area under the curve so far, by method."""
        return {method: float(numpy.mean(values)) for method, values in list(self._areas.items())}


@dataclass(frozen=True)
class Prepared:
    """A job that was checked, with what it needs."""

    job: Job
    model: nn.Module
    chosen: Chosen
    workers: int
    todo: tuple[Part, ...]


def run_degradation(prepared: Prepared, say: Callable[[Standing], object]) -> Standing:
    """Do what is not done yet. The result does not depend on workers, batch size or interruption (to rounding)."""
    job = prepared.job
    standing = Standing(len(job.names))
    todo = {part.number for part in prepared.todo}
    finished = [part for part in parts_of(job.names) if part.number not in todo]
    folder = ImageFolder.open(job.images)
    for part, found in zip(finished, read_finished(job.out, finished), strict=True):
        standing.add(found.rows)
        _check_images(job, folder, found)
        if job.save_attributions:
            read_sums(job.out, part)  # is it whole?
    standing.before = sum(len(part.images) for part in finished)
    say(standing)
    for rows in _worked(prepared, standing.tally):
        standing.add(rows)
    standing.skipped = len(write_skipped(job.out))
    return standing


def _check_images(job: Job, folder: ImageFolder, finished: Finished) -> None:
    """Refuse to go on where an image file is another than when its part was made."""
    for name, before in finished.digests.items():
        if before is None:
            continue
        try:
            now = digest_of_file(folder.read(name))
        except (PgigError, *DAMAGED) as error:
            raise PgigError(
                f"{name} was read when its part of {job.out} was made, and cannot be now: {error}"
            ) from error
        if now != before:
            raise PgigError(
                f"{name} is another file than when its part of {job.out} was made: put the file back, or give "
                "another --out"
            )


def prepare(job: Job, workers: int) -> Prepared:
    """Check all that can be checked before hours of work, and write or compare the configuration."""
    for what, number in (("workers", workers), ("batch size", job.batch_size), ("threads", job.threads)):
        if number is not None and number < 1:
            raise PgigError(f"{what} must be at least 1, got {number}")
    check_score(job.score)
    if job.save_attributions and job.attributions_from is not None:
        raise PgigError(f"the attributions are saved in {job.attributions_from} already: leave out --save-attributions")
    grid = grid_of(job)
    table = explainers(job.methods)
    if needs_patterns(table) and job.patterns is None and job.attributions_from is None:
        raise PgigError("pattern methods need patterns: give --patterns FILE (pgig patterns makes one)")
    begun = any((job.out / "parts").glob("part-*.parquet"))
    if begun and not (job.out / "config.toml").exists():
        raise PgigError(f"{job.out} holds parts but no config.toml: give another --out")
    if begun:
        check_same(job.out, _known_at_once(job), partly=True)
    todo = tuple(part for part in parts_of(job.names) if not is_finished(job.out, part, job.save_attributions))
    workers = max(1, min(workers, len(todo)))
    model = load_model(job.model, job.weights)
    found = Patterns.load(job.patterns) if job.patterns else None
    if found is not None and not job.force:
        found.check(model)
    classes = classes_of(model, job.preprocess.size)
    labels = checked_labels(job.labels, job.names, classes, job.labels_file is not None, job.by_label)
    job = replace(job, labels=labels)
    digest = digest_of(model_digest(model))
    if ":" in job.model and digest_of(model_digest(load_model(job.model, job.weights))) != digest:
        raise PgigError(
            f"{job.model} is another model each time it is made, or changes itself: give it weights, or seed it"
        )
    image = _first_image(job)
    check_rows(
        model, [image], [torch.zeros_like(image)], job.score, lambda x, _: model(x[0].clone()),
        remedy="its scores cannot be measured here, where many images go through together",
    )  # fmt: skip
    chosen = choose(_wish(job, workers), model, image, job.protocol)
    job = replace(job, digest=digest, evaluator=chosen.evaluator.name, batch_size=chosen.batch_size)
    if draws_references(job, table):
        _, contents = reference_pool(job, ImageFolder.open(job.images))
        job = replace(job, references_contents=contents)
    sections = _sections(job, workers, digest, found)
    if job.attributions_from is not None:
        _check_reusable(job, job.attributions_from, sections, grid)
    if begun:
        check_same(job.out, sections)
    write_config(job.out / "config.toml", sections)
    job = replace(job, configuration=config_digest(read_config(job.out / "config.toml")))
    for folder in ("parts", "attributions", "heatmaps"):
        sweep(job.out / folder)
    return Prepared(job, model, chosen, workers, todo)


def _wish(job: Job, workers: int) -> Wish:
    """What was asked for; a run that goes on keeps its batch size, and with it the last bits of its results."""
    batch = job.batch_size
    if batch is None and job.memory is None and (job.out / "config.toml").exists():
        before = read_config(job.out / "config.toml").get("execution", {})
        batch = before.get("batch_size")
    return Wish(
        job.evaluator, job.score, batch, job.memory, workers, pairs=min(PART, len(job.names)) * len(job.methods)
    )  # fmt: skip


def _first_image(job: Job) -> Tensor:
    """An image of the run, to try evaluators on; noise where the first few cannot be read."""
    folder = ImageFolder.open(job.images)
    some = ImageFolder(job.names[:PART], folder.read)
    return next((x[:1] for _, x in some.batches(job.preprocess, 1, 0, {})), example(job.preprocess.size))


def _known_at_once(job: Job) -> dict[str, dict[str, Any]]:
    """What can be compared before anything is built."""
    protocol = asdict(job.protocol)
    protocol.pop("patch")
    own = {} if job.attributions_from is not None else {
        "explained_score": job.score, "seed": job.seed, "patch": job.protocol.patch,
        "target": "label" if job.by_label else "predicted",
    }  # fmt: skip
    return {
        "images": {
            "count": len(job.names), "digest": digest_of("\n".join(job.names)), **_listed(job.preprocess.facts),
            "max_pixels": job.preprocess.max_pixels,
        },
        "model": {"model": job.model},
        "attributions": {"methods": list(job.methods), **own},
        "degradation": {
            **protocol, "score": job.score, "order_seed": job.seed,
            "scored": "label" if job.by_label else "predicted",
        },
    }  # fmt: skip


def _sections(job: Job, workers: int, digest: str, patterns: Patterns | None) -> dict[str, Section]:
    known = _known_at_once(job)
    return {
        "images": known["images"],
        "model": {**known["model"], "weights_digest": digest},
        "attributions": _attributions(job, patterns, known["attributions"]),
        "degradation": {**known["degradation"], "evaluator": job.evaluator, "labels_digest": _labels_digest(job)},
        "versions": {
            "pgig": __version__, "torch": str(torch.__version__), "numpy": numpy.__version__,
            "pillow": version("pillow"),
        },
        "files": {
            "images": str(job.images), "weights": job.weights, "patterns": str(job.patterns) if job.patterns else None,
            "references": str(job.references) if job.references else None, "labels": job.labels_file,
            "attributions_from": str(job.attributions_from) if job.attributions_from else None,
        },
        "execution": {
            "workers": workers, "batch_size": job.batch_size, "threads": job.threads, "memory": job.memory,
        },
    }  # fmt: skip


def _attributions(job: Job, patterns: Patterns | None, known: Section) -> Section:
    """What the order of patches depends on; for attributions of another run, what that run says."""
    if job.attributions_from is not None:
        before = read_config(job.attributions_from / "config.toml")["attributions"]
        return {**before, **known}
    return {
        **known,
        "patterns_digest": None if patterns is None else digest_of_patterns(patterns),
        "references_digest": digest_of("\n".join(ImageFolder.open(job.references).names)) if job.references else None,
        "references_contents": job.references_contents,
    }


def _labels_digest(job: Job) -> str | None:
    """Of the labels of the run's images, where there are any."""
    return digest_of("\n".join(f"{name} {label}" for name, label in sorted(job.labels.items()))) if job.labels else None


def _listed(values: dict[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def _check_reusable(job: Job, folder: Path, sections: dict[str, Section], grid: PatchGrid) -> None:
    """Saved attributions are of use for the same images, preprocessing and model."""
    before = read_config(folder / "config.toml")
    for section in ("images", "model"):
        for key, value in sections[section].items():
            if key != "max_pixels" and (found := before[section].get(key)) != value:
                raise PgigError(f"the attributions in {folder} are of another run: {key} was {found!r}, now {value!r}")
    patch, wanted = before["attributions"].get("patch"), grid.patch
    if patch != wanted:
        raise PgigError(f"the attributions in {folder} are for patches of {patch} pixels, not {wanted}")
    if missing := set(sections["attributions"]["methods"]) - set(before["attributions"].get("methods", [])):
        raise PgigError(f"{folder} has no attributions by {', '.join(sorted(missing))}")
    for part in parts_of(job.names):
        check_sums(folder, part)


def _worked(prepared: Prepared, tally: Tally) -> Iterator[list[dict[str, Any]]]:
    """The rows of every part, as they get done."""
    job, workers, parts = prepared.job, prepared.workers, prepared.todo
    if not parts:
        return
    if workers == 1:
        worker = Worker(job, prepared.model, prepared.chosen.evaluator)
        for part in parts:
            yield worker.run(part, tally)
        return
    threads = max(1, (job.threads or torch.get_num_threads()) // workers)
    shared = replace(job, threads=threads)
    with _pool(shared, workers, tally) as pool:
        for future in as_completed([pool.submit(_run, part) for part in parts]):
            try:
                yield future.result()
            except BrokenProcessPool as error:
                raise PgigError("a worker died, perhaps of memory; the same command goes on") from error


@contextmanager
def _pool(job: Job, workers: int, tally: Tally) -> Iterator[ProcessPoolExecutor]:
    pool = ProcessPoolExecutor(workers, _SPAWN, _begin, (job, tally))
    try:
        yield pool
    except BaseException:  # what is in work is not waited for: a part is made anew
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


_given: list[tuple[Job, Tally]] = []
_made: list[Worker] = []


def _begin(job: Job, tally: Tally) -> None:
    _given.append((job, tally))
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: multiprocessing.process.BaseProcess) -> None:
    """A worker whose parent was killed ends too."""
    parent.join()
    os._exit(1)


def _run(part: Part) -> list[dict[str, Any]]:
    job, tally = _given[0]
    if not _made:
        model = load_model(job.model, job.weights)
        chosen = choose(_wish(job, 1), model, _first_image(job), job.protocol)
        if chosen.evaluator.name != job.evaluator:
            raise PgigError(f"a worker cannot use the {job.evaluator} evaluator: {chosen.note}")
        _made.append(Worker(job, model, chosen.evaluator))
    return _made[0].run(part, tally)
