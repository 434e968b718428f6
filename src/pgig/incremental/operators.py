"""From the operators of a graph to operations on windows."""

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, fx

from pgig.incremental.export import arguments_of
from pgig.incremental.reach import Same, Stencil
from pgig.incremental.windows import (
    Convolution,
    Linear,
    MaxPool,
    Operation,
    Pad,
    Pair,
    Pointwise,
    Slot,
    called,
    linear_along_both_axes,
    spread,
)

aten = torch.ops.aten
Arguments = dict[str, Any]
# arguments with tensors in place of constants, sizes of the map before and after -> what to do one after another
Builder = Callable[[Arguments, Pair, Pair], list[Operation] | None]

# they give what they were given
ALIASES = (
    aten.clone.default, aten.alias.default, aten.detach.default, aten.contiguous.default, aten.dropout.default,
    aten.feature_dropout.default, aten.lift_fresh_copy.default,
)  # fmt: skip
# of these with several outputs only the first counts
FIRST_OF = (
    aten._native_batch_norm_legit_no_training.default, aten.max_pool2d_with_indices.default,
    aten.adaptive_max_pool2d.default,
)  # fmt: skip
LAYERS = (
    aten.conv2d.default, aten.conv2d.padding, aten.convolution.default, aten.conv_transpose2d.input,
    aten.linear.default,
)  # fmt: skip
NORMS = aten._native_batch_norm_legit_no_training.default, aten.batch_norm.default
# elementwise, but not marked so
_UNMARKED = (
    *(
        getattr(aten, name).default
        for name in (
            "hardswish", "hardsigmoid", "hardtanh", "leaky_relu", "elu", "selu", "celu", "softplus", "mish", "prelu",
            "log_sigmoid", "threshold", "hardshrink", "softshrink", "relu6", "gelu", "silu", "_to_copy",
        )
        if hasattr(aten, name)
    ),
    aten.__and__.Tensor, aten.__or__.Tensor, aten.__xor__.Tensor,
)  # fmt: skip


def is_pointwise(target: Any) -> bool:
    tags = getattr(target, "tags", ())
    random = torch.Tag.nondeterministic_seeded in tags
    return target in _UNMARKED or (torch.Tag.pointwise in tags and not random)


def affine_of(node: fx.Node, constants: Mapping[fx.Node, Tensor]) -> tuple[Tensor, Tensor] | None:
    """Scale and shift of a batch norm in evaluation."""
    found = arguments_of(node)
    mean, variance = constants.get(found["running_mean"]), constants.get(found["running_var"])
    if mean is None or variance is None or found.get("training"):
        return None
    scale = torch.rsqrt(variance.double() + found["eps"])
    if found["weight"] is not None:
        scale = scale * constants[found["weight"]].double()
    shift = -mean.double() * scale
    if found["bias"] is not None:
        shift = shift + constants[found["bias"]].double()
    return scale.to(mean.dtype), shift.to(mean.dtype)


def affine(scale: Tensor, shift: Tensor, size: Pair) -> Pointwise:
    scale, shift = scale[:, None, None], shift[:, None, None]
    return Pointwise(lambda values: torch.addcmul(shift, values[0], scale), (Same(size[0]), Same(size[1])))


def pointwise(
    node: fx.Node, slots: Mapping[fx.Node, int], constants: Mapping[fx.Node, Tensor], size: Pair
) -> Pointwise:
    """Any elementwise operator, and concatenation of channels."""

    def part(value: Any) -> Any:
        if isinstance(value, fx.Node):
            return Slot(slots[value]) if value in slots else constants[value]
        return [part(one) for one in value] if isinstance(value, list | tuple) else value

    axes = Same(size[0]), Same(size[1])
    if node.target is aten.relu.default:
        return Pointwise(lambda values: torch.relu(values[0]), axes, lambda values: torch.relu_(values[0]))
    function = called(node.target, [part(a) for a in node.args], {k: part(v) for k, v in node.kwargs.items()})  # type: ignore[arg-type]
    return Pointwise(function, axes)


