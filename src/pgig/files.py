"""Files that appear whole or not at all."""

import errno
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pgig.errors import DiskFullError, PgigError

_FULL = errno.ENOSPC, errno.EDQUOT
_LONGEST = 255  # bytes of a file's name
# .stem.host-process-thread.ending; a process alone in files of earlier versions
_TEMPORARY = re.compile(r"\..+\.(?:[\w-]*-)?\d+(?:-\d+)?(?:\.[^.]*)?")


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
    """A temporary path beside `path`, with the same ending, that is renamed to it when all went well.

    Once it is there, it is on the disk: a machine that loses its power leaves the file whole or not at all.
    """
    check_target(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(_temporary_name(path))
    try:
        with _told_when_full(path):
            with temporary.open("xb"):
                rights = temporary.stat().st_mode  # the usual ones: some writers make files that only their owner reads
            yield temporary
            temporary.chmod(rights)
            _settle(temporary)
            temporary.replace(path)
            _settle(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def read_text(path: Path, most: int = 64 * 2**20) -> str:
    """A file of text, which is not larger than any that a person has written."""
    if path.stat().st_size > most:
        raise PgigError(f"{path} has {path.stat().st_size / 2**20:,.0f} MB: no file of text")
    return path.read_text(encoding="utf-8")


def sweep(folder: Path, age: float = 3600) -> None:
    """Remove what killed processes left in the middle of writing, once it is surely theirs: after an hour."""
    for path in folder.glob(".*"):
        if _TEMPORARY.fullmatch(path.name) and time.time() - path.stat().st_mtime > age:
            path.unlink(missing_ok=True)


def _temporary_name(path: Path) -> str:
    """Unique to this thread, process and host, which may share the folder with others."""
    host = re.sub(r"[^A-Za-z0-9]", "-", socket.gethostname())[:40]
    end = f".{host}-{os.getpid()}-{threading.get_ident()}{path.suffix}"
    stem = path.stem.encode()[: _LONGEST - len(end.encode()) - 1].decode(errors="ignore")
    return f".{stem}{end}"


@contextmanager
def _told_when_full(path: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # also of writers that have exceptions of their own
        text = str(error)
        if getattr(error, "errno", None) in _FULL or "No space left" in text or "quota exceeded" in text.lower():
            raise DiskFullError(
                f"the disk is full: {path} could not be written. Nothing that was finished is lost; make room, and "
                "give the same command again"
            ) from error
        raise


def _settle(path: Path) -> None:
    """Wait until a file, or a folder's list of files, is on the disk."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:  # a folder cannot be opened everywhere
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # where there is nothing to wait for
            raise
    finally:
        os.close(handle)
