"""Explainers: the methods of the table, and what a user enters beside them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

import numpy
import torch
from torch import Tensor, nn

from pgig.errors import PgigError
from pgig.explainers.occlusion import Occlusion
from pgig.explainers.variants import Variant, baseline_for, find_variant, options_in
from pgig.explaining.attribute import attribute_all
from pgig.methods.table import PAPER_METHODS, Method, find_method
from pgig.plugins import imported


class CaptumStyle(Protocol):
    """An explainer that holds its model, as Captum's do."""

    def attribute(self, inputs: Tensor, target: Any = None) -> Tensor: ...


# model, inputs, targets -> attributions shaped like the inputs
OwnExplainer = Callable[[nn.Module, Tensor, Tensor], Tensor]
Explainer = str | Method | Variant | Occlusion | CaptumStyle | type[CaptumStyle] | OwnExplainer


def explainers(methods: str | Sequence[str] | Mapping[str, Explainer]) -> dict[str, Explainer]:
    """Named explainers: "all" (the paper's ten and random), "a,b", a list of names, or a mapping of names to any.

    A name with a colon, `module:name`, is an explainer of the caller's own: a function of (model, inputs, targets), or
    a class like Captum's, which is made with the model and has `attribute(inputs, target=...)`. A name with a plus is a
    variant: `pgig+start=one`, `integrated_gradients+steps=50+baseline=black`, `pgig+absolute`.
    """
    if isinstance(methods, Mapping):
        table = dict(methods)
    else:
        listed = methods.split(",") if isinstance(methods, str) else methods
        if not isinstance(listed, Sequence) or not all(isinstance(entry, str) for entry in listed):
            raise PgigError("methods are names; give explainers of your own as a mapping of names to them")
        parts = [part.strip() for entry in listed for part in entry.split(",")]
        table = {name: name for part in parts if part for name in (PAPER_METHODS if part == "all" else [part])}
    if not table:
        raise PgigError("no method given: see pgig methods")
    return {name: _found(explainer) for name, explainer in table.items()}


# by name, beside the methods of the table
OTHERS: Mapping[str, Occlusion] = {"occlusion": Occlusion()}


def _found(explainer: Explainer) -> Explainer:
    if isinstance(explainer, str) and explainer.partition("+")[0] in OTHERS:
        return OTHERS[explainer.partition("+")[0]].with_options(options_in(explainer))
    if isinstance(explainer, str) and ":" not in explainer:
        return find_variant(explainer) if "+" in explainer else find_method(explainer)
    if isinstance(explainer, str):
        explainer = imported(explainer, "an explainer")
    if not (isinstance(explainer, Method | Variant) or callable(explainer) or hasattr(explainer, "attribute")):
        raise PgigError(f"an explainer is a method, a function or has attribute(), got {type(explainer).__name__}")
    return explainer


def method_of(explainer: Explainer) -> Method | None:
    """The method of the table behind it, if there is one."""
    if isinstance(explainer, Variant):
        return explainer.method
    return explainer if isinstance(explainer, Method) else None


def needs_patterns(table: Mapping[str, Explainer]) -> bool:
    return any(method is not None and method.rule.needs_patterns for method in map(method_of, table.values()))


def needs_references(table: Mapping[str, Explainer]) -> bool:
    return any(method is not None and method.points.needs_references for method in map(method_of, table.values()))


def explain_all(
    table: Mapping[str, Explainer],
    model: nn.Module,
    x: Tensor,
    target: Tensor,
    *,
    black: Tensor | None = None,
    **options: Any,
) -> dict[str, Tensor]:
    """Attributions of a batch by every explainer of a table. Options go to the project's own methods.

    black: what a black pixel is to the model, [channels, 1, 1], for variants with that baseline.
    """
    for name, explainer in table.items():
        twice = sorted(explainer.own & options.keys()) if isinstance(explainer, Variant) else []
        if twice and options[twice[0]] is not None:
            raise PgigError(f"{twice[0]} is given twice: in {name!r}, and as {options[twice[0]]} for all methods")
    found: dict[str, Tensor] = {}
    own = {name: method for name, method in table.items() if isinstance(method, Method)}
    if own:
        found |= cast(dict[str, Tensor], attribute_all(own, model, x, target, **options))
    variants = {name: variant for name, variant in table.items() if isinstance(variant, Variant)}
    for baseline in dict.fromkeys(variant.baseline for variant in variants.values()):
        methods = {name: variant.method for name, variant in variants.items() if variant.baseline == baseline}
        given = {**options, "baseline": baseline_for(baseline, x, black)}
        for name, attribution in attribute_all(methods, model, x, target, **given).items():
            found[name] = variants[name].finished(cast(Tensor, attribution))
    for name, explainer in table.items():
        if isinstance(explainer, Occlusion):
            found[name] = explainer(model, x, target, options.get("score", "probability"))
        elif name not in found:
            found[name] = _asked(name, explainer, model, x, target)
    return {name: found[name] for name in table}


def _asked(name: str, explainer: Any, model: nn.Module, x: Tensor, target: Tensor) -> Tensor:
    """What an explainer says, which may raise anything, return anything, and write to what it is given."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        given = _called(explainer, model, x.detach().clone(), target.clone())
        given = given[0] if isinstance(given, tuple) and len(given) == 1 else given
        if isinstance(given, numpy.ndarray):
            given = numpy.ascontiguousarray(given)
        attribution = torch.as_tensor(given).detach()
    except Exception as error:
        raise PgigError(f"{name} failed: {type(error).__name__}: {error}") from error
    finally:
        for module, training in modes:
            module.training = training
    if attribution.is_complex():
        raise PgigError(f"{name} gave complex attributions")
    attribution = attribution.to(x)
    if attribution.shape != x.shape:
        raise PgigError(f"{name} gave attributions of shape {tuple(attribution.shape)} for {tuple(x.shape)}")
    if not attribution.isfinite().all():
        raise PgigError(f"{name} gave NaN or infinite attributions")
    return attribution


def _called(explainer: Any, model: nn.Module, x: Tensor, target: Tensor) -> Any:
    if isinstance(explainer, type):
        explainer = explainer(model)
    if hasattr(explainer, "attribute"):  # Captum asks for gradients, with a warning where it has to do so itself
        return explainer.attribute(x.requires_grad_(), target=target)
    return explainer(model, x, target)