def _convolution(given: Arguments, before: Pair, after: Pair) -> list[Operation] | None:
    weight = given["weight"]
    if weight.dim() != 4:
        return None
    if given.get("transposed"):
        return _transposed(given, before, after)
    stride, dilation = _pair(given["stride"]), _pair(given["dilation"])
    kernel: Pair = (weight.shape[2], weight.shape[3])
    padding = given["padding"]
    if isinstance(padding, str):  # "same" has the odd one behind
        same = int(padding == "same")
        paddings = same * (dilation[0] * (kernel[0] - 1) // 2), same * (dilation[1] * (kernel[1] - 1) // 2)
    else:
        paddings = _pair(padding)
    axes = _stencils(before, after, kernel, stride, paddings, dilation)
    return [Convolution(weight, given["bias"], axes, given["groups"])]


def _transposed(given: Arguments, before: Pair, after: Pair) -> list[Operation] | None:
    """Places put apart with zeros between, and a convolution with the weights turned round."""
    weight, groups = given["weight"], given["groups"]
    stride, padding, dilation = (_pair(given[key]) for key in ("stride", "padding", "dilation"))
    inputs, outputs, *kernel = weight.shape
    turned = weight.reshape(groups, inputs // groups, outputs, *kernel).transpose(1, 2).flip(3, 4)
    turned = turned.reshape(groups * outputs, inputs // groups, *kernel)
    between: Pair = ((before[0] - 1) * stride[0] + 1, (before[1] - 1) * stride[1] + 1)
    own: Pair = (
        dilation[0] * (kernel[0] - 1) - padding[0],
        dilation[1] * (kernel[1] - 1) - padding[1],
    )
    axes = _stencils(between, after, (kernel[0], kernel[1]), (1, 1), own, dilation)
    apart = Linear(spread(before[0], stride[0]), spread(before[1], stride[1]))
    return [apart, Convolution(turned, given["bias"], axes, groups)]


def _max_pool(given: Arguments, before: Pair, after: Pair) -> list[Operation]:
    kernel = _pair(given["kernel_size"])
    stride = _pair(given["stride"]) if given["stride"] else kernel
    axes = _stencils(before, after, kernel, stride, _pair(given["padding"]), _pair(given["dilation"]))
    return [MaxPool(axes)]


def _adaptive_max_pool(given: Arguments, before: Pair, after: Pair) -> list[Operation] | None:
    """Where it divides the map, max pooling; a global one leaves nothing local."""
    if any(a % b for a, b in zip(before, after, strict=True)) or (1 in after and max(before) > 1):
        return None
    kernel: Pair = (before[0] // after[0], before[1] // after[1])
    return [MaxPool(_stencils(before, after, kernel, kernel, (0, 0), (1, 1)))]


def _linear(target: Any, name: str) -> Builder:
    """Operators that are linear along both axes; their matrices are found by trying them out."""

    def builder(given: Arguments, before: Pair, after: Pair) -> list[Operation] | None:
        if 1 in after and max(before) > 1:  # a global pool: nothing is local behind it
            return None
        others = {key: value for key, value in given.items() if key != name}
        matrices = linear_along_both_axes(lambda x: target(x, **others), before)
        if all(torch.equal(matrix, torch.eye(*matrix.shape, dtype=matrix.dtype)) for matrix in matrices):
            return []
        return [Linear(*matrices)]

    return builder


def _pad(given: Arguments, before: Pair, after: Pair) -> list[Operation] | None:
    amounts = list(given["pad"])
    if given.get("mode", "constant") != "constant" or len(amounts) > 4:
        return None
    left, _, top, _ = [*amounts, 0, 0, 0, 0][:4]
    value = float(given["value"] or 0)
    return [Pad(_stencils(before, after, (1, 1), (1, 1), (top, left), (1, 1)), value)]


def _stencils(
    before: Pair, after: Pair, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair
) -> tuple[Stencil, Stencil]:
    down, across = (
        Stencil(before[axis], after[axis], kernel[axis], stride[axis], padding[axis], dilation[axis])
        for axis in (0, 1)
    )  # fmt: skip
    return down, across


def _pair(value: Any) -> Pair:
    values = [value] if isinstance(value, int) else list(value)
    return (values[0], values[-1])


def _builders() -> dict[Any, Builder]:
    found: dict[Any, Builder] = {
        aten.conv2d.default: _convolution,
        aten.conv2d.padding: _convolution,
        aten.convolution.default: _convolution,
        aten.conv_transpose2d.input: _transposed,
        aten.max_pool2d.default: _max_pool,
        aten.max_pool2d_with_indices.default: _max_pool,
        aten.adaptive_max_pool2d.default: _adaptive_max_pool,
        aten.constant_pad_nd.default: _pad,
        aten.pad.default: _pad,
    }
    for name in ("avg_pool2d", "adaptive_avg_pool2d", "_adaptive_avg_pool2d"):
        target = getattr(aten, name).default
        found[target] = _linear(target, "self")
    for name in ("nearest", "nearest_exact", "bilinear", "bicubic"):
        operators = getattr(aten, {"nearest_exact": "_upsample_nearest_exact"}.get(name, f"upsample_{name}") + "2d")
        found[operators.vec] = _linear(operators.vec, "input")
        found[operators.default] = _linear(operators.default, "self")
    return found


BUILDERS: Mapping[Any, Builder] = _builders()


def is_first_output(node: fx.Node) -> bool:
    """Is it the first output of an operator that has several?"""
    return node.target is operator.getitem and node.args[1:] == (0,)
