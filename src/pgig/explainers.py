"""Explainers: the methods of the table, and what a user enters beside them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

import numpy
import torch
from torch import Tensor, nn

from pgig.attribution import attribute_all
from pgig.errors import PgigError
from pgig.imports import imported
from pgig.methods import PAPER_METHODS, Method, find_method


class CaptumStyle(Protocol):
    """An explainer that holds its model, as Captum's do."""

    def attribute(self, inputs: Tensor, target: Any = None) -> Tensor: ...


# model, inputs, targets -> attributions shaped like the inputs
OwnExplainer = Callable[[nn.Module, Tensor, Tensor], Tensor]
Explainer = str | Method | CaptumStyle | type[CaptumStyle] | OwnExplainer


def explainers(methods: str | Sequence[str] | Mapping[str, Explainer]) -> dict[str, Explainer]:
    """Named explainers: "all" (the paper's ten and random), "a,b", a list of names, or a mapping of names to any.

    A name with a colon, `module:name`, is an explainer of the caller's own: a function of (model, inputs, targets), or
    a class like Captum's, which is made with the model and has `attribute(inputs, target=...)`.
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


def _found(explainer: Explainer) -> Explainer:
    if isinstance(explainer, str):
        explainer = imported(explainer, "an explainer") if ":" in explainer else find_method(explainer)
    if not (isinstance(explainer, Method) or callable(explainer) or hasattr(explainer, "attribute")):
        raise PgigError(f"an explainer is a method, a function or has attribute(), got {type(explainer).__name__}")
    return explainer


def needs_patterns(table: Mapping[str, Explainer]) -> bool:
    return any(isinstance(method, Method) and method.rule.needs_patterns for method in table.values())


def explain_all(
    table: Mapping[str, Explainer], model: nn.Module, x: Tensor, target: Tensor, **options: Any
) -> dict[str, Tensor]:
    """Attributions of a batch by every explainer of a table. Options go to the project's own methods."""
    own = {name: method for name, method in table.items() if isinstance(method, Method)}
    found = cast(dict[str, Tensor], attribute_all(own, model, x, target, **options) if own else {})
    for name, explainer in table.items():
        if not isinstance(explainer, Method):
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
