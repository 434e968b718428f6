"""Calls of layers: what the model's Python called, read as a layer with its input and geometry."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pgig.network.convolution import Convolution
from pgig.network.geometry import Geometry
from pgig.network.layers import Layer
from pgig.network.product import Product

Operation = Callable[..., Tensor]
Find = Callable[[object], Layer | None]


@dataclass(frozen=True)
class LayerCall:
    layer: Layer
    x: Tensor  # with a batch axis, and padded where the padding is uneven
    used: Tensor  # the weight as the operation got it: a parameter, or a view of one
    geometry: Geometry
    run: Callable[[Tensor], Tensor]  # the operation itself, as a function of x
    bias: Tensor | None = None  # [units]
    single: bool = False  # was x given without a batch axis?
    added: Tensor | None = None  # what is added behind, where it depends on the input of the model too

    def as_given(self, output: Tensor) -> Tensor:
        output = output[0] if self.single else output
        return output if self.added is None else output + self.added


def read_layer_call(func: Operation, args: tuple[Any, ...], kwargs: Mapping[str, Any], find: Find) -> LayerCall | None:
    """The call as a layer's, if `func` is an operation of layers and `find` knows the weight."""
    reader = _READERS.get(func)
    return None if reader is None else reader(func, find, *args, **kwargs)


def _convolution(
    func: Operation, find: Find, input: Tensor, weight: Tensor, bias: Any = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> LayerCall | None:  # fmt: skip
    layer = find(weight)
    if layer is None:
        return None
    axes = weight.dim() - 2
    stride, dilation = _per_axis(stride, axes), _per_axis(dilation, axes)
    x, padding = _explicit_padding(input, padding, weight.shape[2:], dilation)
    bias, added = _split(bias, axes)
    geometry = Convolution(stride, padding, dilation, groups, False, (0,) * axes)

    def run(x: Tensor) -> Tensor:
        return func(x, layer.plain(weight), bias, stride, padding, dilation, groups)

    return _batched(layer, x, weight, geometry, run, bias, added)


def _transposed_convolution(
    func: Operation, find: Find, input: Tensor, weight: Tensor, bias: Any = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> LayerCall | None:  # fmt: skip
    layer = find(weight)
    if layer is None:
        return None
    axes = weight.dim() - 2
    stride, padding, dilation = (_per_axis(value, axes) for value in (stride, padding, dilation))
    output_padding = _per_axis(output_padding, axes)
    geometry = Convolution(stride, padding, dilation, groups, True, output_padding)
    bias, added = _split(bias, axes)

    def run(x: Tensor) -> Tensor:
        return func(x, layer.plain(weight), bias, stride, padding, output_padding, groups, dilation)

    return _batched(layer, input, weight, geometry, run, bias, added)


def _batched(
    layer: Layer, x: Tensor, weight: Tensor, geometry: Convolution, run: Callable[[Tensor], Tensor],
    bias: Tensor | None, added: Tensor | None,
) -> LayerCall:  # fmt: skip
    single = x.dim() == weight.dim() - 1  # torch takes a single image too
    return LayerCall(layer, x[None] if single else x, weight, geometry, run, bias, single, added)


def _split(bias: Tensor | None, axes: int = 0) -> tuple[Tensor | None, Tensor | None]:
    """A bias that depends on the model's input is no part of the layer: its own gradient must flow."""
    if bias is None or not bias.requires_grad or bias.is_leaf:
        return bias, None
    return None, bias.reshape(*bias.shape, *[1] * axes)


def _linear(func: Operation, find: Find, input: Tensor, weight: Tensor, bias: Any = None) -> LayerCall | None:
    layer = find(weight)
    if layer is None:
        return None
    bias, added = _split(bias)
    geometry = Product("linear" if weight.dim() == 2 else "vector")
    return LayerCall(layer, input, weight, geometry, lambda x: func(x, layer.plain(weight), bias), bias, added=added)


def _matmul(func: Operation, find: Find, input: Tensor, other: Any = None, **named: Any) -> LayerCall | None:
    for name in ("other", "mat2", "vec"):  # as torch.matmul, torch.mm and torch.mv call it
        other = named.pop(name, other)
    return _product(func, find, input, other) if not named and isinstance(other, Tensor) else None


def _inner(func: Operation, find: Find, input: Tensor, other: Tensor) -> LayerCall | None:
    """The product over the last axis of both, as a linear layer's."""
    layer = find(other) if other.dim() == 2 and input.dim() >= 2 else None
    if layer is None:
        return None
    return LayerCall(layer, input, other, Product("linear"), lambda x: func(x, layer.plain(other)))


def _addmm(func: Operation, find: Find, input: Tensor, mat1: Tensor, mat2: Tensor, **scales: Any) -> LayerCall | None:
    if input.requires_grad and not input.is_leaf:
        call = _product(torch.mm, find, mat1, mat2)
        if call is None:
            return None
        alpha, run = scales.get("alpha", 1), call.run
        geometry = Product(call.geometry.side, alpha)  # type: ignore[attr-defined]
        return replace(call, geometry=geometry, run=lambda x: alpha * run(x), added=scales.get("beta", 1) * input)
    return _product(lambda a, b: func(input, a, b, **scales), find, mat1, mat2, scales.get("alpha", 1))


def _product(func: Operation, find: Find, a: Tensor, b: Tensor, factor: float = 1) -> LayerCall | None:
    """The product where one factor is a weight, a matrix or a vector."""
    right = find(b) if a.dim() >= 2 and b.dim() in (1, 2) else None
    if right is not None:
        geometry = Product("right" if b.dim() == 2 else "vector", factor)
        return LayerCall(right, a, b, geometry, lambda x: func(x, right.plain(b)))
    left = find(a) if a.dim() == 2 and b.dim() >= 2 else None
    if left is not None:
        return LayerCall(left, b, a, Product("left", factor), lambda x: func(left.plain(a), x))
    return None


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


_READERS: dict[Any, Callable[..., LayerCall | None]] = {
    **dict.fromkeys((torch.conv1d, torch.conv2d, torch.conv3d), _convolution),
    **dict.fromkeys((torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d), _transposed_convolution),
    F.linear: _linear,
    **dict.fromkeys(
        (torch.matmul, torch.mm, torch.mv, Tensor.matmul, Tensor.mm, Tensor.mv, Tensor.__matmul__, torch.linalg.matmul),
        _matmul,
    ),
    **dict.fromkeys((torch.inner, Tensor.inner), _inner),
    **dict.fromkeys((torch.addmm, Tensor.addmm), _addmm),
}
LAYER_OPERATIONS = frozenset(_READERS)
