"""Explanations for Quantus: `explain_func=pgig.quantus.explain`."""

import warnings
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import fields
from inspect import signature
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from pgig.errors import PgigError, PgigWarning
from pgig.explainers.registry import as_explainer
from pgig.explainers.together import explain_group
from pgig.explaining.attribute import attribute_all
from pgig.patterns.patterns import Patterns
from pgig.subject.context import Context
from pgig.subject.scores import Score
from pgig.subject.subject import Subject

# patterns of a model, or how to get them for one that was not met before
Source = Patterns | Mapping[str, Tensor] | Callable[[nn.Module], Patterns]

# those of `pgig.attribute`, and what black is for variants with that baseline
_OPTIONS = {name for name, p in signature(attribute_all).parameters.items() if p.kind is p.KEYWORD_ONLY}
_OPTIONS = _OPTIONS - {"layer", "side", "spent"} | {"black"}
_QUANTUS_ONLY = {"img_size", "nr_channels", "channel_first", "xai_lib", "attributor"}
_CONTEXT = {field.name for field in fields(Context)}


def explain(
    model: nn.Module,
    inputs: NDArray[Any] | Tensor,
    targets: NDArray[Any] | Tensor,
    *,
    method: str = "pgig",
    patterns: Source | None = None,
    device: str | torch.device | None = None,
    reduce_axes: Sequence[int] = (1,),
    keepdims: bool = True,
    softmax: bool | None = None,
    score: Score | None = None,
    xai_lib_kwargs: Mapping[str, Any] | None = None,
    **options: Any,
) -> NDArray[Any]:
    """Attributions, NumPy in, NumPy out; of images, summed over their channels, as Quantus's own `explain` does.

    method: any name that commands take too, such as `integrated_gradients`, `pgig+start=one` or `occlusion`.
    patterns: for pattern methods. `Patterns` of other parameters, as a randomised model has, are used as they are,
        frozen, which is said once; give a function of the model to have them estimated anew for each (and kept as long
        as its parameters stay).
    device: where the inputs go, which must be where the model is; without, there.
    reduce_axes, keepdims: the axes to sum over, () for none, and whether they stay as axes of length one. Inputs of two
        axes are not summed.
    score: "logit", Quantus's choice and the default, or "probability"; softmax=True means the latter.
    xai_lib_kwargs, and all else: options of `pgig.attribute`; black, [channels, 1, 1], for variants with a black
        baseline. Quantus's `img_size`, `nr_channels`, `channel_first` and `xai_lib` are taken, and change nothing.
    targets: the class of each. Raises PgigError, as `pgig.attribute` does.

    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, 5)).eval()
    >>> pgig.quantus.explain(model, torch.ones(2, 3, 8, 8).numpy(), [0, 1], method="gradient").shape
    (2, 1, 8, 8)
    """
    if not isinstance(model, nn.Module):
        raise PgigError(f"expected a torch.nn.Module, got {type(model).__name__}")
    options = {**options, **(xai_lib_kwargs or {}), "score": _score(score, softmax)}
    options = {name: value for name, value in options.items() if name not in _QUANTUS_ONLY}
    if unknown := options.keys() - _OPTIONS:
        raise PgigError(
            f"no option {sorted(unknown)[0]} here; among explain_func_kwargs: {', '.join(sorted(_OPTIONS))}"
        )
    explainer = as_explainer(method, method)
    if explainer.needs.patterns and patterns is None:
        raise PgigError(f"{method} needs patterns: give patterns=... among explain_func_kwargs")
    x, target = _tensor(inputs, "inputs"), whole_classes(_tensor(targets, "targets"))
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
    return _reduced(result, reduce_axes, keepdims)


def _score(score: Score | None, softmax: bool | None) -> Score:
    if softmax is not None and not isinstance(softmax, bool):
        raise PgigError(f"softmax must be True or False, got {softmax!r}")
    if score is None:
        return "probability" if softmax else "logit"
    if softmax is not None and (score == "probability") != softmax:
        raise PgigError(f"softmax={softmax} and score={score!r} say different things: give one of them")
    return score


def _reduced(attribution: NDArray[Any], axes: Sequence[int], keepdims: bool) -> NDArray[Any]:
    wanted = tuple(axes) if isinstance(axes, Sequence) else (axes,)
    if not all(isinstance(axis, int) and -attribution.ndim <= axis < attribution.ndim for axis in wanted):
        raise PgigError(f"reduce_axes must be axes of {attribution.shape}, got {axes!r}")
    if any(axis % attribution.ndim == 0 for axis in wanted):
        raise PgigError("reduce_axes must leave axis 0 alone, which counts the inputs")
    if attribution.ndim == 2 or not wanted:  # each feature by itself
        return attribution
    summed: NDArray[Any] = attribution.sum(axis=wanted, keepdims=keepdims)
    return summed


_FROZEN = (
    "the patterns are of other weights than the model's, as in a randomisation: they are used as they are, frozen. "
    "Give a function of the model as patterns to have them estimated anew"
)


def _tensor(values: Any, what: str) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach()
    try:
        return torch.as_tensor(numpy.ascontiguousarray(values))
    except (TypeError, ValueError) as error:
        raise PgigError(f"{what} must be an array of numbers: {error}") from error


def whole_classes(targets: Tensor) -> Tensor:
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
    subject = Subject(model)
    if isinstance(source, Patterns) and source.digest is not None:
        try:
            source.check(model)
        except PgigError:
            warnings.warn(_FROZEN, PgigWarning, stacklevel=3)
            return dict(source)
    if isinstance(source, Mapping):
        return source
    if not callable(source):
        raise PgigError(
            f"patterns must be Patterns, a dict or a function of the model, got {source!r}: Patterns.load reads a file"
        )
    kept: MutableMapping[Any, tuple[str, Patterns]] = subject.recall("estimated patterns", WeakIdKeyDictionary)
    if source not in kept or kept[source][0] != subject.digest:
        kept[source] = subject.digest, source(model)
    return kept[source][1]
