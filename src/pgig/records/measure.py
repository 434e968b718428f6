"""Measures, as reports know them: their columns, and which way is better."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy
from numpy.typing import NDArray

from pgig.errors import PgigError
from pgig.plugins import open_table
from pgig.statistics import aopc, auc, score_at

Records = NDArray[Any]  # [n, ...]: what a judge leaves of n images
Better = Literal["lower", "higher"]
_POINTS = 10, 30, 100  # patches after which the score is reported


@dataclass(frozen=True)
class Column:
    """One number for each image; None where the records do not reach so far."""

    name: str
    of: Callable[[Records, int], NDArray[numpy.float64] | None]  # records, patches per step -> [n]
    better: Better


@dataclass(frozen=True)
class Measure:
    """What a benchmark reports of a method. The first column ranks."""

    name: str
    about: str
    columns: tuple[Column, ...]
    axis: str  # what records count up: `{score}` is the score's name

    @property
    def better(self) -> Better:
        return self.columns[0].better

    def columns_of(self, records: Records, patches_per_step: int = 1) -> dict[str, NDArray[numpy.float64]]:
        """All columns that the records reach."""
        found = {column.name: column.of(records, patches_per_step) for column in self.columns}
        return {name: values for name, values in found.items() if values is not None}


def _after(patches: int) -> Callable[[Records, int], NDArray[numpy.float64] | None]:
    def score(curves: Records, each: int) -> NDArray[numpy.float64] | None:
        steps = curves.shape[-1] - 1
        return score_at(curves, patches // each) if patches % each == 0 and patches // each <= steps else None

    return score


def _degradation(name: str, about: str, better: Better) -> Measure:
    other: Better = "higher" if better == "lower" else "lower"
    columns = (
        Column("AUC", lambda curves, _: auc(curves), better),
        Column("AOPC", lambda curves, _: aopc(curves), other),
        *(Column(f"after {k}", _after(k), better) for k in _POINTS),
    )
    return Measure(name, about, columns, "mean {score} of the class")


_TABLE = (
    _degradation("morf", "The score as the most relevant patches are replaced first", "lower"),
    _degradation("lerf", "The score as the least relevant patches are replaced first", "higher"),
    _degradation("random_order", "The score as patches are replaced in a random order, a control", "lower"),
)
MEASURES: dict[str, Measure] = open_table({measure.name: measure for measure in _TABLE})
BY_ORDER = {"descending": "morf", "ascending": "lerf", "random": "random_order"}


def find_measure(name: str) -> Measure:
    if name not in MEASURES:
        raise PgigError(f"unknown measure {name!r}; known: {', '.join(MEASURES)}")
    return MEASURES[name]
