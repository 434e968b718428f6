"""A finished (or unfinished) run, read from its folder: curves by method, image by image."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray

from pgig.errors import PgigError
from pgig.records.config import read_config
from pgig.records.measure import Measure
from pgig.records.measures import measures_of
from pgig.records.part_files import note_unsealed, read_run
from pgig.statistics import Comparison, Interval, comparisons, corrected, intervals


@dataclass(frozen=True)
class Run:
    name: str
    folder: Path
    config: Mapping[str, Mapping[str, Any]]
    images: tuple[str, ...]
    curves: Mapping[str, NDArray[numpy.float64]]  # method -> [n, steps + 1]
    seconds: Mapping[str, float]  # per image
    skipped: Mapping[str, str]  # images that could not be used, with reasons
    unsealed: int  # parts of an earlier version, which cannot be checked

    @staticmethod
    def read(folder: Path) -> "Run":
        if not (folder / "config.toml").is_file():
            raise PgigError(f"{folder} is not a run: it has no config.toml")
        config = read_config(folder / "config.toml")
        parts = list(read_run(folder))
        rows = [row for part in parts for row in part.rows]
        if not rows:
            raise PgigError(f"{folder} has no curves: it has not finished a part, or none of its images could be read")
        _check(config, folder)
        images = tuple(dict.fromkeys(row["image"] for row in rows))
        by_method: dict[str, dict[str, Any]] = {}
        for row in rows:
            by_method.setdefault(row["method"], {})[row["image"]] = row
        curves = {m: numpy.array([found[image]["values"] for image in images]) for m, found in by_method.items()}
        seconds = {m: float(numpy.mean([r["seconds"] for r in found.values()])) for m, found in by_method.items()}
        skipped = {image: reason for part in parts for image, reason in part.skipped.items()}
        unsealed = sum(not part.is_sealed for part in parts)
        note_unsealed(folder, unsealed, len(parts))
        return Run(folder.resolve().name, folder, config, images, curves, seconds, skipped, unsealed)

    @property
    def steps(self) -> int:
        return int(next(iter(self.curves.values())).shape[1]) - 1

    @property
    def patches_per_step(self) -> int:
        return int(self.config["degradation"].get("patches_per_step", 1))

    @property
    def is_complete(self) -> bool:
        return len(self.images) + len(self.skipped) >= int(self.config["images"]["count"])

    @property
    def measure(self) -> Measure:
        """What was measured."""
        return next(iter(measures_of(self.config, self.folder).values())).measure

    def measures(self) -> dict[str, dict[str, Interval]]:
        """The measure's columns, with intervals, the best method first."""
        values = {m: self.measure.columns_of(curves, self.patches_per_step) for m, curves in self.curves.items()}
        each = iter(intervals(numpy.stack([part for columns in values.values() for part in columns.values()], 1)))
        found = {method: {column: next(each) for column in columns} for method, columns in values.items()}
        return {
            method: found[method] for method in self._ranked({m: row[self._ranks].mean for m, row in found.items()})
        }

    def comparisons(self) -> dict[tuple[str, str], Comparison]:
        """Every two methods by the measure's first column, the better first; p-values corrected for their number."""
        areas = {m: self.measure.columns_of(curves)[self._ranks] for m, curves in self.curves.items()}
        pairs = list(combinations(self._ranked({m: float(area.mean()) for m, area in areas.items()}), 2))
        if not pairs:
            return {}
        sign = -1 if self.measure.better == "lower" else 1
        found = comparisons(numpy.stack([sign * (areas[one] - areas[two]) for one, two in pairs], 1))
        mended = corrected({f"{one}|{two}": pair for (one, two), pair in zip(pairs, found, strict=True)})
        return dict(zip(pairs, mended.values(), strict=True))

    @property
    def _ranks(self) -> str:
        return self.measure.columns[0].name

    def _ranked(self, means: Mapping[str, float]) -> list[str]:
        return sorted(means, key=lambda method: means[method], reverse=self.measure.better == "higher")


_TEXTS = ("model", "model"), *(("degradation", key) for key in ("score", "order", "fill", "departure", "evaluator"))


def _check(config: Mapping[str, Mapping[str, Any]], folder: Path) -> None:
    """What a report reads beyond what the parts were checked against."""
    for section, key in _TEXTS:
        if not isinstance(config[section].get(key), str):
            raise PgigError(f"the configuration in {folder} is damaged: [{section}] has no text {key}")
