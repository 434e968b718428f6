"""The preflight: what would happen to a model under the rules, and a self-test that it does."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from pgig.errors import PgigError
from pgig.explaining.example import Example
from pgig.explaining.self_test import UNTESTED, self_test
from pgig.methods.rules import guided
from pgig.network.trace import trace
from pgig.network.traced import Step, Trace
from pgig.patterns.health import growth
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
    covered: float  # share of the layers' weights that have patterns
    others: tuple[str, ...]  # parameters that are no layers, and need no pattern
    unused: tuple[str, ...]  # parameters that the example does not reach
    failures: tuple[str, ...]  # of the self-test
    remarks: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        cells = [("operation", "layer", "treatment"), *((r.operation, r.layer, r.treatment) for r in self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(3)]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in cells]
        lines.append(f"\nlayers: {self.covered:.1%} of their weights have patterns")
        lines += [f"unsupported: {name} (plain gradient, no pattern)" for name in self.unsupported]
        if self.others:
            lines.append(f"other parameters, which need no pattern: {_summed_up(self.others)}")
        if self.unused:
            lines.append(f"unused for such an input: {_summed_up(self.unused)}")
        lines += self.remarks
        lines += [f"self-test failed: {failure}" for failure in self.failures]
        lines.append(self._verdict())
        return "\n".join(lines)

    def _verdict(self) -> str:
        if not self.ok:
            return "no: do not use pattern methods here"
        if UNTESTED in self.remarks:
            return "yes, as far as it was tested: outputs do not change under the rules"
        if self.covered < 0.5:
            return f"yes, but for {self.covered:.1%} of the layers' weights only: the rest keep their plain gradient"
        return "yes: pattern methods work on this model"


def check(
    model: nn.Module | Subject, example: Any, *, forward_args: Any = (), forward_kwargs: Mapping[str, Any] | None = None
) -> Preflight:
    """Look at `model` before you rely on it.

    example: a batch as the model takes it, a tuple of its arguments, or a mapping of what it takes by name. One row is
        enough. Token ids are tested from the output of their embedding on.
    forward_args, forward_kwargs: what the model takes beside it.

    Gives a report to `print`: how each operation is treated, what rules leave plain and why, and a self-test.
    Raises PgigError where the model fails on the example.

    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3)).eval()
    >>> report = pgig.check(model, torch.ones(1, 2))
    >>> "relu" in str(report).lower()
    True
    """
    subject = Subject.of(model)
    if not isinstance(subject.model, nn.Module):
        raise PgigError("the preflight needs a module: a plain callable has no layers to know by name")
    subject.check([guided])
    given = Example.of(subject, example, forward_args, forward_kwargs)
    if not isinstance(given.first, Tensor) or given.first.dim() == 0 or len(given.first) == 0:
        raise PgigError("the example must be a batch as the model takes it, or a tuple that begins with one")
    args, kwargs = given.by_name
    try:
        traced = trace(subject.module, *args, **kwargs)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, PgigError):
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise PgigError(f"the model failed on an example of shape {given.shape}: {reason}") from error
    failures, remarks = self_test(given if given.has_gradient else given.at_embedding(traced), traced)
    rows = tuple(Row(step.operation, step.layer or "", _treatment(traced, step)) for step in traced.steps)
    partly = [name for name, layer in traced.layers.items() if layer.form is None]
    return Preflight(
        rows=rows,
        unsupported=(*traced.hidden, *partly),
        covered=_coverage(subject.module, traced, partly),
        others=tuple(traced.others),
        unused=tuple(traced.unused),
        failures=tuple(failures),
        remarks=(*remarks, *((remark,) if (remark := growth(traced.paths)) else ())),
    )


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


def _coverage(model: nn.Module, traced: Trace, partly: Sequence[str]) -> float:
    """Of the weights of layers; parameters that are no layers do not count."""
    covered = sum(layer.original.numel() for layer in traced.layers.values() if layer.form is not None)
    weights = {name.removesuffix(".weight"): parameter for name, parameter in model.named_parameters()}
    missing = sum(weights[name].numel() for name in (*traced.hidden, *partly) if name in weights)
    return covered / (covered + missing) if covered + missing else 0.0


def _summed_up(names: Sequence[str], most: int = 6) -> str:
    """Names that differ in numbers alone as one, with how many they are."""
    alike = Counter(re.sub(r"\d+", "*", name) for name in names)
    shown = [name if count == 1 else f"{name} ({count})" for name, count in alike.items()]
    return ", ".join(shown[:most]) + (f" and {len(shown) - most} more kinds" if len(shown) > most else "")
