"""The self-test behind check(): do rules change nothing but gradients, and are plain gradients autograd's?"""

import copy
import warnings
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from pgig.errors import PgigError, PgigWarning
from pgig.explaining.attribute import attribute_all
from pgig.explaining.example import Example
from pgig.methods.rules import guided, pattern, patternnet, plain
from pgig.network.interception import RuleMode
from pgig.network.layer_calls import Operation
from pgig.network.layers import Layers
from pgig.network.nested import tensors_in
from pgig.network.outputs import answer_in, answer_of
from pgig.network.traced import Trace
from pgig.patterns.patterns import Patterns
from pgig.subject.rows import check_rows

UNTESTED = (
    "the input has no gradient (whole numbers), and no single embedding that it is looked up in: "
    + "gradients were not tested"
)


def self_test(example: Example, traced: Trace) -> tuple[list[str], list[str]]:
    """What is wrong, and remarks."""
    layers = {name: layer for name, layer in traced.layers.items() if layer.form is not None}
    if not layers:
        return ["no convolution or linear layer was called"], []
    unsupported = [name for name in traced.layers if name not in layers]
    one = torch.ones(())
    ones = Patterns(
        {name: one.to(layer.original).expand(layer.original.shape) for name, layer in layers.items()},
        facts={"unsupported": unsupported},
    )
    failures: list[str] = []
    remarks: list[str] = []
    subject, has_gradient = example.subject, example.has_gradient
    with torch.enable_grad(), _Watching():
        usual = subject(*example.copies(has_gradient)[1], **example.kwargs)
    remarks += _checked_output(usual, has_gradient)
    rules = [plain, guided, pattern, patternnet]
    with torch.enable_grad(), RuleMode(Layers(subject.model, ones, False), rules, False):
        under_rules = subject(*example.copies(has_gradient)[1], **example.kwargs)
    if not all(_same(a, b) for a, b in zip(tensors_in(usual), tensors_in(under_rules), strict=True)):
        failures.append("outputs change under the rules")
    if not has_gradient:
        remarks.append(UNTESTED)
        return failures, remarks
    if subject.at is not None:
        remarks.append(f"token ids: gradients were tested from the output of {subject.at!r} on (pgig.explain_tokens)")
    remarks += _remarks_on_rows(example)
    for method, differ in _differing(example, ones).items():
        if differ:
            under = "patterns of ones" if method == "pattern_attribution" else "the plain rule"
            failures.append(f"gradients under {under} differ from autograd's")
    return failures, remarks


def _checked_output(output: Any, has_gradient: bool) -> list[str]:
    """Refuse what no method could explain, and say what methods will ask for."""
    answer, found = answer_in(output), list(tensors_in(output))
    if not found:
        answer_of(output)  # which says what is wrong with it
    judged = found[0] if answer is None else answer
    if not judged.is_floating_point():
        raise PgigError(f"the model returned {judged.dtype}, which has no gradient")
    if not bool(judged.isfinite().any()) or bool(judged.isnan().any()):
        raise PgigError("the model's output for the example is NaN or infinite")
    if has_gradient and not any(tensor.requires_grad for tensor in found):
        raise PgigError("the output has no gradient: does the model use no_grad, or detach what it returns?")
    if answer is None:
        return [
            f"note: the model returns {len(found)} tensors, none named 'logits' or 'out': methods need score= to pick"
        ]
    return []


def _remarks_on_rows(example: Example) -> list[str]:
    """Where inputs cannot be put through one by one, and what to do then."""
    x = example.args[0]

    def ask(given: Sequence[Tensor], rows: list[int]) -> Any:
        args, kwargs = example.further(torch.tensor(rows))
        return example.subject(given[0].clone(), *args, **kwargs)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", PgigWarning)
            check_rows(example.subject, [x], [torch.zeros_like(x)], "output", ask)
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


