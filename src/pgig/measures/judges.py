"""Who judges for which measure: a line each. Their descriptions are in `pgig.records.measure`."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pgig.degradation import Protocol
from pgig.errors import PgigError
from pgig.measures.complexity import complexity
from pgig.measures.degradation import Between, Degradation
from pgig.measures.infidelity import Infidelity
from pgig.measures.insertion import DELETION, INSERTION
from pgig.measures.localization import localization
from pgig.measures.max_sensitivity import MaxSensitivity
from pgig.measures.random_model import random_model
from pgig.measures.road import Road
from pgig.measures.saco import SaCo
from pgig.measures.sensitivity_n import SensitivityN
from pgig.plugins import open_table
from pgig.records.explanation import Explanation
from pgig.records.measure import AskedMeasure, Measure, Records
from pgig.records.measures import BY_ORDER, MEASURES, asked_measure
from pgig.subject.context import Context
from pgig.subject.scores import Explained, Target
from pgig.subject.subject import Subject

# subject, x, targets, attributions by method, context -> records [n, ...] by method
Judge = Callable[[Subject, Tensor, Tensor, Mapping[str, Tensor], Context], Mapping[str, Records]]

_TABLE: dict[str, Judge] = {
    "morf": Degradation(Protocol(order="descending")),
    "lerf": Degradation(Protocol(order="ascending")),
    "lerf_minus_morf": Between(),
    "random_order": Degradation(Protocol(order="random")),
    "deletion": DELETION,
    "insertion": INSERTION,
    "road": Road("descending"),
    "road_lerf": Road("ascending"),
    "sensitivity_n": SensitivityN(),
    "saco": SaCo(),
    "infidelity": Infidelity(),
    "max_sensitivity": MaxSensitivity(),
    "complexity": complexity,
    "randomization": random_model,
    "localization": localization,
}
JUDGES = open_table(_TABLE)


def judge_of(asked: AskedMeasure) -> Judge:
    """Who judges, with the constants asked for.

    asked: by `pgig.records.measures.asked_measure`, which raises PgigError for a name or a constant that there is not.

    >>> from pgig.records.measures import asked_measure
    >>> pgig.measures.judge_of(asked_measure("morf+patch=4", {})).protocol.patch
    4
    """
    found = JUDGES[asked.measure.name]
    adjusted: Any = getattr(found, "with_constants", None)
    return adjusted(**asked.constants) if asked.constants and adjusted is not None else found


def register(measure: Measure, judge: Judge) -> None:
    """Make a measure of your own known by its name, to `pgig.measure` and to commands.

    judge: records [n, ...] of every method, from a subject, images [n, ...], targets [n], maps by method and a context.
    measure: its name, columns and constants. Raises PgigError for a name that is taken.

    >>> from pgig.records.measure import Column, Measure
    >>> share = Column("top share", lambda found, _: found.max(1) / found.sum(1), "higher")
    >>> def mass(subject, x, target, attributions, context):
    ...     return {name: a.abs().flatten(1).numpy() for name, a in attributions.items()}
    >>> pgig.measures.register(Measure("top", "The largest attribution's share", (share,), "share"), mass)
    >>> pgig.measures.judge("top", torch.nn.Linear(2, 1), torch.ones(1, 2), 0, {"mine": torch.tensor([[3.0, 1.0]])})
    {'mine': {'top share': array([0.75], dtype=float32)}}
    """
    if measure.name in MEASURES:
        raise PgigError(f"there is a measure named {measure.name!r} already")
    MEASURES[measure.name], JUDGES[measure.name] = measure, judge


def judge(
    measure: str,
    subject: Subject | nn.Module,
    x: Tensor,
    target: Target,
    attributions: Mapping[str, Any],
    context: Context | None = None,
    by: Judge | None = None,
) -> dict[str, dict[str, NDArray[numpy.float64]]]:
    """Every method's columns, a number for each input: method -> column -> [n].

    subject: the model, or a `Subject` of it.
    measure: a name of the table, with constants other than its own where wanted: `insertion+unit=pixel`.
    target: the class of each input, or one for all.
    attributions: shaped like x; tensors, arrays, or what `pgig.explain` gives.
    context: a `Setting` for measures that need more, such as `max_sensitivity`.
    by: a judge of your own making, such as `Degradation(Protocol(patch=4))`.

    Raises PgigError for a measure that there is not, shapes that do not fit, or a context that lacks what is needed.

    >>> model, x = pgig.synthetic.embedded(), torch.randn(2, 3, 64, 64)
    >>> found = pgig.attribute_all(["gradient", "integrated_gradients"], model, x, target=0)
    >>> areas = pgig.measures.judge("morf+patch=8+steps=10", model, x, 0, found)
    >>> list(areas), areas["gradient"]["AUC"].shape
    (['gradient', 'integrated_gradients'], (2,))
    """
    asked = asked_measure(measure, {})
    if isinstance(by, Degradation) and BY_ORDER[by.protocol.order] != asked.measure.name:
        raise PgigError(f"a judge in {by.protocol.order} order measures {BY_ORDER[by.protocol.order]}, not {measure}")
    judged = Subject.of(subject)
    judged.check([])
    given = {name: _attribution(name, value, x) for name, value in attributions.items()}
    if not given:
        raise PgigError("no attributions to judge")
    classes = Explained("logit", target, len(x)).classes
    if any(index is None or len(index) != 1 for index in classes):
        raise PgigError("give the class of each input as target")
    targets = torch.tensor([index[0] for index in classes if index], device=x.device)
    found = (by or judge_of(asked))(judged, x, targets, given, context or Context())
    for name in given:
        if name not in found or len(found[name]) != len(x):
            raise PgigError(f"the judge of {measure} left no record of every input for {name}")
    each = by.protocol.patches_per_step if isinstance(by, Degradation) else asked.patches_per_step
    return {name: asked.measure.columns_of(numpy.asarray(found[name]), each) for name in given}


def _attribution(name: str, value: Any, x: Tensor) -> Tensor:
    array = value.attribution if isinstance(value, Explanation) else value
    try:
        tensor = torch.as_tensor(array, device=x.device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise PgigError(f"the attribution by {name} must be a tensor or an array: {error}") from error
    if tensor.shape != x.shape:
        raise PgigError(f"the attribution by {name} has shape {tuple(tensor.shape)}, the inputs {tuple(x.shape)}")
    return tensor
