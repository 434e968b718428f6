"""A finished (or unfinished) run, read from its folder part by part: numbers by measure, image and method."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray

from pgig.errors import PgigError
from pgig.records.config import read_config
from pgig.records.measure import AskedMeasure, Measure
from pgig.records.part_files import note_unsealed, read_tables
from pgig.records.part_tables import PartTable
from pgig.records.recorded_measures import measures_of
from pgig.report.streamed import Band, Streamed
from pgig.statistics import Comparison, Interval, comparisons, corrected, intervals

Numbers = NDArray[numpy.float64]


@dataclass(frozen=True)
class Run:
    name: str
    folder: Path
    config: Mapping[str, Mapping[str, Any]]
    images: tuple[str, ...]
    methods: tuple[str, ...]
    asked: Mapping[str, AskedMeasure]  # by label
    values: Mapping[str, Mapping[str, Numbers]]  # label -> column -> [n, methods]
    streamed: Mapping[str, Streamed]  # label -> curves, of measures that have them
    seconds: Mapping[str, float]  # by method, per image
    skipped: Mapping[str, str]  # images that could not be used, with reasons
    unsealed: int  # parts of an earlier version, which cannot be checked

    @staticmethod
    def read(folder: Path) -> "Run":
        if not (folder / "config.toml").is_file():
            raise PgigError(f"{folder} is not a run: it has no config.toml")
        config = read_config(folder / "config.toml")
        _check(config, folder)
        return _Reading(folder, config, measures_of(config, folder)).run(read_tables(folder))

    @property
    def is_complete(self) -> bool:
        return len(self.images) + len(self.skipped) >= int(self.config["images"]["count"])

    @property
    def first(self) -> str:
        """The label of the measure that stands for a run where there is room for one."""
        return next(iter(self.asked))

    @property
    def measure(self) -> Measure:
        return self.asked[self.first].measure

    @property
    def curves(self) -> dict[str, Numbers]:
        """Of the first measure, method -> [n, steps + 1]."""
        return self.streamed[self.first].whole()

    def bands(self, label: str) -> dict[str, Band]:
        return self.streamed[label].bands

    def ranked_by(self, label: str) -> Numbers:
        """The column that ranks, [n, methods]."""
        return self.values[label][self.asked[label].measure.ranks_by]

    def best_first(self, label: str) -> list[str]:
        means = dict(zip(self.methods, self.ranked_by(label).mean(0).tolist(), strict=True))
        return sorted(means, key=lambda m: means[m], reverse=self.asked[label].measure.better == "higher")

    def tied(self, label: str) -> list[str]:
        """The best, and those that are exactly as good."""
        means = self.ranked_by(label).mean(0)
        best = means.max() if self.asked[label].measure.better == "higher" else means.min()
        return [method for method, mean in zip(self.methods, means, strict=True) if mean == best]

    def measures(self, label: str | None = None) -> dict[str, dict[str, Interval]]:
        """A measure's columns, with intervals, the best method first."""
        label = label or self.first
        return {method: self._intervals[label][method] for method in self.best_first(label)}

    def comparisons(self, label: str | None = None) -> dict[tuple[str, str], Comparison]:
        """Every two methods by the column that ranks, the better first; p-values corrected for their number."""
        label = label or self.first
        pairs = list(combinations(self.best_first(label), 2))
        if not pairs:
            return {}
        place = {method: number for number, method in enumerate(self.methods)}
        sign = -1 if self.asked[label].measure.better == "lower" else 1
        values = sign * self.ranked_by(label)
        found = comparisons(numpy.stack([values[:, place[one]] - values[:, place[two]] for one, two in pairs], 1))
        mended = corrected({f"{one}|{two}": pair for (one, two), pair in zip(pairs, found, strict=True)})
        return dict(zip(pairs, mended.values(), strict=True))

    @cached_property
    def _intervals(self) -> dict[str, dict[str, dict[str, Interval]]]:
        """label -> method -> column, all from the same resamples."""
        columns = [(label, name) for label, of in self.values.items() for name in of]
        each = iter(intervals(numpy.concatenate([self.values[label][name] for label, name in columns], 1)))
        found: dict[str, dict[str, dict[str, Interval]]] = {
            label: {m: {} for m in self.methods} for label in self.asked
        }
        for label, name in columns:
            for method in self.methods:
                found[label][method][name] = next(each)
        return found


class _Reading:
    """Part by part, so that only what a report shows is held."""

    def __init__(self, folder: Path, config: Mapping[str, Any], asked: Mapping[str, AskedMeasure]) -> None:
        self._folder, self._config, self._asked = folder, config, asked
        self._methods = tuple(config["attributions"]["methods"])
        self._images: list[str] = []
        self._values: dict[str, dict[str, list[Numbers]]] = {label: {} for label in asked}
        self._streamed = {label: Streamed(self._methods) for label, one in asked.items() if one.measure.steps}
        self._seconds = dict.fromkeys(self._methods, 0.0)
        self._skipped: dict[str, str] = {}

    def run(self, parts: Iterable[PartTable]) -> Run:
        unsealed = count = 0
        for part in parts:
            count, unsealed = count + 1, unsealed + (not part.is_sealed)
            self._skipped |= part.skipped
            if part.images:
                self._add(part)
        if not self._images:
            raise PgigError(
                f"{self._folder} has no curves: it has not finished a part, or none of its images could be read"
            )
        note_unsealed(self._folder, unsealed, count)
        return Run(
            name=self._folder.resolve().name, folder=self._folder, config=self._config, images=tuple(self._images),
            methods=self._methods, asked=self._asked,
            values={
                label: {name: numpy.concatenate(found) for name, found in columns.items()}
                for label, columns in self._values.items()
            },
            streamed=self._streamed, seconds={m: s / len(self._images) for m, s in self._seconds.items()},
            skipped=self._skipped, unsealed=unsealed,
        )  # fmt: skip

    def _add(self, part: PartTable) -> None:
        self._images += part.images
        for method, seconds in part.seconds.items():
            self._seconds[method] += seconds
        for label, asked in self._asked.items():
            records = part.records(label, self._methods)  # [n, methods, values]
            n, methods, length = records.shape
            for name, found in asked.columns_of(records.reshape(n * methods, length)).items():
                self._values[label].setdefault(name, []).append(found.reshape(n, methods))
            if label in self._streamed:
                self._streamed[label].add(records)


_TEXTS = ("model", "model"), ("degradation", "score"), ("degradation", "evaluator")
_OF_ORDER = ("degradation", "fill"), ("degradation", "departure")


def _check(config: Mapping[str, Mapping[str, Any]], folder: Path) -> None:
    """What a report reads beyond what the parts were checked against."""
    for section, key in (*_TEXTS, *(() if "measures" in config else _OF_ORDER)):
        if not isinstance(config[section].get(key), str):
            raise PgigError(f"the configuration in {folder} is damaged: [{section}] has no text {key}")
    methods = config["attributions"].get("methods")
    if not isinstance(methods, list) or not methods or not all(isinstance(method, str) for method in methods):
        raise PgigError(f"the configuration in {folder} is damaged: [attributions] has no list of methods")
