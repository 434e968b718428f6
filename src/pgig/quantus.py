"""Explanations for Quantus: `explain_func=pgig.quantus.explain`."""

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pgig.attribution import attribute_all
from pgig.errors import PgigError
from pgig.explainers import explain_all, explainers, needs_patterns
from pgig.patterns import Patterns, model_digest

# patterns of a model, or how to get them for one that was not met before
Source = Patterns | Mapping[str, Tensor] | Callable[[nn.Module], Patterns]

# those of `pgig.attribute`, and what black is for variants with that baseline
_OPTIONS = {name for name, p in signature(attribute_all).parameters.items() if p.kind is p.KEYWORD_ONLY} | {"black"}
_MOST_KEPT = 4
_kept: list[tuple[Any, str, Patterns]] = []  # where from, and the parameters that they belong to


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
        give a function of the model to have them estimated anew for each (they are kept by a digest of the parameters),
        or a plain dict of tensors to use the same for all.
    device: where the inputs go, which must be where the model is; without, there.
    options: those of `pgig.attribute`; black, [channels, 1, 1], for variants with a black baseline.
    """
    if not isinstance(model, nn.Module):
        raise PgigError(f"expected a torch.nn.Module, got {type(model).__name__}")
    if unknown := options.keys() - _OPTIONS:
        raise PgigError(
            f"no option {sorted(unknown)[0]} here; among explain_func_kwargs: {', '.join(sorted(_OPTIONS))}"
        )
    table = explainers([method])
    if needs_patterns(table) and patterns is None:
        raise PgigError(f"{method} needs patterns: give patterns=... among explain_func_kwargs")
    some = next(model.parameters(), None)
    place = torch.device(device) if device is not None else some.device if some is not None else torch.device("cpu")
    dtype = some.dtype if some is not None else torch.float32
    x = torch.as_tensor(numpy.asarray(inputs), dtype=dtype, device=place)
    target = torch.as_tensor(numpy.asarray(targets), device=place).long()
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        given = patterns_for(model, patterns) if patterns is not None else None
        found = explain_all(table, model, x, target, patterns=given, **options)
    finally:
        for module, training in modes:
            module.training = training
    result: NDArray[Any] = found[next(iter(table))].detach().cpu().numpy()
    return result


def patterns_for(model: nn.Module, source: Source) -> Mapping[str, Tensor]:
    """The patterns of a model with the parameters that it has now."""
    if isinstance(source, Mapping):
        return source
    digest = model_digest(model)
    for known, its, patterns in _kept:
        if known is source and its == digest:
            return patterns
    _kept.append((source, digest, source(model)))
    del _kept[:-_MOST_KEPT]
    return _kept[-1][2]
