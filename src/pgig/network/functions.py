"""Operations whose forward pass is the operation itself and whose backward pass obeys the active rule."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor
from torch.autograd import Function

from pgig.methods.rules import Rule
from pgig.network.geometry import Geometry
from pgig.network.layer_calls import LayerCall


class Active(Protocol):
    """Says which rule is active now. Held by the operations: backward may run on another thread."""

    rule: Rule
    keeps_input: bool  # will a rule ask for what layers were given?

    def note_layer(self) -> None: ...


@dataclass(frozen=True)
class LayerVisit:
    """See `Visit`."""

    x: Tensor
    weight: Tensor
    arriving: Tensor
    geometry: Geometry

    def output(self, weight: Tensor) -> Tensor:
        return self.geometry.output(self.x, weight)

    def gradient(self, arriving: Tensor, weight: Tensor) -> Tensor:
        return self.geometry.input_gradient(arriving, self.x.shape, weight)


class LayerFunction(Function):
    """A layer: linear in x, with the weight's stand-in under the active rule in its backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, active: Active, call: LayerCall) -> Tensor:
        # x itself is not kept: a later in-place operation may overwrite it
        kept = x.detach().clone() if active.keeps_input else None
        ctx.held = active, call.layer, call.used, call.geometry, x.shape, kept
        return call.run(x)

    @staticmethod
    def backward(ctx: Any, arriving: Tensor) -> tuple[Tensor | None, ...]:
        active, layer, used, geometry, shape, kept = ctx.held
        active.note_layer()
        weight = layer.under(active.rule, used).to(arriving.dtype)
        if active.rule.layer is not None:
            return active.rule.layer(LayerVisit(kept, weight, arriving, geometry)), None, None
        return geometry.input_gradient(arriving, shape, weight), None, None


class JoinFunction(Function):
    """A sum of two branches; under patterns, each is sent its share of what arrives."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, active: Active, pattern: Tensor, in_place: bool) -> Tensor:
        ctx.active, ctx.pattern = active, pattern
        if in_place:
            ctx.mark_dirty(a)
        return a.add_(b) if in_place else a + b

    @staticmethod
    def backward(ctx: Any, arriving: Tensor) -> tuple[Tensor | None, ...]:
        if not ctx.active.rule.needs_patterns:
            return arriving, arriving, None, None, None
        first, second = ctx.pattern
        return arriving * first, arriving * second, None, None, None


class NormFunction(Function):
    """A batch norm (eval): the factor gamma / sigma per channel; behind a layer, nothing where the rule skips it.

    Torch's own backward pass misreads some strides: of a single row behind views, and where the gradient and the input
    are laid out differently.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, active: Active, factor: Tensor, run: Callable[[Tensor], Tensor], skips: bool
    ) -> Tensor:
        ctx.active, ctx.skips = active, skips
        ctx.save_for_backward(factor)
        return run(x)

    @staticmethod
    def backward(ctx: Any, arriving: Tensor) -> tuple[Tensor | None, ...]:
        (factor,) = ctx.saved_tensors
        if ctx.skips and ctx.active.rule.skips_norm:
            return arriving, None, None, None, None
        sent = arriving * factor.reshape(1, -1, *[1] * (arriving.dim() - 2))
        return sent.to(arriving.dtype), None, None, None, None


def behind_layer(input: Tensor) -> bool:
    """Did a layer compute `input`, or what it is a copy or a max pool of, with its units along axis 1?"""
    node: Any = input.grad_fn
    while node is not None and node.name() in _BY_CHANNEL:
        node = node.next_functions[0][0]
    if type(node).__name__ != "LayerFunctionBackward":
        return False
    geometry = node.held[3]
    return bool(geometry.unit_axis(input.dim()) == 1)


# the nodes of BY_CHANNEL in torch_ops
_BY_CHANNEL = {
    "CloneBackward0", "ToCopyBackward0", "MaxPool2DWithIndicesBackward0", "MaxPool3DWithIndicesBackward0",
    "AdaptiveMaxPool2DBackward0", "AdaptiveMaxPool3DBackward0", "ConstantPadNdBackward0",
    "ReflectionPad2DBackward0", "ReflectionPad3DBackward0", "ReplicationPad2DBackward0", "ReplicationPad3DBackward0",
}  # fmt: skip
