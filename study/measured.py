"""What was measured, read from the published tables."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy
from numpy.typing import NDArray
from published import read_rows

from pgig.records.measures import asked_measure
from pgig.report.run import Run

Numbers = NDArray[numpy.float64]
Key = tuple[str, str, str]  # photograph, method, measure


@dataclass(frozen=True)
class Results:
    """All numbers of one network."""

    network: str
    numbers: Mapping[Key, float]
    curves: Mapping[tuple[str, str], Numbers]  # measure, method -> mean curve over the photographs

    @cached_property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(method for _, method, _ in self.numbers))

    def run(self, measures: Sequence[str], methods: Sequence[str] | None = None) -> Run:
        """These methods (all that were measured so) under these measures, where all of it was measured."""
        methods = methods or [m for m in self.methods if any((m, label) in self._measured for label in measures)]
        images = [image for image in self._images if all((image, m, label) in self.numbers for m in methods
                                                         for label in measures)]  # fmt: skip
        asked = {label: asked_measure(label, {}) for label in measures}
        values = {
            label: {asked[label].measure.ranks_by: numpy.array(
                [[self.numbers[image, m, label] for m in methods] for image in images]
            ).reshape(len(images), len(methods))}
            for label in measures
        }  # fmt: skip
        return Run(
            name=self.network, folder=Path(), config={"images": {"count": len(images)}}, images=tuple(images),
            methods=tuple(methods), asked=asked, values=values, streamed={}, seconds={}, skipped={}, unsealed=0,
        )  # fmt: skip

    def count(self, method: str, label: str) -> int:
        """On how many photographs a method was measured so."""
        return self._measured[method, label]

    @cached_property
    def _images(self) -> list[str]:
        return list(dict.fromkeys(image for image, _, _ in self.numbers))

    @cached_property
    def _measured(self) -> Counter[tuple[str, str]]:
        return Counter((method, label) for _, method, label in self.numbers)


def read_results(tables: Path, network: str) -> Results:
    numbers: dict[Key, float] = {}
    summed: dict[tuple[str, str], list[tuple[int, Numbers]]] = {}
    for path in sorted((tables / network).glob("*.csv")):
        if path.stem.endswith("-curves"):
            continue
        rows = read_rows(path)
        for row in rows:
            method = named(row["method"], path.stem)
            measured = {label: value for label, value in row.items() if label not in ("photograph", "method")}
            numbers |= {(row["photograph"], method, label): float(value) for label, value in measured.items()}
        count = len({row["photograph"] for row in rows})
        curves = path.with_name(f"{path.stem}-curves.csv")
        for row in read_rows(curves) if curves.is_file() else ():
            points = [float(value) for place, value in row.items() if place.isdigit() and value]
            key = row["measure"], named(row["method"], path.stem)
            summed.setdefault(key, []).append((count, numpy.array(points)))
    means = {key: sum(n * curve for n, curve in found) / sum(n for n, _ in found) for key, found in summed.items()}
    return Results(network, numbers, {key: numpy.asarray(mean) for key, mean in means.items()})


def named(method: str, table: str) -> str:
    """As the page names it: candidates by their own names, other patterns behind a comma."""
    _, *other = table.split("-")[:-1]
    own = method.removeprefix("candidates:")
    return f"{own}, {other[0]}" if other else own


def only(run: Run, images: Sequence[str]) -> Run:
    """The same of some photographs."""
    places = [place for place, name in enumerate(run.images) if name in set(images)]
    values = {label: {column: found[places] for column, found in of.items()} for label, of in run.values.items()}
    return Run(
        name=run.name, folder=run.folder, config={"images": {"count": len(places)}},
        images=tuple(run.images[place] for place in places), methods=run.methods, asked=run.asked, values=values,
        streamed={}, seconds={}, skipped={}, unsealed=0,
    )  # fmt: skip
