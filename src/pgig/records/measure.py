"""What a measure is, as reports know it: its columns, which way is better, its constants and where they come from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy
from numpy.typing import NDArray

from pgig.errors import PgigError

Records = NDArray[Any]  # [n, ...]: what a judge leaves of n images
Better = Literal["lower", "higher"]
Number = int | float | str


@dataclass(frozen=True)
class Column:
    """One number for each image; None where the records do not reach so far."""

    name: str
    of: Callable[[Records, int], NDArray[numpy.float64] | None]  # records, patches per step -> [n]
    better: Better


@dataclass(frozen=True)
class Constant:
    """A number (or a word) that a measure depends on."""

    name: str
    default: Number
    about: str
    source: str  # where the default comes from

    def read(self, text: str, label: str) -> Number:
        """From text, as a value of the default's type."""
        kind = type(self.default)
        try:
            return kind(text)
        except ValueError:
            wanted = {int: "a whole number", float: "a number"}[kind]
            raise PgigError(f"{self.name} of {label} must be {wanted}, got {text!r}") from None


@dataclass(frozen=True)
class Measure:
    """What a benchmark reports of a method. The first column ranks."""

    name: str
    about: str
    columns: tuple[Column, ...]
    axis: str  # what records count up: `{score}` is the score's name
    constants: tuple[Constant, ...] = ()
    # how many numbers a record has, by the constants and the side of images; None: any
    length: Callable[[Mapping[str, Any], int], int] | None = None
    steps: str = ""  # what a curve's steps are; empty where records are no curves
    # a control says nothing of methods, a derived measure nothing that others do not: neither counts in a ranking
    role: Literal["measure", "control", "derived"] = "measure"
    needs: Literal["patches", "pixels", "methods", "masks"] = "pixels"  # of what to judge by; methods: to ask anew
    sources: tuple[str, ...] = ()  # keys of the bibliography

    @property
    def better(self) -> Better:
        return self.columns[0].better

    @property
    def ranks_by(self) -> str:
        return self.columns[0].name

    def columns_of(self, records: Records, patches_per_step: int = 1) -> dict[str, NDArray[numpy.float64]]:
        """All columns that the records reach."""
        found = {column.name: column.of(records, patches_per_step) for column in self.columns}
        return {name: values for name, values in found.items() if values is not None}


@dataclass(frozen=True)
class AskedMeasure:
    """A measure with its constants, known in records by its label."""

    label: str  # as it was asked for: `morf+fill=blur`
    measure: Measure
    constants: Mapping[str, Any]

    def length(self, side: int) -> int | None:
        """Of a record, for images of this side."""
        return None if self.measure.length is None else self.measure.length(self.constants, side)

    @property
    def needs(self) -> str:
        """What to judge by: an attribution's product with the input is not known from its sums over patches."""
        return "pixels" if self.constants.get("product") == "input" else self.measure.needs

    @property
    def patches_per_step(self) -> int:
        return int(self.constants.get("patches_per_step", 1))

    def columns_of(self, records: Records) -> dict[str, NDArray[numpy.float64]]:
        return self.measure.columns_of(records, self.patches_per_step)
