"""A run: a folder that grows part by part, can be stopped at any moment, and goes on."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy

from pgig.digests import digest_of_file
from pgig.errors import PgigError
from pgig.records.measure import AskedMeasure
from pgig.records.part_files import read_finished, read_sums, write_skipped
from pgig.records.parts import Finished, parts_of
from pgig.runs.backends.events import Backend
from pgig.runs.delivery import received
from pgig.runs.job import Job
from pgig.runs.prepare import Prepared, worker_maker
from pgig.runs.standing import Headway, write_set_aside
from pgig.runs.where import RAY_LOG
from pgig.vision.image_folder import DAMAGED, ImageFolder


@dataclass
class Standing(Headway):
    """Where a run stands, with what one measure says so far."""

    measure: AskedMeasure = field(kw_only=True)  # the one that is shown meanwhile
    skipped: int = 0  # images that could not be used; known at the end
    _areas: dict[str, list[float]] = field(default_factory=dict)

    def add(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            if row["measure"] == self.measure.label:
                values = self.measure.columns_of(numpy.array([row["values"]]))[self.column]
                self._areas.setdefault(row["method"], []).append(float(values[0]))

    @property
    def column(self) -> str:
        """What is shown of the measure."""
        return self.measure.measure.ranks_by

    @property
    def summary(self) -> str:
        areas = "  ".join(f"{name} {area:.3f}" for name, area in self.areas.items())
        so_far = f"{self.column} so far, of {self.measured} images: {areas}" if areas else f"no {self.column} yet"
        return f"{super().summary}; {so_far}"

    @property
    def measured(self) -> int:
        """Images that have a number."""
        return max(map(len, list(self._areas.values())), default=0)

    @property
    def areas(self) -> dict[str, float]:
        """The column's mean so far, by method, the best first."""
        means = {method: float(numpy.mean(values)) for method, values in list(self._areas.items())}
        return {m: means[m] for m in sorted(means, key=lambda m: self._sign * means[m])}

    @property
    def _sign(self) -> int:
        return 1 if self.measure.measure.better == "lower" else -1


def run_benchmark(prepared: Prepared, say: Callable[[Standing], object], backend: Backend | None = None) -> Standing:
    """Do what is not done yet. The result does not depend on backend, batch size or interruption (to rounding)."""
    job, out = prepared.job, prepared.job.asked.out
    standing = Standing(len(job.names), measure=next(iter(job.asked.judged_by.values())))
    _read_finished(prepared, standing)
    say(standing)
    if backend is None:
        backend = prepared.where.made(out / RAY_LOG)
    with closing(backend.map(worker_maker(prepared, backend), prepared.todo)) as events:
        for done in standing.follow(received(events, out)):
            standing.add(done.result)
    write_set_aside(standing, out)
    standing.skipped = len(write_skipped(out))
    return standing


def _read_finished(prepared: Prepared, standing: Standing) -> None:
    """What was finished before, checked."""
    job, out = prepared.job, prepared.job.asked.out
    todo = {part.number for part in prepared.todo}
    finished = [part for part in parts_of(job.names) if part.number not in todo]
    folder = ImageFolder.open(job.asked.images)
    for part, found in zip(finished, read_finished(out, finished), strict=True):
        standing.add(found.rows)
        _check_images(job, folder, found)
        if job.asked.save_attributions:
            read_sums(out, part)  # is it whole?
    standing.done = standing.before = sum(len(part.images) for part in finished)


def _check_images(job: Job, folder: ImageFolder, finished: Finished) -> None:
    """Refuse to go on where an image file is another than when its part was made."""
    out = job.asked.out
    for name, before in finished.digests.items():
        if before is None:
            continue
        try:
            now = digest_of_file(folder.read(name))
        except (PgigError, *DAMAGED) as error:
            raise PgigError(f"{name} was read when its part of {out} was made, and cannot be now: {error}") from error
        if now != before:
            raise PgigError(
                f"{name} is another file than when its part of {out} was made: put the file back",
                lacks="another folder",
            )
