"""The self-test behind check(): do rules change nothing but gradients, and are plain gradients autograd's?"""

import copy
import warnings
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from pgig.errors import PgigError, PgigWarning
from pgig.explaining.attribute import attribute
from pgig.methods.rules import guided, pattern, patternnet, plain
from pgig.network.checks import FAILURES
from pgig.network.interception import RuleMode
from pgig.network.layer_calls import Operation, tensors_in
from pgig.network.layers import Layers
from pgig.network.trace import Trace
from pgig.patterns.patterns import Patterns
from pgig.subject.context import BatchSize
from pgig.subject.inputs import PerInput
from pgig.subject.rows import WHOLE, check_rows
from pgig.subject.subject import Subject


def self_test(subject: Subject, inputs: tuple[Any, ...], traced: Trace) -> tuple[list[str], list[str]]:
    """What is wrong, and remarks."""
    model = subject.module
    layers = {name: layer for name, layer in traced.layers.items() if layer.form is not None}
    if not layers:
        return ["no convolution or linear layer was called"], []
    unsupported = [name for name in traced.layers if name not in layers]
    one = torch.ones(())
    ones = Patterns(
        {name: one.to(layer.original).expand(layer.original.shape) for name, layer in layers.items()},
        facts={"unsupported": unsupported},
    )
    failures, remarks = [], []
    has_gradient = isinstance(inputs[0], Tensor) and inputs[0].is_floating_point()
    with torch.enable_grad(), _Watching():
        usual = model(*_copies(inputs, has_gradient)[1])
    with torch.enable_grad(), RuleMode(Layers(model, ones, False), [plain, guided, pattern, patternnet], False):
        under_rules = model(*_copies(inputs, has_gradient)[1])
    if not all(_same(a, b) for a, b in zip(tensors_in(usual), tensors_in(under_rules), strict=True)):
        failures.append("outputs change under the rules")
    if not has_gradient:
        remarks.append("the input has no gradient (whole numbers): explain its embedding; gradients were not tested")
        return failures, remarks
    remarks += _remarks_on_rows(subject, inputs)
    for method, differ in _differing(model, inputs, ones).items():
        if differ:
            under = "patterns of ones" if method == "pattern_attribution" else "the plain rule"
            failures.append(f"gradients under {under} differ from autograd's")
    return failures, remarks


def _remarks_on_rows(subject: Subject, inputs: tuple[Any, ...]) -> list[str]:
    """Where inputs cannot be put through one by one, and what to do then."""
    x, further = inputs[0], PerInput(tuple(inputs[1:]), None, len(inputs[0]))

    def ask(given: Sequence[Tensor], rows: list[int]) -> Any:
        return subject(given[0].clone(), *further.rows(torch.tensor(rows))[0])

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", PgigWarning)
            check_rows(subject, [x], [torch.zeros_like(x)], "output", ask)
    except (PgigError, PgigWarning) as remark:
        return [f"note: {remark}"]
    return []


def _same(one: Tensor, other: Tensor) -> bool:
    """To rounding: torch takes other ways through some operations where a tensor needs no gradient."""
    if not one.is_floating_point() or one.shape != other.shape or one.numel() == 0:
        return torch.equal(one, other)
    one, other = one.detach(), other.detach()
    tolerance = {torch.float64: 1e-9, torch.float32: 1e-4}.get(one.dtype, 1e-2)
    return torch.allclose(one, other, rtol=tolerance, atol=tolerance * float(one.abs().max()), equal_nan=True)


_TESTED = "gradient", "pattern_attribution"
_EXAMPLES = 5  # where the model does not run in float64
_OFF, _MOST_OFF = 1e-2, 0.5  # a value that is off by so much of its size; the share of such values


