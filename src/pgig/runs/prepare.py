"""From a request to a job: all that can be checked before hours of work, and the configuration."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from pgig.degradation import PatchGrid
from pgig.digests import digest_of
from pgig.errors import PgigError
from pgig.explainers.registry import explainers
from pgig.explainers.together import needing_patterns
from pgig.files import sweep
from pgig.measures import judge_of
from pgig.measures.evaluators import Chosen, Wish, choose
from pgig.patterns.kept import read_patterns
from pgig.patterns.patterns import Patterns
from pgig.records.config import check_same, config_digest, read_config, write_config
from pgig.records.part_files import is_finished
from pgig.records.parts import PART, Part, parts_of
from pgig.runs.backends.events import Backend
from pgig.runs.backends.events import Worker as WorksOnParts
from pgig.runs.delivery import made_for
from pgig.runs.job import Job, grid_of
from pgig.runs.labels import checked_labels, read_labels
from pgig.runs.masks import Masks
from pgig.runs.references import draws_references, reference_pool
from pgig.runs.request import Request
from pgig.runs.sections import check_reusable, known_at_once, sections_of
from pgig.runs.sent_model import SentModel
from pgig.runs.where import Where
from pgig.runs.worker import Worker
from pgig.subject.rows import check_rows
from pgig.subject.subject import Subject
from pgig.vision.image_folder import ImageFolder
from pgig.vision.models import classes_of, load_model
from pgig.vision.names import is_factory
from pgig.vision.preprocess import example


@dataclass(frozen=True)
class Prepared:
    """A job that was checked, with what it needs."""

    job: Job
    subject: Subject
    patterns: Patterns | None
    chosen: Chosen
    where: Where
    todo: tuple[Part, ...]


def prepare(asked: Request) -> Prepared:
    """Check, and write or compare the configuration."""
    asked.where.check(asked.images, asked.references)
    grid_of(asked)
    _check_measures(asked)
    table = explainers(asked.methods)
    if needing_patterns(table) and asked.patterns is None and asked.attributions_from is None:
        raise PgigError("pattern methods need patterns", lacks="patterns")
    folder = ImageFolder.open(asked.images)
    names = folder.first(asked.limit).names
    if asked.masks is not None and asked.needs_masks:
        Masks.open(asked.masks).check(names)
    begun = any((asked.out / "parts").glob("part-*.parquet"))
    if begun and not (asked.out / "config.toml").exists():
        raise PgigError(f"{asked.out} holds parts but no config.toml", lacks="another folder")
    if begun:
        check_same(asked.out, known_at_once(asked, names), partly=True)
    todo = tuple(part for part in parts_of(names) if not is_finished(asked.out, part, asked.save_attributions))
    where = asked.where.fitted(len(todo))
    subject = Subject(load_model(asked.model, asked.weights))
    found = read_patterns(asked.patterns, subject.module) if asked.patterns else None
    if found is not None and not asked.force:
        found.check(subject)
    labels = checked_labels(
        read_labels(asked.labels, folder.names), names, classes_of(subject.module, asked.preprocess.size),
        from_file=asked.labels is not None, wanted=asked.by_label,
    )  # fmt: skip
    digest = _checked_digest(asked, subject)
    image = _first_image(asked, names)
    check_rows(
        subject, [image], [torch.zeros_like(image)], asked.score, lambda x, _: subject(x[0].clone()),
        remedy="its scores cannot be measured here, where many images go through together",
    )  # fmt: skip
    chosen = choose(_wish(asked, len(names), where.here), subject, image, asked.protocol)
    contents = reference_pool(asked, names, folder)[1] if draws_references(asked, table) else None
    job = Job(
        asked=asked, names=names, labels=labels, digest=digest, evaluator=chosen.evaluator.name,
        batch_size=chosen.batch_size, references_contents=contents, configuration="",
        threads=where.threads(asked.threads, torch.get_num_threads()),
    )  # fmt: skip
    return Prepared(_configured(job, where, found, begun), subject, found, chosen, where, todo)


def _check_measures(asked: Request) -> None:
    """Do their patches fit the images?"""
    x = torch.empty(1, 3, asked.preprocess.size, asked.preprocess.size)
    for found in asked.judged_by.values():
        protocol = getattr(judge_of(found), "protocol", None)
        if protocol is not None:
            protocol.grid(x)
        elif "patch" in found.constants:
            grid = PatchGrid(x.shape[2], x.shape[3], found.constants["patch"])
            if len(grid) < found.constants.get("groups", 1):
                raise PgigError(f"{found.label} cannot put {len(grid)} patches into {found.constants['groups']} groups")


def make_worker(job: Job) -> Worker:
    """In another process: load the model anew, and choose the evaluator that the job has."""
    subject = Subject(load_model(job.asked.model, job.asked.weights))
    patterns = read_patterns(job.asked.patterns, subject.module) if job.asked.patterns else None
    return _worker_with(job, subject, patterns)


def make_sent_worker(job: Job, sent: SentModel, out: Path) -> Worker:
    """On another machine: the model was sent, and files go to a folder there."""
    subject, patterns = sent.load()
    return _worker_with(replace(job, asked=replace(job.asked, out=out)), subject, patterns)


def _worker_with(job: Job, subject: Subject, patterns: Patterns | None) -> Worker:
    wish = replace(_wish(job.asked, len(job.names), 1), batch_size=job.batch_size, name=job.evaluator)
    chosen = choose(wish, subject, _first_image(job.asked, job.names), job.asked.protocol)
    if chosen.evaluator.name != job.evaluator:
        raise PgigError(f"a worker cannot use the {job.evaluator} evaluator: {chosen.note}")
    return Worker(job, subject, patterns, chosen.evaluator)


def worker_maker(prepared: Prepared, backend: Backend) -> Callable[[], WorksOnParts]:
    """How workers are made: here with what is loaded already, in other processes anew, elsewhere with what is sent."""
    job = prepared.job
    if getattr(backend, "in_process", False):
        return partial(Worker, job, prepared.subject, prepared.patterns, prepared.chosen.evaluator)
    if not getattr(backend, "is_far", False):
        return partial(make_worker, job)
    sent = partial(make_sent_worker, job, SentModel.of(job.asked.model, prepared.subject, prepared.patterns))
    return made_for(backend, sent, job.asked.out)


def _checked_digest(asked: Request, subject: Subject) -> str:
    digest = digest_of(subject.digest)
    if is_factory(asked.model) and digest_of(Subject(load_model(asked.model, asked.weights)).digest) != digest:
        raise PgigError(
            f"{asked.model} is another model each time it is made, or changes itself: give it weights, or seed it"
        )
    return digest


def _configured(job: Job, where: Where, patterns: Patterns | None, begun: bool) -> Job:
    out, source = job.asked.out, job.asked.attributions_from
    sections = sections_of(job, where, patterns)
    if source is not None:
        check_reusable(job, source, sections)
    if begun:
        check_same(out, sections)
    write_config(out / "config.toml", sections)
    for folder in ("parts", "attributions", "heatmaps", "examples"):
        sweep(out / folder)
    return replace(job, configuration=config_digest(read_config(out / "config.toml")))


def _wish(asked: Request, images: int, workers: int) -> Wish:
    """What was asked for; a run that goes on keeps its batch size, and with it the last bits of its results."""
    batch = asked.batch_size
    if batch is None and asked.memory is None and (asked.out / "config.toml").exists():
        before = read_config(asked.out / "config.toml").get("execution", {})
        batch = before.get("batch_size")
    return Wish(
        name=asked.evaluator, score=asked.score, batch_size=batch, memory=asked.memory, workers=workers,
        pairs=min(PART, images) * len(asked.methods),
    )  # fmt: skip


def _first_image(asked: Request, names: tuple[str, ...]) -> Tensor:
    """An image of the run, to try evaluators on; noise where the first few cannot be read."""
    some = ImageFolder(names[:PART], ImageFolder.open(asked.images).read)
    return next((x[:1] for _, x in some.batches(asked.preprocess, 1, 0, {})), example(asked.preprocess.size))
