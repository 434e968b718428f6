"""The preflight: what would happen to a model under the rules, and a self-test that it does."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from pgig.errors import PgigError
from pgig.explaining.self_test import self_test
from pgig.methods.rules import guided
from pgig.network.trace import Step, Trace, trace
from pgig.subject.subject import Subject


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
        lines.append(self._verdict())
        return "\n".join(lines)

    def _verdict(self) -> str:
        if not self.ok:
            return "no: do not use pattern methods here"
        if self.covered < 0.5:
            return f"yes, but for {self.covered:.1%} of the parameters only: all else keeps its plain gradient"
        return "yes: pattern methods work on this model"


def check(model: nn.Module | Subject, example: Any) -> Preflight:
    """Look at `model` before you rely on it.

    example: a batch as the model takes it, or a tuple of its arguments. One row is enough.
    """
    subject = Subject.of(model)
    if not isinstance(subject.model, nn.Module):
        raise PgigError("the preflight needs a module: a plain callable has no layers to know by name")
    subject.check([guided])
    model = subject.module
    inputs = example if isinstance(example, tuple) else (example,)
    if not inputs or not isinstance(inputs[0], Tensor) or inputs[0].dim() == 0 or len(inputs[0]) == 0:
        raise PgigError("the example must be a batch as the model takes it, or a tuple that begins with one")
    try:
        traced = trace(model, *inputs)
    except (RuntimeError, TypeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise PgigError(f"the model failed on an example of shape {tuple(inputs[0].shape)}: {reason}") from error
    failures, remarks = self_test(subject, inputs, traced)
    rows = tuple(Row(step.operation, step.layer or "", _treatment(traced, step)) for step in traced.steps)
    unsupported = tuple(traced.hidden + [name for name, layer in traced.layers.items() if layer.form is None])
    return Preflight(rows, unsupported, _coverage(model, traced), tuple(failures), tuple(remarks))


def _treatment(traced: Trace, step: Step) -> str:
    if step.part_of is not None and traced.layers[step.part_of].norm is not None:
        return f"norm, part of {step.part_of}"
    if step.layer is None:
        return step.treatment
    about = traced.layers[step.layer]
    if about.form is None:
        return "unsupported: its weight is used in part, or in several ways; plain gradient"
    regime = "positive" if about.is_rectified else "linear"
    return f"pattern, {regime} regime" + (", norm folded" if about.norm is not None else "")


def _coverage(model: nn.Module, traced: Trace) -> float:
    names = {name for name, layer in traced.layers.items() if layer.form is not None}
    covered = total = 0
    for name, parameter in model.named_parameters():
        total += parameter.numel()
        owner = name.removesuffix(".weight").removesuffix(".bias")
        covered += parameter.numel() if owner in names or ".parametrizations." in name else 0
    norms = sum(2 * len(layer.norm.factor) for layer in traced.layers.values() if layer.norm is not None)
    return min(1.0, (covered + norms) / total) if total else 0.0
