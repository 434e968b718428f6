"""Files that are made in one place and kept in another: a worker hands them over, and the driver writes them.

For workers that share no file system with the driver. They work in a folder of their own, as if it were the run's.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import numpy
from numpy.typing import NDArray

from pgig.errors import PgigError
from pgig.files import written
from pgig.records.parts import Part
from pgig.runs.backends.events import Done, Event, Work, Worker


@dataclass(frozen=True)
class Delivered:
    """What a worker gave, and the files it wrote, by their paths in the run."""

    result: Any
    files: Mapping[str, NDArray[numpy.uint8]]  # arrays travel without being copied


class Delivering:
    """A worker whose files are handed over."""

    def __init__(self, make_worker: Callable[[Path], Worker]) -> None:
        self._folder = Path(mkdtemp(prefix="pgig-"))  # readable by nobody else
        self._worker = make_worker(self._folder)

    def run(self, part: Part) -> Work:
        try:
            result = yield from self._worker.run(part)
            return Delivered(result, dict(_taken(self._folder)))
        finally:
            for path in self._folder.iterdir():
                rmtree(path, ignore_errors=True)


def made_for(backend: object, make_worker: Callable[[Path], Worker], out: Path) -> Callable[[], Worker]:
    """How far workers are made: with the run's folder, where they share it, or with one whose files they hand over."""
    if getattr(backend, "shared_folder", False):
        return partial(make_worker, out.resolve())
    return partial(Delivering, make_worker)


def _taken(folder: Path) -> Iterator[tuple[str, NDArray[numpy.uint8]]]:
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        yield path.relative_to(folder).as_posix(), numpy.fromfile(path, dtype=numpy.uint8)


def received(events: Iterable[Event], out: Path) -> Generator[Event, None, None]:
    """The same events; files that come with them are in the run's folder before anyone hears of them."""
    for event in events:
        if isinstance(event, Done) and isinstance(event.result, Delivered):
            # parts last: where a part is, all that belongs to it is
            for name in sorted(event.result.files, key=lambda name: name.startswith("parts/")):
                with written(_inside(out, name)) as path:
                    event.result.files[name].tofile(path)
            yield Done(event.part, event.result.result, event.worker)
        else:
            yield event


def _inside(out: Path, name: str) -> Path:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise PgigError(f"a worker sent a file for {name}, which is not in the run")
    return out / path
