"""Explaining by several explainers at once: what they share is done once."""

import warnings
from collections.abc import Hashable, Mapping
from typing import Any

from torch import Tensor, nn

from pgig.errors import PgigError, PgigWarning
from pgig.explainers.methods import MethodExplainer, explain_methods
from pgig.explainers.own import checked_attribution
from pgig.explainers.protocol import Explainer
from pgig.subject.context import Context
from pgig.subject.subject import Subject

Table = Mapping[str, Explainer]


def explain_group(
    table: Table, subject: Subject | nn.Module, x: Tensor, target: Any, context: Context | None = None
) -> dict[str, Tensor]:
    """The attributions of a batch by every explainer of a table, each shaped like x."""
    subject, context = Subject.of(subject), context or Context()
    methods = {name: explainer for name, explainer in table.items() if isinstance(explainer, MethodExplainer)}
    found = explain_methods(methods, subject, x, target, context) if methods else {}
    for name, explainer in table.items():
        if name not in found:
            _check_whole_model(name, subject, context)
            found[name] = checked_attribution(name, explainer.explain(subject, x, target, context), x)
    return {name: found[name] for name in table}


def _check_whole_model(name: str, subject: Subject, context: Context) -> None:
    """What is no method of gradients is asked with the model and its input, and nothing else."""
    if subject.at is not None:
        raise PgigError(f"{name} explains inputs, not the output of a layer ({subject.at!r})")
    if not isinstance(context.baseline, int | float) or context.baseline != 0:
        warnings.warn(f"baseline is for paths of gradients: {name} keeps its own", PgigWarning, stacklevel=4)
    if context.forward_args not in ((), None) or context.forward_kwargs:
        raise PgigError(f"{name} does not take forward_args: give it a module that holds them")


def sharing(table: Table) -> list[dict[str, Explainer]]:
    """Explainers that share their work, together, so that it can be told what each part takes."""
    groups: dict[Hashable, dict[str, Explainer]] = {}
    for name, explainer in table.items():
        groups.setdefault(("alone", name) if explainer.shares is None else explainer.shares, {})[name] = explainer
    return list(groups.values())


def needing_patterns(table: Table) -> list[str]:
    return [name for name, explainer in table.items() if explainer.needs.patterns]


def needing_references(table: Table) -> list[str]:
    return [name for name, explainer in table.items() if explainer.needs.references]
