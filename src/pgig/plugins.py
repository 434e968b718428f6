"""Objects of the caller's own modules by name, tables that they may add to, and forgetting both."""

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pgig.errors import PgigError

Table = TypeVar("Table", bound=dict[str, Any])
_TABLES: list[tuple[dict[str, Any], dict[str, Any]]] = []  # those that can be added to, and as they were at first


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


def open_table(table: Table) -> Table:
    """A table that users may add to: what a command adds is gone at its end."""
    _TABLES.append((table, dict(table)))
    return table


@contextmanager
def forgotten_afterwards() -> Iterator[None]:
    """Modules of the working folder that are imported meanwhile, and entries of tables, are gone at the end."""
    before, here = set(sys.modules), Path.cwd()
    tables = [dict(table) for table, _ in _TABLES]
    try:
        yield
    finally:
        for name in set(sys.modules) - before:
            if _is_from(here, getattr(sys.modules[name], "__file__", None)) and name.partition(".")[0] != "pgig":
                del sys.modules[name]
        for number, (table, at_first) in enumerate(_TABLES):
            kept = tables[number] if number < len(tables) else at_first
            table.clear()
            table.update(kept)
        importlib.invalidate_caches()


def _is_from(folder: Path, file: str | None) -> bool:
    """Python's own modules and installed packages do not count, even where they lie below the folder."""
    if file is None or "site-packages" in file:
        return False
    path = Path(file).resolve()
    return folder in path.parents and Path(os.__file__).resolve().parent not in path.parents
