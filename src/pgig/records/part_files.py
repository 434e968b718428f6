"""Files of finished parts: sealed parquet files, which appear by rename."""

import json
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pgig.errors import PgigError, PgigWarning
from pgig.files import written
from pgig.records.part_tables import ANEW, RECORDS, SUMS, PartTable, check_number, number_in, read_table
from pgig.records.parts import Expected, Finished, Part
from pgig.records.tables import write_csv
from pgig.sealing import BLANK, seal


def write_records(folder: Path, part: Part, finished: Finished, configuration: str) -> None:
    _write(folder / "parts" / part.name, RECORDS, part, finished, configuration)


def write_sums(folder: Path, part: Part, finished: Finished, configuration: str) -> None:
    _write(folder / "attributions" / part.name, SUMS, part, finished, configuration)


def read_tables(folder: Path) -> Iterator[PartTable]:
    """The finished parts of a run, one after another, in the order of the image list."""
    paths = sorted((folder / "parts").glob("part-*.parquet"))
    expected = Expected.of(folder) if paths else None
    for path in paths:
        assert expected is not None
        yield read_table(path, RECORDS, number_in(path), expected)


def read_run(folder: Path) -> Iterator[Finished]:
    """The same, as rows."""
    return (_finished(part) for part in read_tables(folder))


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """All rows of a run's finished parts, with a note where they are of earlier versions."""
    parts = list(read_run(folder))
    note_unsealed(folder, sum(not part.is_sealed for part in parts), len(parts))
    return [row for finished in parts for row in finished.rows]


def read_finished(folder: Path, parts: Sequence[Part]) -> Iterator[Finished]:
    """The parts of a run that goes on, one after another, each of its own images, and none beside them."""
    expected = Expected.of(folder)
    known = {part.name for part in parts}
    for path in sorted((folder / "parts").glob("part-*.parquet")):
        if path.name not in known:
            check_number(path, number_in(path), expected)
    unsealed = 0
    for part in parts:
        finished = _read_own(folder / "parts" / part.name, RECORDS, part, expected)
        unsealed += not finished.is_sealed
        yield finished
    note_unsealed(folder, unsealed, len(parts))


def check_sums(folder: Path, part: Part) -> None:
    if not (folder / "attributions" / part.name).is_file():
        raise PgigError(f"{folder} has no saved attributions for {part.name}", lacks="saved attributions")


def read_sums(folder: Path, part: Part) -> Finished:
    """Patch sums by image and method."""
    check_sums(folder, part)
    finished = _read_own(folder / "attributions" / part.name, SUMS, part, Expected.of(folder))
    note_unsealed(folder, not finished.is_sealed, 1)
    return finished


def is_finished(folder: Path, part: Part, with_sums: bool = False) -> bool:
    """Is it there, and its patch sums too, where they are wanted?"""
    return (folder / "parts" / part.name).is_file() and (
        not with_sums or (folder / "attributions" / part.name).is_file()
    )


def write_skipped(folder: Path) -> dict[str, str]:
    """skipped.csv, from what the parts say."""
    found = {image: reason for part in read_tables(folder) for image, reason in part.skipped.items()}
    write_csv(folder / "skipped.csv", ["image", "reason"], found.items())
    return found


def _write(path: Path, schema: pa.Schema, part: Part, finished: Finished, configuration: str) -> None:
    table = pa.Table.from_pylist(finished.rows, schema.with_metadata({"skipped": json.dumps(dict(finished.skipped))}))
    digests = {image: finished.digests[image] for image in finished.skipped}
    with written(path) as temporary:
        with pq.ParquetWriter(temporary, table.schema) as writer:
            writer.write_table(table)
            # beside the schema's own metadata, which parquet keeps twice
            facts = {"part": str(part.number), "skipped digests": json.dumps(digests), "configuration": configuration}
            writer.add_key_value_metadata({**facts, "seal": BLANK})
        seal(temporary)


def _read_own(path: Path, schema: pa.Schema, part: Part, expected: Expected) -> Finished:
    finished = _finished(read_table(path, schema, part.number, expected))
    if finished.images != set(part.images):
        raise PgigError(f"{path} holds other images than it should: {ANEW}")
    return finished


def _finished(found: PartTable) -> Finished:
    rows = [dict(row) for row in found.table.to_pylist()]
    digests = {row["image"]: row["image_digest"] for row in rows} | dict(found.skipped_digests)
    return Finished(rows, found.skipped, digests, found.is_sealed)


def note_unsealed(folder: Path, unsealed: int, count: int) -> None:
    if unsealed:
        warnings.warn(
            f"{unsealed:d} of {count} parts in {folder} are of an earlier version: whether they changed since, and "
            "with which configuration they were made, cannot be told",
            PgigWarning,
            stacklevel=3,
        )
