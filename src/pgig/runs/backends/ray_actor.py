"""What an actor on Ray does: load a worker once, then take parts, and say how it goes."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pgig.records.parts import Part
from pgig.runs.backends.events import Worker, events_of, sendable


class Raised:
    """What a worker raised, as a value: an exception would reach the driver in Ray's words."""

    def __init__(self, error: Exception) -> None:
        self.error = sendable(error)


class Actor:
    """Holds a loaded worker."""

    def __init__(self, number: int, folder: str, path: list[str], scratch: str | None) -> None:
        self._number = number
        # what the driver imports can be imported here, where it is
        sys.path += [entry for entry in path if entry not in sys.path and Path(entry).exists()]
        tempfile.tempdir = scratch  # an actor that is killed cleans nothing up: with Ray of our own, its folder goes
        with suppress(OSError):  # relative paths mean what they mean to the driver, where its folder is
            os.chdir(folder)
        self._worker: Worker | None = None

    def place(self) -> str:
        """Where it is: an answer, once there is room for it."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

    def load(self, make_worker: Callable[[], Worker]) -> Raised | None:
        """Ray hands over what the reference to `make_worker` stands for: its arrays lie in the node's store once."""
        try:
            self._worker = make_worker()
        except Exception as error:  # whatever it is, it is the driver's to tell
            return Raised(error)
        return None

    def work(self, part: Part) -> Iterator[Any]:
        """Events, the last of them the result; or what was raised."""
        assert self._worker is not None
        try:
            yield from events_of(self._worker, part, self._number)
        except Exception as error:  # as above
            yield Raised(error)
