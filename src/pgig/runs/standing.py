"""Where work stands, whatever it is worked on by: images done, by whom, what was tried again."""

import time
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pgig.errors import PgigError
from pgig.records.parts import Part
from pgig.records.tables import write_csv
from pgig.runs.backends.events import Done, Event, Lost, Progress, Retried

SET_ASIDE = "set-aside.csv"


@dataclass
class Headway:
    total: int  # images
    before: int = 0  # of those, found finished when the work began
    done: float = 0
    retried: int = 0  # parts that were begun again
    aside: dict[int, tuple[Part, str]] = field(default_factory=dict)  # parts that are set aside, with reasons
    by_worker: dict[int, float] = field(default_factory=dict)  # images
    begun: float = field(default_factory=time.monotonic)

    @property
    def speed(self) -> float:
        """Images a second."""
        return max(0, self.done - self.before) / max(1e-9, time.monotonic() - self.begun)

    @property
    def summary(self) -> str:
        """In a line: images, speed, by worker, time left, what was tried again."""
        speed = self.speed
        said = [f"{int(self.done + 1e-6)}/{self.total} images", f"{speed:.2f}/s"]
        if len(self.by_worker) > 1:
            seconds = max(1e-9, time.monotonic() - self.begun)
            each = sorted((images / seconds for images in list(self.by_worker.values())), reverse=True)
            shown = " ".join(f"{one:.2f}" for one in each[:8]) + (" ..." if len(each) > 8 else "")
            said.append(f"by {len(each)} workers ({shown})")
        if speed:
            said.append(f"{(self.total - self.done) / speed / 60:.0f} minutes left")
        if self.retried:
            said.append(f"{self.retried} parts begun again")
        if self.aside:
            said.append(f"{len(self.aside)} set aside")
        return ", ".join(said)

    def _count(self, images: float, worker: int) -> None:
        self.done += images
        self.by_worker[worker] = self.by_worker.get(worker, 0) + images

    def follow(self, events: Iterable[Event]) -> Generator[Done, None, None]:
        """Count; what is done is handed on."""
        for event in events:
            if isinstance(event, Done):
                yield event
            elif isinstance(event, Progress):
                self._count(event.images, event.worker)
            elif isinstance(event, Retried):
                self._count(-event.images, event.worker)
                self.retried += 1
            elif isinstance(event, Lost):
                raise PgigError(f"a worker died, perhaps of memory ({event.reason}); the same command goes on")
            else:
                self.aside[event.part.number] = event.part, event.reason


def write_set_aside(headway: Headway, out: Path) -> None:
    """The parts that no worker survived, with their images; no file where there are none."""
    path = out / SET_ASIDE
    if headway.aside:
        rows = ([part.number, image, reason] for part, reason in headway.aside.values() for image in part.images)
        write_csv(path, ["part", "image", "reason"], rows)
    else:
        path.unlink(missing_ok=True)
