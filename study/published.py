"""The published tables of finished parts: a row per photograph and method, a column per measure; and mean curves."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy
from settings import half_of, uses

from pgig.records.tables import write_csv
from pgig.report.run import Run

DIGITS = 6
ALIKE = "spearman", "spearman_absolute"


def is_published(folder: Path, name: str) -> bool:
    return (folder / f"{name}.csv").is_file()


def publish(run: Run, folder: Path, name: str) -> None:
    """The curves first: a part is published when its numbers are there."""
    if not run.is_complete:
        raise RuntimeError(f"{run.folder} is not finished")
    folder.mkdir(parents=True, exist_ok=True)
    if run.streamed:
        points = max(len(band.mean) for label in run.streamed for band in run.bands(label).values())
        write_csv(folder / f"{name}-curves.csv", ["measure", "method", *map(str, range(points))], _curves(run))
    write_csv(folder / f"{name}.csv", ["photograph", "method", *run.asked], _rows(run))


def publish_uses(photographs: Sequence[Path], table: Path) -> None:
    """Which photograph is for what."""
    rows = [
        [path.name, use, half_of(path.name, photographs) if use.startswith("many") else ""]
        for use, some in uses(photographs).items()
        for path in some
    ]
    write_csv(table, ["photograph", "use", "half"], rows)


def publish_randomised(out: Path, table: Path) -> None:
    """Of every stage (how many layers are random), photograph and method: rank correlation, with signs and of sizes."""
    rows = [
        [stage["number"], stage["layer"], row["image"], row["method"], *(f"{float(row[c]):.4f}" for c in ALIKE)]
        for stage in read_rows(out / "stages.csv")
        for row in read_rows(out / "stages" / f"{stage['stage']}.csv")
    ]
    write_csv(table, ["randomised", "layer", "photograph", "method", *ALIKE], rows)


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _rows(run: Run) -> Iterator[list[object]]:
    values = numpy.stack([run.ranked_by(label) for label in run.asked], -1)  # [photographs, methods, measures]
    for image, of_image in zip(run.images, values, strict=True):
        for method, row in zip(run.methods, of_image, strict=True):
            yield [image, method, *(f"{value:.{DIGITS}g}" for value in row)]


def _curves(run: Run) -> Iterator[list[object]]:
    for label in run.streamed:
        for method, band in run.bands(label).items():
            yield [label, method, *(f"{value:.4f}" for value in band.mean)]
