"""Parts: the finished pieces of a run, one parquet file each, which appear by rename."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pgig.errors import PgigError
from pgig.files import written
from pgig.report.tables import write_csv

_ANEW = "delete it, and run again to make it anew"
PART = 8  # images: parts are fixed by the image list alone
_CURVES = pa.schema(
    [
        ("image", pa.string()),
        ("method", pa.string()),
        ("predicted", pa.int32()),
        ("label", pa.int32()),
        ("target", pa.int32()),
        ("intact", pa.float64()),
        ("curve", pa.list_(pa.float64())),
        ("seconds", pa.float64()),
    ]
)
_SUMS = pa.schema(
    [
        ("image", pa.string()),
        ("method", pa.string()),
        ("target", pa.int32()),
        ("sums", pa.list_(pa.float64())),
        ("seconds", pa.float64()),
    ]
)


@dataclass(frozen=True)
class Part:
    number: int
    images: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"part-{self.number:06d}.parquet"


def parts_of(images: Sequence[str]) -> list[Part]:
    return [Part(n, tuple(images[first : first + PART])) for n, first in enumerate(range(0, len(images), PART))]


def write_curves(folder: Path, part: Part, rows: list[dict[str, Any]], skipped: dict[str, str]) -> None:
    _write(folder / "parts" / part.name, _CURVES, rows, skipped)


def write_sums(folder: Path, part: Part, rows: list[dict[str, Any]], skipped: dict[str, str]) -> None:
    _write(folder / "attributions" / part.name, _SUMS, rows, skipped)


def read_curves(folder: Path) -> list[dict[str, Any]]:
    """All rows of a run's finished parts, in the order of the image list."""
    return [row for path in _finished(folder / "parts") for row in _read(path, _CURVES).to_pylist()]


def read_part(folder: Path, part: Part) -> list[dict[str, Any]]:
    """The rows of a finished part, which must be of its own images."""
    path = folder / "parts" / part.name
    table = _read(path, _CURVES)
    rows = [dict(row) for row in table.to_pylist()]
    if {row["image"] for row in rows} | set(_skipped(table.schema)) != set(part.images):
        raise PgigError(f"{path} holds other images than it should: {_ANEW}")
    return rows


def check_sums(folder: Path, part: Part) -> None:
    if not (folder / "attributions" / part.name).is_file():
        raise PgigError(
            f"{folder} has no saved attributions for {part.name}: run it to its end with --save-attributions"
        )


def read_sums(folder: Path, part: Part) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Patch sums by image and method, and the images without, with reasons."""
    check_sums(folder, part)
    table = _read(folder / "attributions" / part.name, _SUMS)
    return [dict(row) for row in table.to_pylist()], _skipped(table.schema)


def is_finished(folder: Path, part: Part, with_sums: bool = False) -> bool:
    """Is it there, and its patch sums too, where they are wanted?"""
    return (folder / "parts" / part.name).is_file() and (
        not with_sums or (folder / "attributions" / part.name).is_file()
    )


def read_skipped(folder: Path) -> dict[str, str]:
    """Images that could not be used, with reasons."""
    found: dict[str, str] = {}
    for path in _finished(folder / "parts"):
        found |= _skipped(_read(path, _CURVES).schema)
    return found


def write_skipped(folder: Path) -> dict[str, str]:
    """skipped.csv, from what the parts say."""
    found = read_skipped(folder)
    write_csv(folder / "skipped.csv", ["image", "reason"], found.items())
    return found


def _skipped(schema: pa.Schema) -> dict[str, str]:
    return dict(json.loads((schema.metadata or {}).get(b"skipped", b"{}")))


def _finished(folder: Path) -> Iterable[Path]:
    return sorted(folder.glob("part-*.parquet"))


def _write(path: Path, schema: pa.Schema, rows: list[dict[str, Any]], skipped: dict[str, str]) -> None:
    table = pa.Table.from_pylist(rows, schema.with_metadata({"skipped": json.dumps(skipped)}))
    with written(path) as temporary:
        pq.write_table(table, temporary)


def _read(path: Path, schema: pa.Schema) -> pa.Table:
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise PgigError(f"cannot read {path}: {error}; {_ANEW}") from error
    if not table.schema.equals(schema):
        raise PgigError(f"{path} has other columns than it should: {_ANEW}")
    return table
