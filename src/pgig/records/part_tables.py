"""Tables of finished parts: read from sealed parquet files, and checked against what a run's configuration asks for."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pgig.errors import PgigError
from pgig.records.parts import PART, Expected, Part
from pgig.sealing import is_sealed

ANEW = "delete it, and run again to make it anew"
_LARGEST = 2**30  # bytes
_DIGEST = ("image_digest", pa.string())  # of the image file's bytes; not in parts of earlier versions
_KEYS = [("image", pa.string()), ("method", pa.string())]
_MEASURED = [("predicted", pa.int32()), ("label", pa.int32()), ("target", pa.int32()), ("intact", pa.float64())]
RECORDS = pa.schema(
    [
        *_KEYS,
        ("measure", pa.string()),
        *_MEASURED,
        ("values", pa.list_(pa.float64())),
        ("seconds", pa.float64()),
        _DIGEST,
    ]
)
# of runs before there were several measures
_CURVES = pa.schema([*_KEYS, *_MEASURED, ("curve", pa.list_(pa.float64())), ("seconds", pa.float64()), _DIGEST])
SUMS = pa.schema([*_KEYS, ("target", pa.int32()), ("sums", pa.list_(pa.float64())), ("seconds", pa.float64()), _DIGEST])


@dataclass(frozen=True)
class PartTable:
    """What a part holds, as a table."""

    table: pa.Table
    skipped: Mapping[str, str]  # images that could not be used, with reasons
    skipped_digests: Mapping[str, str | None]
    is_sealed: bool  # parts of earlier versions are not

    @cached_property
    def images(self) -> list[str]:
        return list(self.table["image"].unique().to_pylist())

    @cached_property
    def seconds(self) -> dict[str, float]:
        """By method, the sum over images and measures."""
        found = self.table.group_by("method").aggregate([("seconds", "sum")])
        return dict(zip(found["method"].to_pylist(), found["seconds_sum"].to_pylist(), strict=True))

    def records(self, measure: str, methods: tuple[str, ...]) -> NDArray[numpy.float64]:
        """What a measure left, [images, methods, values]."""
        own = self.table.filter(pc.equal(self.table["measure"], measure))
        values = own["values"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        places = _codes(own["image"], self.images) * len(methods) + _codes(own["method"], methods)
        result = numpy.empty((len(self.images) * len(methods), len(values) // max(1, len(own))))
        result[places] = values.reshape(result.shape)
        return result.reshape(len(self.images), len(methods), -1)


def read_table(path: Path, schema: pa.Schema, number: int, expected: Expected) -> PartTable:
    """A part that is whole, its own and made with the run's configuration."""
    check_number(path, number, expected)
    table, facts = _read(path)
    table = _as(table, schema, path, expected)
    found = PartTable(table, _json(path, facts, b"skipped"), _json(path, facts, b"skipped digests"), b"seal" in facts)
    if found.is_sealed and facts.get(b"configuration", b"").decode() != expected.configuration:
        raise PgigError(
            f"{path} was made with another configuration than config.toml says: if config.toml was changed, put it "
            "back; if the part is from elsewhere, delete it, and run again to make it anew"
        )
    if found.is_sealed and facts.get(b"part", b"").decode() != str(number):
        raise PgigError(f"{path} holds other images than it should: {ANEW}")
    _check_content(path, found, number, expected, schema)
    return found


def number_in(path: Path) -> int:
    digits = path.stem.removeprefix("part-")
    if not digits.isdecimal() or path.name != Part(int(digits), ()).name:
        raise PgigError(f"{path} is no part of a run: delete it")
    return int(digits)


def check_number(path: Path, number: int, expected: Expected) -> None:
    if number * PART >= expected.count:
        raise PgigError(f"{path} is beyond the {expected.count} images of this run: delete it")


def _read(path: Path) -> tuple[pa.Table, Mapping[bytes, bytes]]:
    """A part's table, and what is noted beside it."""
    try:
        if path.stat().st_size > _LARGEST:
            raise PgigError(f"{path} is far too large for a part: {ANEW}")
        sealed = is_sealed(path)
        with pq.ParquetFile(path) as file:
            facts = file.metadata.metadata or {}
            table = file.read()
        table.validate(full=True)  # text that is no UTF-8, say
    except PgigError as error:
        raise PgigError(f"{error}: {ANEW}") from error
    except (OSError, ValueError, pa.ArrowException) as error:
        raise PgigError(f"cannot read {path}: {error}; {ANEW}") from error
    if not sealed and {b"seal", b"configuration"} & facts.keys():
        raise PgigError(f"{path} is damaged: its seal is gone; {ANEW}")
    return table, facts


def _as(table: pa.Table, schema: pa.Schema, path: Path, expected: Expected) -> pa.Table:
    """A table of an earlier version as one of this."""
    earlier = [schema.remove(len(schema) - 1)]
    if schema is RECORDS and len(expected.lengths) == 1:
        earlier += [_CURVES, _CURVES.remove(len(_CURVES) - 1)]
    if table.schema.equals(schema):
        return table
    if not any(table.schema.equals(one) for one in earlier):
        raise PgigError(f"{path} has other columns than it should: {ANEW}")
    if "curve" in table.column_names:
        only = next(iter(expected.lengths))
        table = table.rename_columns(["values" if name == "curve" else name for name in table.column_names])
        table = table.add_column(2, "measure", pa.array([only] * len(table), pa.string()))
    if "image_digest" not in table.column_names:
        table = table.append_column("image_digest", pa.nulls(len(table), pa.string()))
    return table


def _json(path: Path, facts: Mapping[bytes, bytes], key: bytes) -> dict[str, Any]:
    try:
        found = json.loads(facts.get(key, b"{}"))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise PgigError(f"{path} is damaged: what it says of {key.decode()} cannot be read; {ANEW}")
    return found


def _check_content(path: Path, found: PartTable, number: int, expected: Expected, schema: pa.Schema) -> None:
    """Every image of the part, by every method and measure, with every value."""
    table, images = found.table, found.images
    measures = tuple(expected.lengths) if schema is RECORDS else ()
    wanted = len(images) * len(expected.methods) * max(1, len(measures))
    try:
        code = _codes(table["image"], images) * len(expected.methods) + _codes(table["method"], expected.methods)
        if measures:
            code = code * len(measures) + _codes(table["measure"], measures)
    except KeyError:
        code = numpy.empty(0, numpy.int64)
    if len(table) != wanted or len(numpy.unique(code)) != wanted:
        raise PgigError(f"{path} lacks methods, or has others than config.toml says: {ANEW}")
    if len(images) + len(found.skipped) != min(PART, expected.count - number * PART) or {*images} & {*found.skipped}:
        raise PgigError(f"{path} holds other images than it should: {ANEW}")
    if schema is SUMS:
        _check_length(path, table["sums"], expected.patches)
    for label in measures:
        length = expected.lengths[label]
        if length is not None:
            _check_length(path, table.filter(pc.equal(table["measure"], label))["values"], length)


def _check_length(path: Path, column: pa.ChunkedArray, length: int) -> None:
    found = pc.list_value_length(column)
    if column.null_count or pc.any(pc.not_equal(found, length)).as_py():
        raise PgigError(f"{path} has rows without the {length} values that config.toml asks for: {ANEW}")


def _codes(column: pa.ChunkedArray, names: Any) -> NDArray[numpy.int64]:
    """The place of each value among the names; KeyError where it has none."""
    found = pc.index_in(column, value_set=pa.array(list(names), pa.string()))
    if found.null_count:
        raise KeyError
    return numpy.asarray(found.to_numpy(), dtype=numpy.int64)
