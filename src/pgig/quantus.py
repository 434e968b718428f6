"""Explanations for Quantus: `explain_func=pgig.quantus.explain`."""

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import fields
from inspect import signature
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from pgig.errors import PgigError
from pgig.explainers.registry import as_explainer
from pgig.explainers.together import explain_group
from pgig.explaining.attribute import attribute_all
from pgig.patterns.patterns import Patterns
from pgig.subject.context import Context
from pgig.subject.subject import Subject

# patterns of a model, or how to get them for one that was not met before
Source = Patterns | Mapping[str, Tensor] | Callable[[nn.Module], Patterns]

# those of `pgig.attribute`, and what black is for variants with that baseline
_OPTIONS = {name for name, p in signature(attribute_all).parameters.items() if p.kind is p.KEYWORD_ONLY} | {"black"}
_CONTEXT = {field.name for field in fields(Context)}


def explain(
    model: nn.Module,
    inputs: NDArray[Any] | Tensor,
    targets: NDArray[Any] | Tensor,
    *,
    method: str = "pgig",
    patterns: Source | None = None,
    device: str | torch.device | None = None,
    **options: Any,
) -> NDArray[Any]:
    """Attributions shaped like the inputs, NumPy in, NumPy out.

    method: any name that commands take too, such as `integrated_gradients`, `pgig+start=one` or `occlusion`.
    patterns: for pattern methods. `Patterns` are refused for other parameters than theirs, as a randomised model has;
        give a function of the model to have them estimated anew for each (and kept as long as its parameters
        stay), or a plain dict of tensors to use the same for all.
    device: where the inputs go, which must be where the model is; without, there.
    options: those of `pgig.attribute`; black, [channels, 1, 1], for variants with a black baseline.
    """
    if not isinstance(model, nn.Module):
        raise PgigError(f"expected a torch.nn.Module, got {type(model).__name__}")
    if unknown := options.keys() - _OPTIONS:
        raise PgigError(
            f"no option {sorted(unknown)[0]} here; among explain_func_kwargs: {', '.join(sorted(_OPTIONS))}"
        )
    explainer = as_explainer(method, method)
    if explainer.needs.patterns and patterns is None:
        raise PgigError(f"{method} needs patterns: give patterns=... among explain_func_kwargs")
    x, target = _tensor(inputs, "inputs"), _classes(_tensor(targets, "targets"))
    some = next(model.parameters(), torch.empty(0))
    x, target = (each.to(some.device if device is None else _place(device)) for each in (x, target))
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        subject = Subject(model, patterns_for(model, patterns) if patterns is not None else None)
        told = {name: value for name, value in options.items() if value is not None}
        context = Context(
            **{name: value for name, value in told.items() if name in _CONTEXT},
            options={name: value for name, value in told.items() if name not in _CONTEXT},
        )
        found = explain_group({method: explainer}, subject, x.to(some.dtype), target, context)
    except RuntimeError as error:  # torch's way of saying that a shape or a device is wrong
        reason = str(error).splitlines()[0]
        raise PgigError(f"the model failed on inputs of shape {tuple(x.shape)}: {reason}") from error
    finally:
        for module, training in modes:
            module.training = training
    attribution = found[method].detach().cpu()
    result: NDArray[Any] = (attribution.float() if attribution.dtype == torch.bfloat16 else attribution).numpy()
    return result


def _tensor(values: Any, what: str) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach()
    try:
        return torch.as_tensor(numpy.ascontiguousarray(values))
    except (TypeError, ValueError) as error:
        raise PgigError(f"{what} must be an array of numbers: {error}") from error


def _classes(targets: Tensor) -> Tensor:
    if targets.is_complex() or not bool((targets == targets.long()).all()):
        raise PgigError("targets must be whole numbers, a class for each input")
    return targets.long()


def _place(device: Any) -> torch.device:
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError) as error:
        raise PgigError(f"cannot use the device {device!r}: {str(error).splitlines()[0]}") from error


def patterns_for(model: nn.Module, source: Source) -> Mapping[str, Tensor]:
    """The patterns of a model with the parameters that it has now."""
    if isinstance(source, Mapping):
        return source
    subject = Subject(model)
    if not callable(source):
        raise PgigError(
            f"patterns must be Patterns, a dict or a function of the model, got {source!r}: Patterns.load reads a file"
        )
    kept: MutableMapping[Any, tuple[str, Patterns]] = subject.recall("estimated patterns", WeakIdKeyDictionary)
    if source not in kept or kept[source][0] != subject.digest:
        kept[source] = subject.digest, source(model)
    return kept[source][1]
