"""One part after another, in this process."""

from collections.abc import Callable, Generator, Sequence

from pgig.records.parts import Part
from pgig.runs.backends.events import Event, Worker, events_of


class Serial:
    in_process = True

    def map(self, make_worker: Callable[[], Worker], parts: Sequence[Part]) -> Generator[Event, None, None]:
        worker = make_worker() if parts else None
        for part in parts:
            assert worker is not None
            yield from events_of(worker, part)
