"""The tables of a measure as CSV: mean curves, columns with intervals, all pairs; and a row per image and method."""

from collections.abc import Mapping
from pathlib import Path

import numpy
import pyarrow as pa
import pyarrow.csv

from pgig.files import written
from pgig.records.tables import harmless, write_csv
from pgig.report.run import Run
from pgig.statistics import Comparison, Interval

_AT_ONCE = 2000  # images


def write_tables(
    run: Run,
    label: str,
    table: Mapping[str, Mapping[str, Interval]],
    pairs: Mapping[tuple[str, str], Comparison],
    out: Path,
    stem: str,
) -> None:
    if label in run.streamed:
        bands, each = run.bands(label), run.asked[label].patches_per_step
        points = len(next(iter(bands.values())).mean)
        write_csv(
            out / f"{stem}-curves.csv",
            [run.asked[label].measure.steps.split()[0], *(f"{m}{end}" for m in bands for end in ("", " low", " high"))],
            (
                [step * each, *(part[step] for band in bands.values() for part in (band.mean, band.low, band.high))]
                for step in range(points)
            ),
        )  # fmt: skip
    columns = list(next(iter(table.values())))
    head = [f"{column}{end}" for column in columns for end in ("", " low", " high")]
    rows = []
    means = [row[columns[0]].mean for row in table.values()]  # the best first
    for method, row in table.items():
        rank = 1 + means.index(row[columns[0]].mean)  # equals share the better place
        values = [value for column in columns for value in (row[column].mean, row[column].low, row[column].high)]
        rows.append([rank, method, *values, run.seconds[method]])
    write_csv(out / f"{stem}-table.csv", ["rank", "method", *head, "seconds per image"], rows)
    write_csv(
        out / f"{stem}-pairs.csv",
        ["better", "worse", "difference", "low", "high", "wins", "p of the sign test (Holm)", "p of the mean (Holm)"],
        (
            [one, two, f.difference.mean, f.difference.low, f.difference.high, f.wins, f.sign, f.p]
            for (one, two), f in pairs.items()
        ),
    )


def write_images(run: Run, path: Path) -> None:
    """A row per image and method, a column per measure (and for each of its columns, where it has several)."""
    columns = {
        label if name == run.asked[label].measure.ranks_by else f"{label}: {name}": values
        for label, found in run.values.items()
        for name, values in found.items()
    }
    names, methods = [harmless(name) for name in run.images], [harmless(name) for name in run.methods]
    schema = pa.schema([("image", pa.string()), ("method", pa.string()), *((name, pa.float64()) for name in columns)])
    options = pyarrow.csv.WriteOptions(quoting_style="needed")
    with written(path) as temporary, pyarrow.csv.CSVWriter(temporary, schema, write_options=options) as writer:
        for first in range(0, len(names), _AT_ONCE):
            some = names[first : first + _AT_ONCE]
            image = pa.array(some, pa.string()).take(pa.array(numpy.repeat(numpy.arange(len(some)), len(methods))))
            values = [pa.array(found[first : first + _AT_ONCE].reshape(-1)) for found in columns.values()]
            writer.write_table(pa.Table.from_arrays([image, pa.array(methods * len(some)), *values], schema=schema))
