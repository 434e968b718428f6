"""Files that appear whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`, with the same ending, that is renamed to it when all went well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield temporary
        _share(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _share(path: Path) -> None:
    """Some writers make files that only their owner can read; give the usual rights."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(0o666 & ~mask)
