"""Operations whose forward pass is the operation itself and whose backward pass obeys the active rule."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd import Function

from pgig.layers import Layer
from pgig.rules import Rule


class Active(Protocol):
    """Says which rule is active now. Held by the operations: backward may run on another thread."""

    rule: Rule


Run = Callable[[Tensor], Tensor]
Gradient = Callable[[Tensor, torch.Size, Tensor], Tensor]  # (gradient of the output, shape of x, weight)


class LayerFunction(Function):
    """A layer: linear in x, with the weight's stand-in under the active rule in its backward pass."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, active: Active, layer: Layer, used: Tensor, run: Run, gradient: Gradient
    ) -> Tensor:
        # x itself is not kept: a later in-place operation may overwrite it
        ctx.held = active, layer, used, gradient, x.shape
        return run(x)

    @staticmethod
    def backward(ctx: Any, arriving: Tensor) -> tuple[Tensor | None, ...]:
        active, layer, used, gradient, shape = ctx.held
        weight = layer.under(active.rule, used).to(arriving.dtype)
        return gradient(arriving, shape, weight), None, None, None, None, None


class ReLUFunction(Function):
    """A ReLU; in place where the model's is, so that aliases stay aliases."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, active: Active, in_place: bool) -> Tensor:
        ctx.active = active
        if in_place:
            ctx.mark_dirty(x)
        result = x.relu_() if in_place else x.relu()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, arriving: Tensor) -> tuple[Tensor | None, ...]:
        (result,) = ctx.saved_tensors
        change = ctx.active.rule.relu
        kept = arriving if change is None else change(arriving)
        return torch.ops.aten.threshold_backward(kept, result, 0), None, None


class NormFunction(Function):
    """A batch norm (eval) behind a layer: the factor gamma / sigma per channel, or nothing where the rule skips it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, active: Active, factor: Tensor, run: Run) -> Tensor:
        ctx.active = active
        ctx.save_for_backward(factor)
        return run(x)

    @staticmethod
    def backward(ctx: Any, arriving: Tensor) -> tuple[Tensor | None, ...]:
        (factor,) = ctx.saved_tensors
        if ctx.active.rule.skips_norm:
            return arriving, None, None, None
        return arriving * factor.reshape(1, -1, *[1] * (arriving.dim() - 2)), None, None, None


def _shaped_like_x(arriving: Tensor, shape: torch.Size) -> Tensor:
    """The gradient of x needs no x but its shape."""
    if arriving.device.type != "cpu":
        return arriving.new_empty(1).expand(shape)  # no memory
    # an expanded scalar would be made contiguous; memory that nobody touches costs a CPU nothing
    channels_last = arriving.dim() == 4 and arriving.is_contiguous(memory_format=torch.channels_last)
    memory_format = torch.channels_last if channels_last else torch.contiguous_format
    return torch.empty(shape, dtype=arriving.dtype, memory_format=memory_format)


def convolution_gradient(
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    transposed: bool = False,
    output_padding: Sequence[int] = (0,),
) -> Gradient:
    def gradient(arriving: Tensor, shape: torch.Size, weight: Tensor) -> Tensor:
        like_x = _shaped_like_x(arriving, shape)
        geometry = stride, padding, dilation, transposed, output_padding, groups
        result, _, _ = torch.ops.aten.convolution_backward(
            arriving, like_x, weight, None, *geometry, [True, False, False]
        )
        return torch.as_tensor(result)

    return gradient
