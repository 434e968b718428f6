"""The contract: parts go in, what becomes of them comes out as events."""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pgig.records.parts import Part


@dataclass(frozen=True)
class Done:
    """A part is finished."""

    part: Part
    rows: list[dict[str, Any]]


@dataclass(frozen=True)
class Progress:
    """So many images more are explained, of parts that are not finished yet."""

    images: int


@dataclass(frozen=True)
class Lost:
    """A part will not come, since whoever worked on it is gone; no part is to blame."""

    part: Part
    reason: str


Event = Done | Progress | Lost


Work = Generator[int, None, list[dict[str, Any]]]


class Worker(Protocol):
    def run(self, part: Part) -> Work:
        """Finish a part. On the way, say after how many images more; at the end, give its rows."""
        ...


def events_of(worker: Worker, part: Part) -> Iterator[Progress | Done]:
    """The work on one part, event by event."""
    rows = yield from _told(worker.run(part))
    yield Done(part, rows)


def _told(work: Work) -> Generator[Progress, None, list[dict[str, Any]]]:
    while True:
        try:
            images = next(work)
        except StopIteration as end:
            rows: list[dict[str, Any]] = end.value
            return rows
        yield Progress(images)


class Backend(Protocol):
    """One that works in this process may say so, `in_process = True`: its worker has the model that is loaded."""

    def map(self, make_worker: Callable[[], Worker], parts: Sequence[Part]) -> Generator[Event, None, None]:
        """Work on all parts. A worker is made where it works, so `make_worker` must survive being sent there.

        What a worker raises is raised here. Whoever closes the generator ends the work; no process is left behind.
        """
        ...
