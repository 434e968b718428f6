"""The contract: parts go in, what becomes of them comes out as events."""

import pickle
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from traceback import format_exc
from typing import Any, Protocol

from pgig.errors import PgigError
from pgig.records.parts import Part


@dataclass(frozen=True)
class Done:
    """A part is finished."""

    part: Part
    result: Any  # what the worker gave
    worker: int = 0


@dataclass(frozen=True)
class Progress:
    """So many images more are done, of parts that are not finished yet; in fractions."""

    images: float
    worker: int = 0


@dataclass(frozen=True)
class Lost:
    """A part will not come, since whoever worked on it is gone; no part is to blame."""

    part: Part
    reason: str


@dataclass(frozen=True)
class Retried:
    """Whoever worked on a part is gone; another takes it. Its images, so far, are to be counted anew."""

    part: Part
    reason: str
    images: float  # that were told of
    worker: int = 0


@dataclass(frozen=True)
class SetAside:
    """A part that was the end of too many workers; the others go on."""

    part: Part
    reason: str


Event = Done | Progress | Lost | Retried | SetAside


Work = Generator[float, None, Any]


class Worker(Protocol):
    def run(self, part: Part) -> Work:
        """Finish a part. On the way, say after how many images more; at the end, give what becomes of it."""
        ...


def events_of(worker: Worker, part: Part, number: int = 0) -> Iterator[Progress | Done]:
    """The work on one part, event by event."""
    result = yield from _told(worker.run(part), number)
    yield Done(part, result, number)


def _told(work: Work, number: int) -> Generator[Progress, None, Any]:
    while True:
        try:
            images = next(work)
        except StopIteration as end:
            return end.value
        yield Progress(images, number)


def sendable(error: Exception) -> Exception:
    """The error itself with its traceback as a note; or its words, where it does not survive being sent."""
    error.add_note(format_exc())
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # it is of somebody else's making
        return PgigError(f"{type(error).__name__}: {error}")
    return error


class Backend(Protocol):
    """One that works in this process may say so, `in_process = True`: its worker has the model that is loaded.

    One whose workers have not this machine's files may say so, `is_far = True`: they are sent the model.
    """

    def map(self, make_worker: Callable[[], Worker], parts: Sequence[Part]) -> Generator[Event, None, None]:
        """Work on all parts. A worker is made where it works, so `make_worker` must survive being sent there.

        What a worker raises is raised here. Whoever closes the generator ends the work; no process is left behind.
        """
        ...
