"""The mode that lets rules act on operations: it sees what the model's Python calls, and touches nothing in it."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from pgig.errors import PgigError, PgigWarning
from pgig.layers import Layer, Layers
from pgig.operations import (
    Gradient,
    LayerFunction,
    NormFunction,
    ReLUFunction,
    Run,
    convolution_gradient,
)
from pgig.rules import Rule, plain

Operation = Callable[..., Tensor]


class RuleMode(TorchFunctionMode):
    """Replaces layers, ReLUs and norms by operations whose backward pass asks which rule is active.

    The rule is chosen when backward runs (`gradients`), so that one forward pass serves several rules.
    """

    def __init__(self, layers: Layers, rules: Iterable[Rule], channels_last: bool) -> None:
        super().__init__()
        self.rule = plain
        self._layers = layers
        self._needs_patterns = any(rule.needs_patterns for rule in rules)
        self._replaces_layers = self._needs_patterns or channels_last
        self._replaces_relus = any(rule.relu for rule in rules)
        self._replaces_norms = any(rule.skips_norm for rule in rules)
        self._channels_last = channels_last
        self._layers_seen: set[str] = set()
        self._relus_seen = 0
        self._left_alone: set[str] = set()

    def __torch_function__(
        self, func: Operation, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        handler = _HANDLERS.get(func)
        if handler is None:
            return func(*args, **(kwargs or {}))
        return handler(self, func, *args, **(kwargs or {}))

    def gradients(
        self, rule: Rule, scores: Tensor, leaves: Sequence[Tensor], first: Tensor, keep_graph: bool
    ) -> list[Tensor]:
        """The gradients of `scores` under `rule`, where backpropagation begins with `first`."""
        with self._active(rule):
            # autograd.grad() would leave the mode first; a checkpoint that recomputes needs it open
            run = torch.autograd.Variable._execution_engine.run_backward
            found = run((scores,), (first,), keep_graph, False, tuple(leaves), allow_unreachable=True)
        if all(gradient is None for gradient in found):
            raise PgigError("the score does not depend on the inputs: does the model detach them?")
        return [torch.zeros_like(x) if g is None else g for x, g in zip(leaves, found, strict=True)]

    @contextmanager
    def _active(self, rule: Rule) -> Iterator[None]:
        self.rule = rule
        try:
            yield
        finally:
            self.rule = plain

    def check_acted(self, rules: Iterable[Rule]) -> None:
        """Refuse to pass off a plain gradient as the work of a rule."""
        for rule in rules:
            if rule.relu is not None:
                self._check_relus()
            if rule.needs_patterns:
                self._check_layers()

    def _check_relus(self) -> None:
        left = ", ".join(sorted(self._left_alone))
        if not self._relus_seen:
            raise PgigError(
                "guided backpropagation found no ReLU to act on"
                + (f"; {left} keep their plain gradient" if left else "")
                + ": use another method for this model"
            )
        if left:
            warnings.warn(f"guided backpropagation left these activations alone: {left}", PgigWarning, stacklevel=2)

    def _check_layers(self) -> None:
        if not self._layers_seen:
            raise PgigError("the pattern rule found no layer to act on: no convolution or linear layer was called")
        if missed := self._layers.with_patterns() - self._layers_seen:
            raise PgigError(
                f"no operation was seen for layer {sorted(missed)[0]!r}, which has a pattern: it was not called, or "
                "only inside an operation that hides it (attention, a recurrent layer). Leave its pattern out to let "
                "its gradient be plain"
            )

    # -- layers ----------------------------------------------------------------------------------------------------

    def _layer(self, weight: object) -> Layer | None:
        layer = self._layers.find(weight) if self._replaces_layers else None
        if layer is None or not self._needs_patterns:
            return layer
        if layer.pattern is None:
            covered = len(self._layers.with_patterns())
            raise PgigError(
                f"no pattern for layer {layer.name!r}: the {covered} patterns given do not cover this model. "
                "Estimate patterns for it, or use a method without the pattern rule"
            )
        if torch.is_grad_enabled():  # not in the first pass of a checkpoint, whose graph is thrown away
            self._layers_seen.add(layer.name)
        return layer

    def _apply(self, x: Tensor, layer: Layer, used: Tensor, run: Run, gradient: Gradient) -> Tensor:
        result: Tensor = LayerFunction.apply(x, self, layer, used, run, gradient)  # type: ignore[no-untyped-call]
        return result

    def _convolution(
        self, func: Operation, input: Tensor, weight: Tensor, bias: Any = None, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1,
    ) -> Tensor:  # fmt: skip
        layer = self._layer(weight)
        if layer is None:
            return func(input, weight, bias, stride, padding, dilation, groups)
        axes = weight.dim() - 2
        stride, dilation = _per_axis(stride, axes), _per_axis(dilation, axes)
        input, padding = _explicit_padding(input, padding, weight.shape[2:], dilation)

        def run(x: Tensor) -> Tensor:
            return func(x, layer.plain(weight), bias, stride, padding, dilation, groups)

        gradient = convolution_gradient(stride, padding, dilation, groups, output_padding=(0,) * axes)
        return self._batched(input, axes, layer, weight, run, gradient)

    def _transposed_convolution(
        self, func: Operation, input: Tensor, weight: Tensor, bias: Any = None, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
    ) -> Tensor:  # fmt: skip
        layer = self._layer(weight)
        if layer is None:
            return func(input, weight, bias, stride, padding, output_padding, groups, dilation)
        axes = weight.dim() - 2
        stride, padding, dilation = (_per_axis(value, axes) for value in (stride, padding, dilation))
        output_padding = _per_axis(output_padding, axes)

        def run(x: Tensor) -> Tensor:
            return func(x, layer.plain(weight), bias, stride, padding, output_padding, groups, dilation)

        gradient = convolution_gradient(stride, padding, dilation, groups, True, output_padding)
        return self._batched(input, axes, layer, weight, run, gradient)

    def _batched(self, x: Tensor, axes: int, layer: Layer, weight: Tensor, run: Run, gradient: Gradient) -> Tensor:
        if x.dim() == axes + 1:  # torch takes a single image too
            return self._apply(x[None], layer, weight, run, gradient)[0]
        return self._apply(x, layer, weight, run, gradient)

    def _linear(self, func: Operation, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        layer = self._layer(weight)
        if layer is None:
            return func(input, weight, bias)
        return self._apply(input, layer, weight, lambda x: func(x, layer.plain(weight), bias), lambda g, _, w: g @ w)

    def _matmul(self, func: Operation, *factors: Any, **kwargs: Any) -> Tensor:
        if len(factors) == 2 and not kwargs and (result := self._product(func, *factors)) is not None:
            return result
        return func(*factors, **kwargs)

    def _addmm(self, func: Operation, input: Tensor, mat1: Tensor, mat2: Tensor, **scales: Any) -> Tensor:
        result = self._product(lambda a, b: func(input, a, b, **scales), mat1, mat2, scales.get("alpha", 1))
        return func(input, mat1, mat2, **scales) if result is None else result

    def _product(self, func: Operation, a: Tensor, b: Tensor, alpha: Any = 1) -> Tensor | None:
        """The product where one factor is a weight and the other has rows and columns; else None."""
        right = self._layer(b) if a.dim() >= 2 and b.dim() == 2 else None
        if right is not None:
            return self._apply(a, right, b, lambda x: func(x, right.plain(b)), lambda g, _, w: alpha * (g @ w.mT))
        left = self._layer(a) if a.dim() == 2 and b.dim() >= 2 else None
        if left is not None:
            return self._apply(b, left, a, lambda x: func(left.plain(a), x), lambda g, _, w: alpha * (w.mT @ g))
        return None

    # -- what lies between layers ------------------------------------------------------------------------------------

    def _relu(self, func: Operation, input: Tensor, inplace: bool = False) -> Tensor:
        self._relus_seen += input.requires_grad
        if not self._replaces_relus:
            return func(input, inplace) if inplace else func(input)
        in_place = inplace or func in _IN_PLACE
        result: Tensor = ReLUFunction.apply(input, self, in_place)  # type: ignore[no-untyped-call]
        return result

    def _batch_norm(
        self, func: Operation, input: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
        weight: Tensor | None = None, bias: Tensor | None = None, training: bool = False, momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Tensor:  # fmt: skip
        if training:
            raise PgigError(
                "a batch norm uses the statistics of the batch, so inputs would influence each other: "
                "call model.eval(), and keep track_running_stats on"
            )

        def run(x: Tensor) -> Tensor:
            return func(x, running_mean, running_var, weight, bias, training, momentum, eps)

        behind_layer = type(input.grad_fn).__name__ == "LayerFunctionBackward"
        if not (self._replaces_norms and behind_layer and running_var is not None):
            return run(input)
        factor = (running_var + eps).rsqrt() * (1 if weight is None else weight.detach())
        result: Tensor = NormFunction.apply(input, self, factor, run)  # type: ignore[no-untyped-call]
        return result

    def _dropout(
        self, func: Operation, input: Tensor, p: float = 0.5, training: bool = True, *args: Any, **kwargs: Any
    ) -> Tensor:
        if training and p > 0:
            raise PgigError("dropout is on, so the model is not a function of its input: call model.eval()")
        return func(input, p, training, *args, **kwargs)

    def _activation(self, func: Operation, *args: Any, **kwargs: Any) -> Tensor:
        self._left_alone.add(func.__name__.strip("_"))
        return func(*args, **kwargs)

    def _view(self, func: Operation, tensor: Tensor, *shape: Any, **kwargs: Any) -> Tensor:
        try:
            return func(tensor, *shape, **kwargs)
        except RuntimeError:
            if not self._channels_last:
                raise
            # the model counts on the contiguous layout that it would have without channels_last
            return func(tensor.contiguous(), *shape, **kwargs)


def _per_axis(value: Any, axes: int) -> tuple[int, ...]:
    values = (value,) if isinstance(value, int) else tuple(value)
    return values * axes if len(values) == 1 else values


def _explicit_padding(
    x: Tensor, padding: Any, kernel: torch.Size, dilation: tuple[int, ...]
) -> tuple[Tensor, tuple[int, ...]]:
    """Numbers for 'same' and 'valid'; an even kernel's odd cell of padding goes to the end of x, as torch does."""
    axes = len(kernel)
    if padding == "valid":
        return x, (0,) * axes
    if padding != "same":
        return x, _per_axis(padding, axes)
    total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    if any(t % 2 for t in total):
        x = F.pad(x, [cell for t in reversed(total) for cell in (0, t % 2)])
    return x, tuple(t // 2 for t in total)


_IN_PLACE = {torch.relu_, Tensor.relu_}
_ACTIVATIONS: tuple[Any, ...] = (
    F.leaky_relu, F.leaky_relu_, F.elu, F.elu_, F.gelu, F.silu, F.relu6, F.hardtanh, F.hardtanh_, F.hardswish,
    F.hardsigmoid, F.softplus, F.softsign, F.selu, F.selu_, F.celu, F.celu_, F.mish, F.prelu, F.rrelu, F.rrelu_,
    F.threshold, F.logsigmoid, F.sigmoid, F.tanh, F.glu, torch.sigmoid, torch.sigmoid_, Tensor.sigmoid,
    Tensor.sigmoid_, torch.tanh, torch.tanh_, Tensor.tanh, Tensor.tanh_, torch.selu, torch.celu, torch.prelu,
    Tensor.prelu,
)  # fmt: skip
_HANDLERS: dict[Any, Operation] = {
    **dict.fromkeys((torch.conv1d, torch.conv2d, torch.conv3d), RuleMode._convolution),
    **dict.fromkeys(
        (torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d), RuleMode._transposed_convolution
    ),
    F.linear: RuleMode._linear,
    **dict.fromkeys(
        (torch.matmul, torch.mm, Tensor.matmul, Tensor.mm, Tensor.__matmul__), RuleMode._matmul
    ),
    **dict.fromkeys((torch.addmm, Tensor.addmm), RuleMode._addmm),
    **dict.fromkeys((F.relu, F.relu_, torch.relu, torch.relu_, Tensor.relu, Tensor.relu_), RuleMode._relu),
    F.batch_norm: RuleMode._batch_norm,
    **dict.fromkeys(
        (F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout, torch.dropout),
        RuleMode._dropout,
    ),
    **dict.fromkeys(_ACTIVATIONS, RuleMode._activation),
    Tensor.view: RuleMode._view,
}  # fmt: skip
