"""The known-truth test on any backend: batches of generated images are the parts."""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from pgig.errors import PgigError
from pgig.explainers.registry import explainers
from pgig.patterns.patterns import Patterns
from pgig.records.parts import Part
from pgig.runs.backends.events import Backend, Worker
from pgig.runs.delivery import received
from pgig.runs.sent_model import SentPatterns
from pgig.runs.standing import Headway
from pgig.runs.where import RAY_LOG, Where
from pgig.subject.scores import Score
from pgig.subject.subject import Subject
from pgig.synthetic.networks import Variant, embedded
from pgig.synthetic.truth import TruthImages, TruthPart, TruthTest, explained_part, gathered


@dataclass(frozen=True, kw_only=True)
class TruthJob:
    """Plain values, so that it can be sent to other processes."""

    settings: tuple[str, ...]
    methods: str
    model: Variant = "plain"
    images: int = 256  # of each setting
    seed: int = 0
    score: Score = "probability"
    patterns: SentPatterns | None = None
    threads: int | None = None

    @property
    def shown(self) -> dict[str, TruthImages]:
        network = embedded(self.model)
        return {setting: TruthImages.of(setting, network, self.images, self.seed) for setting in self.settings}


class TruthWorker:
    def __init__(self, job: TruthJob) -> None:
        if job.threads is not None:
            torch.set_num_threads(job.threads)
        patterns = None if job.patterns is None else job.patterns.patterns()
        self._job, self._shown = job, job.shown
        self._subject, self._table = Subject(embedded(job.model), patterns), explainers(job.methods)

    def run(self, part: Part) -> Generator[int, None, TruthPart]:
        setting, ids = _read(part)
        found = explained_part(self._table, self._subject, self._shown[setting], ids, self._job.score)
        yield len(ids)
        return found


def run_truth(
    job: TruthJob,
    patterns: Patterns | None,
    out: Path,
    say: Callable[[Headway], object],
    where: Where | None = None,
    backend: Backend | None = None,
) -> dict[str, TruthTest]:
    """The same whoever works on it; out: where a log may go."""
    where = where or Where()
    where.check()
    shown = job.shown
    parts = _parts(shown)
    where = where.fitted(len(parts))
    sent = None if patterns is None else SentPatterns.of(patterns)
    job = replace(job, patterns=sent, threads=where.threads(job.threads, torch.get_num_threads()))
    headway = Headway(sum(len(of.chosen) for of in shown.values()))
    say(headway)
    backend = backend or where.made(out / RAY_LOG)
    found: dict[str, dict[tuple[int, ...], TruthPart]] = {setting: {} for setting in job.settings}
    make: Callable[[], Worker] = partial(TruthWorker, job)
    with closing(backend.map(make, parts)) as events:
        for done in headway.follow(received(events, out)):
            setting, ids = _read(done.part)
            found[setting][ids] = done.result
    if headway.aside:
        images = ", ".join(image for part, _ in headway.aside.values() for image in part.images)
        raise PgigError(f"{len(headway.aside)} parts were the end of every worker that tried them: {images}")
    return {
        setting: gathered(setting, of, [found[setting][ids] for ids in of.batches]) for setting, of in shown.items()
    }


def _parts(shown: dict[str, TruthImages]) -> Sequence[Part]:
    batches = [(setting, ids) for setting, of in shown.items() for ids in of.batches]
    return [Part(number, tuple(f"{setting} {id}" for id in ids)) for number, (setting, ids) in enumerate(batches)]


def _read(part: Part) -> tuple[str, tuple[int, ...]]:
    names = [image.split() for image in part.images]
    return names[0][0], tuple(int(number) for _, number in names)
