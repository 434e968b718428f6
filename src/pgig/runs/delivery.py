"""Files that are made in one place and kept in another: a worker hands them over, and the driver writes them.

For workers that share no file system with the driver. They work in a folder of their own, as if it were the run's.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any

from pgig.errors import PgigError
from pgig.files import written
from pgig.records.parts import Part
from pgig.runs.backends.events import Done, Event, Work, Worker


@dataclass(frozen=True)
class Delivered:
    """What a worker gave, and the files it wrote, by their paths in the run."""

    result: Any
    files: Mapping[str, bytes]


class Delivering:
    """A worker whose files are handed over."""

    def __init__(self, make_worker: Callable[[Path], Worker]) -> None:
        with TemporaryDirectory(prefix="pgig-") as folder:  # a name; there is such a folder only while a part is made
            self._folder = Path(folder)
        self._worker = make_worker(self._folder)

    def run(self, part: Part) -> Work:
        try:
            result = yield from self._worker.run(part)
            return Delivered(result, dict(_taken(self._folder)))
        finally:
            rmtree(self._folder, ignore_errors=True)


def made_for(backend: object, make_worker: Callable[[Path], Worker], out: Path) -> Callable[[], Worker]:
    """How far workers are made: with the run's folder, where they share it, or with one whose files they hand over."""
    if getattr(backend, "shared_folder", False):
        return partial(make_worker, out.resolve())
    return partial(Delivering, make_worker)


def _taken(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        yield path.relative_to(folder).as_posix(), path.read_bytes()


def received(events: Iterable[Event], out: Path) -> Generator[Event, None, None]:
    """The same events; files that come with them are in the run's folder before anyone hears of them."""
    for event in events:
        if isinstance(event, Done) and isinstance(event.result, Delivered):
            # parts last: where a part is, all that belongs to it is
            for name in sorted(event.result.files, key=lambda name: name.startswith("parts/")):
                with written(_inside(out, name)) as path:
                    path.write_bytes(event.result.files[name])
            yield Done(event.part, event.result.result, event.worker)
        else:
            yield event


def _inside(out: Path, name: str) -> Path:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise PgigError(f"a worker sent a file for {name}, which is not in the run")
    return out / path
