"""Patterns on any backend: branches of shards are worked on, kept as files of moments, and added up in a fixed tree."""

from collections.abc import Callable, Generator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from pgig.errors import PgigError
from pgig.patterns.estimator import Estimator
from pgig.patterns.moments import Moments
from pgig.patterns.regimes import Joins, Regimes
from pgig.records.parts import Part
from pgig.runs.backends.events import Backend
from pgig.runs.delivery import made_for, received
from pgig.runs.patterns import Seen, plain
from pgig.runs.sent_model import SentModel
from pgig.runs.shards import Branch, branch_of, branches, part_of, shards_of
from pgig.runs.standing import SET_ASIDE, Headway, write_set_aside
from pgig.runs.where import RAY_LOG, Where
from pgig.subject.subject import Subject
from pgig.vision.image_folder import DAMAGED, ImageFolder
from pgig.vision.models import load_model
from pgig.vision.preprocess import Preprocess

PIECES = "sums"  # of branches, in the folder of the work
_AT_LEAST = 8  # branches, so that no more than an eighth is lost with a driver
_OF_UNKNOWN = 16  # branches, where it is not known how many workers there are: each sends sums


@dataclass(frozen=True, kw_only=True)
class PatternsJob:
    """Plain values, so that it can be sent to other processes."""

    model: str
    weights: str | None
    images: Path | str
    names: tuple[str, ...]
    shards: int  # into which these are cut: `shard_count` of them
    preprocess: Preprocess
    regime: Regimes = "auto"
    joins: Joins = "summed"
    batch_size: int = 8
    out: Path  # a folder
    threads: int | None = None


def estimate_on(
    where: Where, job: PatternsJob, subject: Subject, say: Callable[[Headway], object], backend: Backend | None = None
) -> tuple[Moments, dict[str, str]]:
    """Moments, and the images that were skipped with the reasons. What is in the folder already is not done again."""
    where.check(job.images)
    if job.batch_size < 1:
        raise PgigError(f"batch size must be at least 1, got {job.batch_size}")
    shards = shards_of(job.names, job.shards)
    finished = _finished(job, subject)
    wanted = max(_AT_LEAST, 2 * where.workers) if where.workers else _OF_UNKNOWN
    todo = branches(len(shards), wanted, list(finished))
    where = where.fitted(len(todo))
    job = replace(job, threads=where.threads(job.threads, torch.get_num_threads()))
    headway = Headway(len(job.names))
    headway.done = headway.before = sum(len(part_of(branch, shards).images) for branch in finished)
    say(headway)
    backend = backend or where.made(job.out / RAY_LOG)
    parts = [part_of(branch, shards) for branch in todo]
    with closing(backend.map(_worker_maker(job, subject, backend), parts)) as events:
        for _ in headway.follow(received(events, job.out)):
            pass
    write_set_aside(headway, job.out)
    if headway.aside:
        raise PgigError(
            f"{len(headway.aside)} parts were the end of every worker that tried them: see {job.out}/{SET_ASIDE}; they "
            "are tried again when the estimation goes on"
        )
    return _added_up(job)


def discard(out: Path) -> None:
    """What work that is done has left, and nothing else."""
    for path in [*(out / PIECES).glob("shards-*.safetensors"), out / RAY_LOG, out / SET_ASIDE]:
        path.unlink(missing_ok=True)
    for folder in (out / PIECES, out):
        with suppress(OSError):  # something else is in it, or it is not there
            folder.rmdir()


def has_begun(out: Path) -> bool:
    return any((out / PIECES).glob("shards-*.safetensors"))


class PatternsWorker:
    """Adds up the moments of a branch's shards."""

    def __init__(self, job: PatternsJob, subject: Subject) -> None:
        self._job, self._subject = job, subject
        if job.threads is not None:
            torch.set_num_threads(job.threads)
        self._folder = ImageFolder.open(job.images)
        self._shards = shards_of(job.names, job.shards)

    def run(self, part: Part) -> Generator[int, None, None]:
        branch = branch_of(part)
        moments = yield from self._sum(branch)
        moments.save(self._job.out / PIECES / branch.name)

    def _sum(self, branch: Branch) -> Generator[int, None, Moments]:
        halves = branch.halves
        if halves is None:
            return (yield from self._shard(branch))
        first = yield from self._sum(halves[0])
        second = yield from self._sum(halves[1])
        return _both(first, second)

    def _shard(self, branch: Branch) -> Generator[int, None, Moments]:
        job = self._job
        estimator = Estimator(self._subject, job.regime, preprocessing=job.preprocess.facts, joins=job.joins)
        names = self._shards[branch.first]
        seen, skipped, done = Seen(ImageFolder(names, self._folder.read), ""), dict[str, str](), 0
        for now, batch in seen.folder.batches(job.preprocess, job.batch_size, 0, skipped):
            estimator.update(batch)
            yield now - done
            done = now
        yield len(names) - done
        if not estimator.samples:
            name, reason = next(iter(skipped.items()))
            raise PgigError(f"none of the {len(names)} images of a shard could be read; {name}: {reason}")
        notes = {**_asked(job), "skipped": skipped, "contents": [seen.digest]}
        return replace(estimator.moments(), notes=notes)


