"""Attributions by methods: those with the same points share their passes."""

from collections.abc import Callable, Mapping
from typing import Any

from pgig.attribution.engine import Engine
from pgig.methods.points import Points
from pgig.methods.table import Method
from pgig.subject.inputs import Tensors
from pgig.subject.scores import Target
from pgig.subject.subject import Subject

Progress = Callable[[int, int], object]


def attributions(
    table: Mapping[str, Method],
    subject: Subject,
    inputs: Tensors,
    target: Target,
    *,
    progress: Progress | None = None,
    spent: dict[str, list[int]] | None = None,
    **asked: Any,
) -> dict[str, Tensors]:
    """By name, each shaped like the inputs. `asked` is what the engine takes; `spent` is filled in."""
    engine = Engine(subject, inputs, target, rules={method.rule for method in table.values()}, **asked)
    with engine.open():
        results = engine.run(_by_points(table), progress or (lambda done, total: None))
    if spent is not None:
        spent |= engine.spent
    return {name: results[name] for name in table}


def _by_points(table: Mapping[str, Method]) -> dict[Points, dict[str, Method]]:
    groups: dict[Points, dict[str, Method]] = {}
    # what looks at x itself comes first: its forward pass also tells the predicted class
    for name, method in sorted(table.items(), key=lambda item: not item[1].points.is_input):
        groups.setdefault(method.points, {})[name] = method
    return groups
