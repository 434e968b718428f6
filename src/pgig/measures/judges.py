"""Who judges for which measure: a line each. Their descriptions are in `pgig.records.measure`."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy
from numpy.typing import NDArray
from torch import Tensor, nn

from pgig.degradation import Protocol
from pgig.errors import PgigError
from pgig.measures.degradation import Degradation
from pgig.plugins import open_table
from pgig.records.measure import MEASURES, Measure, Records, find_measure
from pgig.subject.context import Context
from pgig.subject.subject import Subject

# subject, x, targets, attributions by method, context -> records [n, ...] by method
Judge = Callable[[Subject, Tensor, Tensor, Mapping[str, Tensor], Context], Mapping[str, Records]]

_TABLE: dict[str, Judge] = {
    "morf": Degradation(Protocol(order="descending")),
    "lerf": Degradation(Protocol(order="ascending")),
    "random_order": Degradation(Protocol(order="random")),
}
JUDGES = open_table(_TABLE)


def register(measure: Measure, judge: Judge) -> None:
    """Make a measure of your own known by its name."""
    if measure.name in MEASURES:
        raise PgigError(f"there is a measure named {measure.name!r} already")
    MEASURES[measure.name], JUDGES[measure.name] = measure, judge


def judge(
    measure: str,
    subject: Subject | nn.Module,
    x: Tensor,
    target: Tensor,
    attributions: Mapping[str, Tensor],
    context: Context | None = None,
    by: Judge | None = None,
) -> dict[str, dict[str, NDArray[numpy.float64]]]:
    """Every method's columns, a number for each input: method -> column -> [n].

    by: a judge with other settings than the table's, such as `Degradation(Protocol(patch=4))`.
    """
    described = find_measure(measure)
    found: Mapping[str, Any] = (by or JUDGES[measure])(
        Subject.of(subject), x, target, attributions, context or Context()
    )
    for name in attributions:
        if name not in found or len(found[name]) != len(x):
            raise PgigError(f"the judge of {measure} left no record of every input for {name}")
    return {name: described.columns_of(numpy.asarray(found[name])) for name in attributions}
