"""Tables as CSV."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pgig.files import written


def write_csv(path: Path, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with written(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([_cell(name) for name in head])
        writer.writerows([_cell(value) for value in row] for row in rows)


def _cell(value: Any) -> Any:
    """Numbers as Python writes them: every digit that counts."""
    if isinstance(value, str):
        return harmless(value)
    return repr(float(value)) if hasattr(value, "dtype") and hasattr(value, "item") else value


def harmless(text: str) -> str:
    """Text that a spreadsheet would run is quoted."""
    return f"'{text}" if text.startswith(_FORMULA) and not is_number(text) else text


_FORMULA = "=", "+", "-", "@", "\t", "\r"


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
