"""The preflight: what would happen to a model under the rules, and a self-test that it does."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pgig.attribution import attribute_all
from pgig.calls import tensors_in
from pgig.errors import PgigError
from pgig.layers import Layers
from pgig.mode import RuleMode
from pgig.models import check_model, without_compilation
from pgig.rules import guided, pattern, patternnet, plain
from pgig.tracing import Trace, TracedLayer, trace


@dataclass(frozen=True)
class Row:
    operation: str
    layer: str
    treatment: str


@dataclass(frozen=True)
class Preflight:
    """A table of every operation with its treatment, and whether the rules can be trusted; `print` it."""

    rows: tuple[Row, ...]
    unsupported: tuple[str, ...]  # layers that no rule can see
    covered: float  # share of the parameters that have a pattern, or belong to a norm behind one, biases included
    failures: tuple[str, ...]  # of the self-test
    remarks: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        cells = [("operation", "layer", "treatment"), *((r.operation, r.layer, r.treatment) for r in self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(3)]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in cells]
        lines.append(f"\n{self.covered:.1%} of the parameters are covered by patterns")
        lines += [f"unsupported: {name} (plain gradient, no pattern)" for name in self.unsupported]
        lines += self.remarks
        lines += [f"self-test failed: {failure}" for failure in self.failures]
        lines.append("yes: pattern methods work on this model" if self.ok else "no: do not use pattern methods here")
        return "\n".join(lines)


def check(model: nn.Module, example: Any) -> Preflight:
    """Look at `model` before you rely on it.

    example: a batch as the model takes it, or a tuple of its arguments. One row is enough.
    """
    model = without_compilation(model)  # type: ignore[assignment]
    if not isinstance(model, nn.Module):
        raise PgigError("the preflight needs a module: a plain callable has no layers to know by name")
    check_model(model, [guided], None)
    inputs = example if isinstance(example, tuple) else (example,)
    traced = trace(model, *inputs)
    failures, remarks = _self_test(model, inputs, traced)
    rows = tuple(Row(s.operation, s.layer or "", _treatment(traced, s.layer, s.treatment)) for s in traced.steps)
    return Preflight(rows, tuple(traced.hidden), _coverage(model, traced), tuple(failures), tuple(remarks))


def _treatment(traced: Trace, layer: str | None, treatment: str) -> str:
    if layer is None:
        return treatment
    about: TracedLayer = traced.layers[layer]
    regime = "positive" if about.is_rectified else "linear"
    return f"pattern, {regime} regime" + (", norm folded" if about.norm is not None else "")


def _coverage(model: nn.Module, traced: Trace) -> float:
    names = {name.removesuffix(".weight") for name in traced.layers}
    covered = total = 0
    for name, parameter in model.named_parameters():
        total += parameter.numel()
        owner = name.removesuffix(".weight").removesuffix(".bias")
        covered += parameter.numel() if owner in names or ".parametrizations." in name else 0
    norms = sum(2 * len(layer.norm.factor) for layer in traced.layers.values() if layer.norm is not None)
    return min(1.0, (covered + norms) / total) if total else 0.0


def _self_test(model: nn.Module, inputs: tuple[Any, ...], traced: Trace) -> tuple[list[str], list[str]]:
    if not traced.layers:
        return ["no convolution or linear layer was called"], []
    ones = {name: torch.ones_like(layer.original) for name, layer in traced.layers.items()}
    failures, remarks = [], []
    with torch.no_grad():
        # a mode on both sides: some modules take another path where nobody looks
        with RuleMode(Layers(model, None, False), [plain], False):
            usual = model(*_copies(inputs))
        with RuleMode(Layers(model, ones, False), [plain, guided, pattern, patternnet], False):
            under_rules = model(*_copies(inputs))
    if not all(torch.equal(a, b) for a, b in zip(tensors_in(usual), tensors_in(under_rules), strict=True)):
        failures.append("outputs change under the rules")
    x = inputs[0]
    if not isinstance(x, Tensor) or not x.is_floating_point():
        remarks.append("the input has no gradient (whole numbers): explain its embedding; gradients were not tested")
        return failures, remarks
    methods = ["gradient", "pattern_attribution"]
    found = attribute_all(
        methods, model, x, patterns=ones, score=_any_score, start="one", forward_args=tuple(inputs[1:])
    )
    plain_gradient, under_ones = (found[name] for name in methods)
    assert isinstance(plain_gradient, Tensor)
    assert isinstance(under_ones, Tensor)
    scale = float(plain_gradient.abs().max()) or 1.0
    tolerance = 1e-9 if x.dtype == torch.float64 else 1e-3
    if float((plain_gradient - under_ones).abs().max()) > tolerance * scale:
        failures.append("gradients under patterns of ones differ from autograd's")
    return failures, remarks


def _any_score(output: Any) -> Tensor:
    """A scalar per input that depends on all of the output."""
    first = next(tensors_in(output))
    weights = torch.linspace(0.5, 1.5, max(1, first[0].numel()), dtype=first.dtype, device=first.device)
    return first.flatten(1) @ weights if first.dim() > 1 else first


def _copies(inputs: tuple[Any, ...]) -> list[Any]:
    return [x.clone() if isinstance(x, Tensor) else x for x in inputs]
