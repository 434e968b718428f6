"""Files of finished parts: sealed parquet files, which appear by rename."""

import json
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pgig.errors import PgigError, PgigWarning
from pgig.files import written
from pgig.records.parts import PART, Expected, Finished, Part
from pgig.records.tables import write_csv
from pgig.sealing import BLANK, is_sealed, seal

_ANEW = "delete it, and run again to make it anew"
_LARGEST = 2**30  # bytes
_DIGEST = ("image_digest", pa.string())  # of the image file's bytes; not in parts of earlier versions
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
        _DIGEST,
    ]
)
_SUMS = pa.schema(
    [
        ("image", pa.string()),
        ("method", pa.string()),
        ("target", pa.int32()),
        ("sums", pa.list_(pa.float64())),
        ("seconds", pa.float64()),
        _DIGEST,
    ]
)


def write_curves(folder: Path, part: Part, finished: Finished, configuration: str) -> None:
    _write(folder / "parts" / part.name, _CURVES, part, finished, configuration)


def write_sums(folder: Path, part: Part, finished: Finished, configuration: str) -> None:
    _write(folder / "attributions" / part.name, _SUMS, part, finished, configuration)


def read_run(folder: Path) -> Iterator[Finished]:
    """The finished parts of a run, one after another, in the order of the image list."""
    paths = sorted((folder / "parts").glob("part-*.parquet"))
    expected = Expected.of(folder) if paths else None
    for path in paths:
        assert expected is not None
        yield _read(path, _CURVES, _number(path), expected)


def read_curves(folder: Path) -> list[dict[str, Any]]:
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
            _check_number(path, _number(path), expected)
    unsealed = 0
    for part in parts:
        finished = _read_own(folder / "parts" / part.name, _CURVES, part, expected)
        unsealed += not finished.is_sealed
        yield finished
    note_unsealed(folder, unsealed, len(parts))


def check_sums(folder: Path, part: Part) -> None:
    if not (folder / "attributions" / part.name).is_file():
        raise PgigError(f"{folder} has no saved attributions for {part.name}", lacks="saved attributions")


def read_sums(folder: Path, part: Part) -> Finished:
    """Patch sums by image and method."""
    check_sums(folder, part)
    finished = _read_own(folder / "attributions" / part.name, _SUMS, part, Expected.of(folder))
    note_unsealed(folder, not finished.is_sealed, 1)
    return finished


def is_finished(folder: Path, part: Part, with_sums: bool = False) -> bool:
    """Is it there, and its patch sums too, where they are wanted?"""
    return (folder / "parts" / part.name).is_file() and (
        not with_sums or (folder / "attributions" / part.name).is_file()
    )


def write_skipped(folder: Path) -> dict[str, str]:
    """skipped.csv, from what the parts say."""
    found = {image: reason for finished in read_run(folder) for image, reason in finished.skipped.items()}
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
    finished = _read(path, schema, part.number, expected)
    if finished.images != set(part.images):
        raise PgigError(f"{path} holds other images than it should: {_ANEW}")
    return finished


def _read(path: Path, schema: pa.Schema, number: int, expected: Expected) -> Finished:
    _check_number(path, number, expected)
    table, facts = _table(path)
    if not table.schema.equals(schema) and not table.schema.equals(schema.remove(len(schema) - 1)):
        raise PgigError(f"{path} has other columns than it should: {_ANEW}")
    try:
        rows = [dict(row) for row in table.to_pylist()]
    except (ValueError, pa.ArrowException) as error:  # text that is no UTF-8, say
        raise PgigError(f"{path} is damaged: {error}; {_ANEW}") from error
    skipped = _json(path, facts, b"skipped")
    digests = {row["image"]: row.get("image_digest") for row in rows} | _json(path, facts, b"skipped digests")
    finished = Finished(rows, skipped, digests, b"seal" in facts)
    if finished.is_sealed and facts.get(b"configuration", b"").decode() != expected.configuration:
        raise PgigError(
            f"{path} was made with another configuration than config.toml says: if config.toml was changed, put it "
            "back; if the part is from elsewhere, delete it, and run again to make it anew"
        )
    if finished.is_sealed and facts.get(b"part", b"").decode() != str(number):
        raise PgigError(f"{path} holds other images than it should: {_ANEW}")
    _check_content(path, finished, number, expected, schema)
    return finished


def _table(path: Path) -> tuple[pa.Table, Mapping[bytes, bytes]]:
    """A part's table, and what is noted beside it."""
    try:
        if path.stat().st_size > _LARGEST:
            raise PgigError(f"{path} is far too large for a part: {_ANEW}")
        sealed = is_sealed(path)
        with pq.ParquetFile(path) as file:
            facts = file.metadata.metadata or {}
            table = file.read()
    except PgigError as error:
        raise PgigError(f"{error}: {_ANEW}") from error
    except (OSError, ValueError, pa.ArrowException) as error:
        raise PgigError(f"cannot read {path}: {error}; {_ANEW}") from error
    if not sealed and {b"seal", b"configuration"} & facts.keys():
        raise PgigError(f"{path} is damaged: its seal is gone; {_ANEW}")
    return table, facts


def _json(path: Path, facts: Mapping[bytes, bytes], key: bytes) -> dict[str, Any]:
    try:
        found = json.loads(facts.get(key, b"{}"))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise PgigError(f"{path} is damaged: what it says of {key.decode()} cannot be read; {_ANEW}")
    return found


def _check_number(path: Path, number: int, expected: Expected) -> None:
    if number * PART >= expected.count:
        raise PgigError(f"{path} is beyond the {expected.count} images of this run: delete it")


def _check_content(path: Path, finished: Finished, number: int, expected: Expected, schema: pa.Schema) -> None:
    """Every image of the part, by every method, with every step."""
    found = Counter((row["image"], row["method"]) for row in finished.rows)
    images = {image for image, _ in found}
    if found != Counter((image, method) for image in images for method in expected.methods):
        raise PgigError(f"{path} lacks methods, or has others than config.toml says: {_ANEW}")
    if len(finished.images) != min(PART, expected.count - number * PART) or images & set(finished.skipped):
        raise PgigError(f"{path} holds other images than it should: {_ANEW}")
    column, length = ("curve", expected.steps + 1) if schema is _CURVES else ("sums", expected.patches)
    if any(row[column] is None or len(row[column]) != length for row in finished.rows):
        raise PgigError(f"{path} has rows without the {length} values that config.toml asks for: {_ANEW}")


def _number(path: Path) -> int:
    digits = path.stem.removeprefix("part-")
    if not digits.isdecimal() or path.name != Part(int(digits), ()).name:
        raise PgigError(f"{path} is no part of a run: delete it")
    return int(digits)


def note_unsealed(folder: Path, unsealed: int, count: int) -> None:
    if unsealed:
        warnings.warn(
            f"{unsealed:d} of {count} parts in {folder} are of an earlier version: whether they changed since, and "
            "with which configuration they were made, cannot be told",
            PgigWarning,
            stacklevel=3,
        )