def _make_worker(job: PatternsJob) -> PatternsWorker:
    return PatternsWorker(job, Subject(load_model(job.model, job.weights)))


def _make_sent_worker(job: PatternsJob, sent: SentModel, out: Path) -> PatternsWorker:
    return PatternsWorker(replace(job, out=out), sent.load()[0])


def _worker_maker(job: PatternsJob, subject: Subject, backend: Backend) -> Callable[[], PatternsWorker]:
    if getattr(backend, "in_process", False):
        return partial(PatternsWorker, job, subject)
    if not getattr(backend, "is_far", False):
        return partial(_make_worker, job)
    sent = partial(_make_sent_worker, job, SentModel.of(job.model, subject, None))
    return made_for(backend, sent, job.out)  # type: ignore[return-value]


def _both(first: Moments, second: Moments) -> Moments:
    """Sums of a branch, with what is noted of both halves."""
    notes = {**first.notes, **{key: _joined(first.notes[key], second.notes[key]) for key in ("skipped", "contents")}}
    return replace(first + second, notes=notes)


def _joined(one: dict[str, str] | list[str], two: dict[str, str] | list[str]) -> dict[str, str] | list[str]:
    return {**one, **two} if isinstance(one, dict) and isinstance(two, dict) else [*one, *two]


def _asked(job: PatternsJob) -> dict[str, object]:
    return {"folder": ImageFolder(job.names, str.encode).digest, "regime": job.regime, "joins": job.joins}


def _finished(job: PatternsJob, subject: Subject) -> dict[Branch, Path]:
    """Branches that are there, checked; none lies in another."""
    found: dict[Branch, Path] = {}
    known = {branch.name: branch for branch in _all(Branch(0, job.shards))}
    for path in sorted((job.out / PIECES).glob("shards-*.safetensors")):
        if path.name not in known:
            raise PgigError(f"{path} is of another list of images. Delete {job.out} to begin anew")
        _check(Moments.load(path), known[path.name], job, subject, path)
        found[known[path.name]] = path
    return found


def _all(branch: Branch) -> list[Branch]:
    return [branch, *(below for half in branch.halves or () for below in _all(half))]


def _check(before: Moments, branch: Branch, job: PatternsJob, subject: Subject, path: Path) -> None:
    wanted = {**_asked(job), "weights": subject.digest, "preprocessing": plain(job.preprocess.facts)}
    found = {**before.notes, "weights": before.digest, "preprocessing": plain(before.preprocessing)}
    for what, value in wanted.items():
        if found.get(what) != value:
            told = {"folder": "images"}.get(what, what)
            raise PgigError(f"cannot go on from {path}: it was made with other {told}. Delete {job.out} to begin anew")
    folder = ImageFolder.open(job.images)
    for shard, contents in zip(
        shards_of(job.names, job.shards)[branch.first : branch.end], before.notes["contents"], strict=True
    ):
        again = Seen(ImageFolder(shard, folder.read), "")
        for name in shard:
            with suppress(PgigError, *DAMAGED):  # it was skipped then too, or the digest differs
                again.folder.read(name)
        if again.digest != contents:
            raise PgigError(
                f"cannot go on from {path}: an image file is another than when it was read. Delete {job.out} to begin "
                "anew"
            )


def _added_up(job: PatternsJob) -> tuple[Moments, dict[str, str]]:
    def kept(branch: Branch) -> Moments | None:
        path = job.out / PIECES / branch.name
        return Moments.load(path) if path.is_file() else None

    total = Branch(0, job.shards).folded(kept, _both)
    return total, dict(total.notes["skipped"])
