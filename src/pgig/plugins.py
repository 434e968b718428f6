"""Objects of the caller's own modules, by name."""

import importlib
import sys
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
