"""A degradation run: a folder that grows part by part, can be stopped at any moment, and goes on."""

import csv
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy
import torch

from pgig import __version__
from pgig.curves import auc
from pgig.degradation import PatchGrid
from pgig.errors import PgigError
from pgig.explainers import explainers, needs_patterns
from pgig.patterns import Patterns, model_digest
from pgig.runs.config import Section, check_same, read_config, write_config
from pgig.runs.job import Job, Worker, digest_of, grid_of
from pgig.runs.parts import Part, is_finished, parts_of, read_part, write_skipped
from pgig.vision.folders import ImageFolder
from pgig.vision.models import load_model, output_for


@dataclass
class Standing:
    """Where a run stands."""

    total: int  # images
    done: int = 0
    before: int = 0  # of those, found finished when the run began
    skipped: int = 0  # of those, could not be read; known at the end
    _areas: dict[str, list[float]] = field(default_factory=dict)

    def add(self, part: Part, rows: list[dict[str, Any]]) -> None:
        self.done += len(part.images)
        for row in rows:
            self._areas.setdefault(row["method"], []).append(float(auc(row["curve"])))

    @property
    def areas(self) -> dict[str, float]:
        """The mean area under the curve so far, by method."""
        return {method: float(numpy.mean(values)) for method, values in self._areas.items()}


def run_degradation(job: Job, workers: int, say: Callable[[Standing], object]) -> Standing:
    """Do what is not done yet. The result does not depend on workers, batch size or interruption (to rounding)."""
    if workers < 1:
        raise PgigError(f"workers must be at least 1, got {workers}")
    parts = parts_of(job.names)
    standing = Standing(len(job.names))
    finished = [part for part in parts if is_finished(job.out, part, job.save_attributions)]
    for part in finished:
        standing.add(part, read_part(job.out, part))
    standing.before = standing.done
    say(standing)
    done = {part.number for part in finished}
    for part, rows in _worked(job, [part for part in parts if part.number not in done], workers):
        standing.add(part, rows)
        say(standing)
    standing.skipped = len(write_skipped(job.out))
    return standing


def prepared(job: Job, workers: int) -> Job:
    """Check all that can be checked before hours of work, and write or compare the configuration."""
    grid = grid_of(job)
    table = explainers(job.methods)
    if needs_patterns(table) and job.patterns is None and job.attributions_from is None:
        raise PgigError("pattern methods need patterns: give --patterns FILE (pgig patterns makes one)")
    model = load_model(job.model, job.weights)
    found = Patterns.load(job.patterns) if job.patterns else None
    if found is not None and not job.force:
        found.check(model)
    output_for(model, torch.zeros(1, 3, job.preprocess.size, job.preprocess.size))
    if job.by_label and (missing := [name for name in job.names if name not in job.labels]):
        raise PgigError(f"no label for {missing[0]}: give labels for every image, or leave out --target label")
    digest = digest_of(model_digest(model))
    sections = _sections(job, workers, digest, found)
    if job.attributions_from is not None:
        _check_reusable(job.attributions_from, sections, grid)
    if (job.out / "config.toml").exists():
        check_same(job.out, sections)
    elif (job.out / "parts").exists():
        raise PgigError(f"{job.out} holds parts but no config.toml: give another --out")
    write_config(job.out / "config.toml", sections)
    return replace(job, digest=digest)


def _sections(job: Job, workers: int, digest: str, patterns: Patterns | None) -> dict[str, Section]:
    protocol = asdict(job.protocol)
    protocol.pop("patch")
    return {
        "images": {
            "count": len(job.names), "digest": digest_of("\n".join(job.names)), **_listed(asdict(job.preprocess)),
        },
        "model": {"model": job.model, "weights_digest": digest},
        "attributions": _attributions(job, patterns),
        "degradation": {
            **protocol, "score": job.score, "evaluator": job.evaluator, "order_seed": job.seed,
            "scored": "label" if job.by_label else "predicted", "labels_digest": _labels_digest(job),
        },
        "versions": {
            "pgig": __version__, "torch": str(torch.__version__), "numpy": numpy.__version__,
            "pillow": version("pillow"),
        },
        "files": {
            "images": str(job.images), "weights": job.weights, "patterns": str(job.patterns) if job.patterns else None,
            "references": str(job.references) if job.references else None, "labels": job.labels_file,
            "attributions_from": str(job.attributions_from) if job.attributions_from else None,
        },
        "execution": {"workers": workers, "batch_size": job.batch_size, "threads": job.threads},
    }  # fmt: skip