def _differing(example: Example, ones: Patterns) -> dict[str, bool]:
    """Does a method give another gradient than autograd? Judged in float64, on a copy of the model.

    In float32, rounding can flip a ReLU or the choice of a max pool, which changes gradients a lot and means nothing.
    A model that does not run in float64 throughout is judged by the share of values that are off, over some examples.
    """
    try:
        precise = example.precise(copy.deepcopy(example.subject.module).double())
        watching = _Watching()
        by_autograd = _bare(precise, watching)
        if watching.is_double:
            limit = 1e-6 * (float(by_autograd.abs().max()) or 1.0)
            found = _found(precise, ones)
            return {method: float((by_autograd - found[method]).abs().max()) > limit for method in _TESTED}
    except Exception:  # a model's own code may fail in any way on what it was not made for
        pass
    shares: dict[str, list[float]] = {method: [] for method in _TESTED}
    for number in range(_EXAMPLES):
        rolled = example.rolled(7 * number)
        by_autograd = _bare(rolled, _Watching())
        sizes = by_autograd.abs().clamp(min=float(by_autograd.square().mean().sqrt()) or 1.0)
        found = _found(rolled, ones)
        for method in _TESTED:
            off = (by_autograd - found[method]).abs() > _OFF * sizes
            shares[method].append(float(off.float().mean()))
    return {method: median(found) > _MOST_OFF for method, found in shares.items()}


def _found(example: Example, ones: Patterns) -> dict[str, Tensor]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PgigWarning)  # what keeps its plain gradient is listed in the report
        return attribute_all(
            _TESTED, example.subject, example.args[0], patterns=ones, score=_any_score, start="one",
            forward_args=tuple(example.args[1:]), forward_kwargs=dict(example.kwargs),
            batch_size="whole",  # as autograd is given them; whether rows are mixed is looked at elsewhere
        )  # fmt: skip


def _bare(example: Example, watching: "_Watching") -> Tensor:
    """The gradient that autograd takes without any rule."""
    with torch.enable_grad(), watching:
        leaf, copies = example.copies(True)
        output = example.subject(*copies, **example.kwargs)
    assert leaf is not None
    (gradient,) = torch.autograd.grad(_any_score(output).sum(), leaf, allow_unused=True)
    return torch.zeros_like(leaf) if gradient is None else gradient


class _Watching(TorchFunctionMode):
    """Looks on, and notes whether all is float64. Some modules take another path where nobody looks.

    Batch norms (eval) are written out: torch's own backward pass of them misreads some strides.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_double = True

    def __torch_function__(
        self, func: Operation, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        written_out = func is F.batch_norm and not (kwargs or {}).get("training", (*args, *[False] * 6)[5])
        result = _written_out(*args, **(kwargs or {})) if written_out else func(*args, **(kwargs or {}))
        if any(t.is_floating_point() and t.dtype != torch.float64 for t in tensors_in(result)):
            self.is_double = False
        return result


def _written_out(
    input: Tensor, running_mean: Tensor, running_var: Tensor, weight: Tensor | None = None, bias: Tensor | None = None,
    training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    shape = 1, -1, *[1] * (input.dim() - 2)
    y = (input - running_mean.reshape(shape)) * (running_var + eps).rsqrt().reshape(shape)
    y = y if weight is None else y * weight.reshape(shape)
    return (y if bias is None else y + bias.reshape(shape)).to(input.dtype)


def _any_score(output: Any) -> Tensor:
    """A scalar per input that depends on all of the output."""
    answer = answer_in(output)
    answer = next(tensors_in(output), None) if answer is None else answer
    if answer is None:
        return answer_of(output)  # which says what is wrong with it
    answer = answer.reshape(1) if answer.dim() == 0 else answer
    weights = torch.linspace(0.5, 1.5, max(1, answer[0].numel()), dtype=answer.dtype, device=answer.device)
    return answer.flatten(1) @ weights if answer.dim() > 1 else answer
