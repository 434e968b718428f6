"""Objects of the caller's own modules, by name."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pgig.errors import PgigError


def imported(path: str, what: str) -> Any:
    """What `module:name` stands for. Only ever take it from the person at the keyboard: importing runs code."""
    module_name, _, name = path.partition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        found = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:
        raise PgigError(f"cannot take {what} from {path!r}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(here)
    return found


@contextmanager
def forgotten_afterwards() -> Iterator[None]:
    """Modules from the working folder that are imported meanwhile are imported anew the next time."""
    before, here = set(sys.modules), Path.cwd()
    try:
        yield
    finally:
        for name in set(sys.modules) - before:
            if _is_from(here, getattr(sys.modules[name], "__file__", None)) and name.partition(".")[0] != "pgig":
                del sys.modules[name]
        importlib.invalidate_caches()


def _is_from(folder: Path, file: str | None) -> bool:
    """Installed packages do not count, even where they lie below the folder."""
    return file is not None and folder in Path(file).resolve().parents and "site-packages" not in file
