"""Files that appear whole or not at all."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pgig.errors import PgigError


def check_target(path: Path) -> None:
    """Refuse what is no place for a file, before work is spent on it."""
    if path.is_dir():
        raise PgigError(f"{path} is a folder: give the name of a file")
    if path.exists() and not path.is_file():
        raise PgigError(f"{path} is not a regular file: it would be replaced")
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise PgigError(
            f"the folder {path.parent} cannot be written to: {above} is not a folder, or not yours to write"
        )


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`, with the same ending, that is renamed to it when all went well."""
    check_target(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield temporary
        _share(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def sweep(folder: Path, age: float = 3600) -> None:
    """Remove what killed processes left in the middle of writing, once it is surely theirs: after an hour."""
    for path in folder.glob(".*.*.*"):
        if path.suffixes[-2:-1] and path.suffixes[-2][1:].isdigit() and time.time() - path.stat().st_mtime > age:
            path.unlink(missing_ok=True)


def _share(path: Path) -> None:
    """Some writers make files that only their owner can read; give the usual rights."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(0o666 & ~mask)
