"""Geometries: how a layer's weight meets its input, and what follows for gradients."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Geometry(Protocol):
    def input_gradient(self, arriving: Tensor, shape: torch.Size, weight: Tensor) -> Tensor:
        """The gradient of x, from that of the output and the shape of x."""
        ...


@dataclass(frozen=True)
class Convolution:
    """A convolution, or a transposed one, over any number of axes."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    transposed: bool
    output_padding: tuple[int, ...]

    def input_gradient(self, arriving: Tensor, shape: torch.Size, weight: Tensor) -> Tensor:
        like_x = _shaped_like_x(arriving, shape)
        result, _, _ = torch.ops.aten.convolution_backward(
            arriving, like_x, weight, None, *self._settings, [True, False, False]
        )
        return torch.as_tensor(result)

    @property
    def _settings(self) -> tuple[object, ...]:
        return self.stride, self.padding, self.dilation, self.transposed, self.output_padding, self.groups


@dataclass(frozen=True)
class Product:
    """A matrix product with the weight on the right (`x @ w`), on the left (`w @ x`) or transposed (`linear`)."""

    side: str
    factor: float = 1

    def input_gradient(self, arriving: Tensor, shape: torch.Size, weight: Tensor) -> Tensor:
        match self.side:
            case "linear":
                return arriving @ weight
            case "right":
                result = arriving @ weight.mT
            case _:
                result = weight.mT @ arriving
        return result if self.factor == 1 else self.factor * result


def _shaped_like_x(arriving: Tensor, shape: torch.Size) -> Tensor:
    """The gradient of x needs no x but its shape."""
    if arriving.device.type != "cpu":
        return arriving.new_empty(1).expand(shape)  # no memory
    # an expanded scalar would be made contiguous; memory that nobody touches costs a CPU nothing
    channels_last = arriving.dim() == 4 and arriving.is_contiguous(memory_format=torch.channels_last)
    memory_format = torch.channels_last if channels_last else torch.contiguous_format
    return torch.empty(shape, dtype=arriving.dtype, memory_format=memory_format)