def _differing(model: nn.Module, inputs: tuple[Any, ...], ones: Patterns) -> dict[str, bool]:
    """Does a method give another gradient than autograd? Judged in float64, on a copy of the model.

    In float32, rounding can flip a ReLU or the choice of a max pool, which changes gradients a lot and means nothing.
    A model that does not run in float64 throughout is judged by the share of values that are off, over some examples.
    """
    try:
        precise, doubled = copy.deepcopy(model).double(), tuple(map(_doubled, _at_least_two_rows(model, inputs)))
        watching = _Watching()
        by_autograd = _bare(precise, doubled, watching)
        if watching.is_double:
            limit = 1e-6 * (float(by_autograd.abs().max()) or 1.0)
            return {
                method: float((by_autograd - _found(method, precise, doubled, ones)).abs().max()) > limit
                for method in _TESTED
            }
    except Exception:  # a model's own code may fail in any way on what it was not made for
        pass
    shares: dict[str, list[float]] = {method: [] for method in _TESTED}
    for number in range(_EXAMPLES):
        rolled = (inputs[0].roll(7 * number, -1), *inputs[1:])
        by_autograd = _bare(model, rolled, _Watching())
        sizes = by_autograd.abs().clamp(min=float(by_autograd.square().mean().sqrt()) or 1.0)
        for method in _TESTED:
            off = (by_autograd - _found(method, model, rolled, ones)).abs() > _OFF * sizes
            shares[method].append(float(off.float().mean()))
    return {method: median(found) > _MOST_OFF for method, found in shares.items()}


def _found(method: str, model: nn.Module, inputs: tuple[Any, ...], ones: Patterns) -> Tensor:
    def asked(batch_size: BatchSize) -> Tensor:
        found = attribute(
            method, model, inputs[0], patterns=ones, score=_any_score, start="one", forward_args=tuple(inputs[1:]),
            batch_size=batch_size,
        )  # fmt: skip
        assert isinstance(found, Tensor)
        return found

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PgigWarning)  # what keeps its plain gradient is listed in the report
        try:
            return asked(None)
        except PgigError as error:
            if WHOLE not in str(error):
                raise
            return asked("whole")


def _at_least_two_rows(model: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """A single example twice, where the model takes that: torch itself is not always right for one row."""
    if len(inputs[0]) > 1:
        return inputs
    twice = tuple(
        torch.cat([x, x]) if isinstance(x, Tensor) and x.dim() > 0 and len(x) == 1 else x for x in inputs
    )  # fmt: skip
    try:
        with torch.no_grad():
            model(*_copies(twice, False)[1])
    except FAILURES:
        return inputs
    return twice


def _doubled(value: Any) -> Any:
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def _bare(model: nn.Module, inputs: tuple[Any, ...], watching: "_Watching") -> Tensor:
    """The gradient that autograd takes without any rule."""
    with torch.enable_grad(), watching:
        leaf, copies = _copies(inputs, True)
        output = model(*copies)
    assert leaf is not None
    (gradient,) = torch.autograd.grad(_any_score(output).sum(), leaf, allow_unused=True)
    return torch.zeros_like(leaf) if gradient is None else gradient


class _Watching(TorchFunctionMode):
    """Looks on, and notes whether all is float64. Some modules take another path where nobody looks."""

    def __init__(self) -> None:
        super().__init__()
        self.is_double = True

    def __torch_function__(
        self, func: Operation, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if any(t.is_floating_point() and t.dtype != torch.float64 for t in tensors_in(result)):
            self.is_double = False
        return result


def _any_score(output: Any) -> Tensor:
    """A scalar per input that depends on all of the output."""
    first = next(tensors_in(output))
    weights = torch.linspace(0.5, 1.5, max(1, first[0].numel()), dtype=first.dtype, device=first.device)
    return first.flatten(1) @ weights if first.dim() > 1 else first


def _copies(inputs: tuple[Any, ...], has_gradient: bool) -> tuple[Tensor | None, list[Any]]:
    """The first input as a leaf, if it has a gradient, and copies for the model, which may work in place."""
    leaf = inputs[0].detach().clone().requires_grad_() if has_gradient else None
    given = (leaf, *inputs[1:]) if leaf is not None else inputs
    return leaf, [x.clone() if isinstance(x, Tensor) else x for x in given]
