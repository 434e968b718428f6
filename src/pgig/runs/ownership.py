"""Who works on a run's folder: one process at a time."""

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from pgig.errors import PgigError
from pgig.files import written

_LOCK, _OWNER = ".lock", ".owner"


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Hold the folder. The lock is the system's: a process that is killed lets go of it."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / _LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise PgigError(f"{folder} is in use by {_owner(folder)}", lacks="a free folder") from None
    try:
        with written(folder / _OWNER) as path:
            since = time.strftime("%Y-%m-%d %H:%M:%S")
            path.write_text(json.dumps({"process": os.getpid(), "host": socket.gethostname(), "since": since}))
        yield
    finally:
        (folder / _OWNER).unlink(missing_ok=True)
        lock.release()


def _owner(folder: Path) -> str:
    try:
        found = json.loads((folder / _OWNER).read_text(encoding="utf-8"))
        return f"process {found['process']} on {found['host']} since {found['since']}"
    except (OSError, ValueError, KeyError, TypeError):  # it is just beginning, or just ending
        return "another process"