def _attributions(job: Job, patterns: Patterns | None) -> Section:
    """What the order of patches depends on; for attributions of another run, what that run says."""
    if job.attributions_from is not None:
        before = read_config(job.attributions_from / "config.toml").get("attributions", {})
        return {**before, "methods": list(job.methods)}
    return {
        "methods": list(job.methods),
        "explained_score": job.score,
        "seed": job.seed,
        "patch": job.protocol.patch,
        "target": "label" if job.by_label else "predicted",
        "patterns_digest": None if patterns is None else digest_of(_patterns_text(patterns)),
        "references_digest": digest_of("\n".join(ImageFolder.open(job.references).names)) if job.references else None,
    }


def _labels_digest(job: Job) -> str | None:
    """Of the labels of the run's images, where there are any."""
    return digest_of("\n".join(f"{name} {label}" for name, label in sorted(job.labels.items()))) if job.labels else None


def _listed(values: dict[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def _patterns_text(patterns: Patterns) -> str:
    return " ".join(f"{name}={digest_of(bytes(patterns[name].numpy().data))}" for name in sorted(patterns))


def _check_reusable(folder: Path, sections: dict[str, Section], grid: PatchGrid) -> None:
    """Saved attributions are of use for the same images, preprocessing and model."""
    before = read_config(folder / "config.toml")
    for section in ("images", "model"):
        for key, value in sections[section].items():
            if before.get(section, {}).get(key) != value:
                found = before.get(section, {}).get(key)
                raise PgigError(f"the attributions in {folder} are of another run: {key} was {found!r}, now {value!r}")
    patch, wanted = before["attributions"]["patch"], grid.patch
    if patch != wanted:
        raise PgigError(f"the attributions in {folder} are for patches of {patch} pixels, not {wanted}")
    if missing := set(sections["attributions"]["methods"]) - set(before["attributions"]["methods"]):
        raise PgigError(f"{folder} has no attributions by {', '.join(sorted(missing))}")


def read_labels(path: Path | None, names: tuple[str, ...]) -> dict[str, int]:
    """Labels by image: from a CSV (file, class index), or by folder, one class each in the order of their names."""
    if path is None:
        folders = sorted({folder for name in names if (folder := name.rpartition("/")[0])})
        return {name: folders.index(folder) for name in names if (folder := name.rpartition("/")[0])}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.reader(file) if row]
        start = 0 if rows and rows[0][1].strip().lstrip("-").isdigit() else 1
        by_name = {row[0].strip(): int(row[1]) for row in rows[start:]}
    except (OSError, ValueError, IndexError) as error:
        raise PgigError(f"cannot read labels from {path}: expected lines of file,class_index ({error})") from error
    return {name: by_name[key] for name in names for key in (name, name.rpartition("/")[2]) if key in by_name}


def image_names(folder: Path, limit: int | None) -> tuple[str, ...]:
    return ImageFolder.open(folder).first(limit).names


def _worked(job: Job, parts: list[Part], workers: int) -> Iterator[tuple[Part, list[dict[str, Any]]]]:
    if workers == 1 or not parts:
        worker = Worker(job) if parts else None
        for part in parts:
            assert worker is not None
            yield part, worker.run(part)
        return
    threads = max(1, (job.threads or torch.get_num_threads()) // workers)
    shared = replace(job, threads=threads)
    with _pool(shared, min(workers, len(parts))) as pool:
        waiting: dict[Future[list[dict[str, Any]]], Part] = {pool.submit(_run, part): part for part in parts}
        while waiting:
            ended, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in ended:
                try:
                    rows = future.result()
                except BrokenProcessPool as error:
                    raise PgigError("a worker died, perhaps of memory; the same command goes on") from error
                yield waiting.pop(future), rows


@contextmanager
def _pool(job: Job, workers: int) -> Iterator[ProcessPoolExecutor]:
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, _begin, (job,))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


_given: list[Job] = []
_made: list[Worker] = []


def _begin(job: Job) -> None:
    _given.append(job)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: multiprocessing.process.BaseProcess) -> None:
    """A worker whose parent was killed ends too."""
    parent.join()
    os._exit(1)


def _run(part: Part) -> list[dict[str, Any]]:
    if not _made:
        _made.append(Worker(_given[0]))
    return _made[0].run(part)
