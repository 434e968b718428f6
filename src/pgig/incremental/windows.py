"""Operations on windows: from the values of their inputs in a window to their own values in a window.

Values are [e, channels, height, width], channels last in memory; e counts windows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy
import torch
import torch.nn.functional as F
from torch import Tensor

from pgig.incremental.reach import Places, Ranges, Reach, Same, Stencil

Pair = tuple[int, int]


@dataclass(frozen=True)
class Windows:
    """A window of the same size for each entry: where it starts, and its size, along both axes."""

    starts: tuple[Places, Places]
    size: Pair


class Operation(Protocol):
    margin: float  # what stands beyond the border of its inputs
    work: int  # multiply-adds for one place of the output, all channels

    @property
    def axes(self) -> tuple[Reach, Reach]: ...

    def compute(self, values: Sequence[Tensor], windows: Windows, needed: Windows) -> Tensor:
        """Outputs in `windows`, from inputs in `needed`."""
        ...


@dataclass
class Convolution:
    weight: Tensor
    bias: Tensor | None
    axes: tuple[Stencil, Stencil]
    groups: int = 1
    margin: float = 0.0

    def __post_init__(self) -> None:
        self.weight = self.weight.contiguous(memory_format=torch.channels_last)
        self.work = self.weight.numel()
        self._stride = self.axes[0].stride, self.axes[1].stride
        self._dilation = self.axes[0].dilation, self.axes[1].dilation

    def compute(self, values: Sequence[Tensor], windows: Windows, needed: Windows) -> Tensor:
        return F.conv2d(values[0], self.weight, self.bias, self._stride, 0, self._dilation, self.groups)

    def followed_by(self, scale: Tensor, shift: Tensor) -> "Convolution":
        """The same, with every channel of its output scaled and shifted."""
        bias = shift if self.bias is None else self.bias * scale + shift
        return Convolution(self.weight * scale[:, None, None, None], bias, self.axes, self.groups)


@dataclass
class MaxPool:
    axes: tuple[Stencil, Stencil]
    margin: float = -float("inf")
    work: int = 0

    def compute(self, values: Sequence[Tensor], windows: Windows, needed: Windows) -> Tensor:
        y, x = self.axes
        return F.max_pool2d(values[0], (y.kernel, x.kernel), (y.stride, x.stride), 0, (y.dilation, x.dilation))


class Linear:
    """Linear along both axes, one by one: average pooling, interpolation."""

    margin = 0.0
    work = 0

    def __init__(self, down: Tensor, across: Tensor) -> None:  # [places of the output, of the input] each
        self.axes: tuple[Ranges, Ranges] = Ranges(down.double().numpy()), Ranges(across.double().numpy())
        self._down, self._across = down, across

    def compute(self, values: Sequence[Tensor], windows: Windows, needed: Windows) -> Tensor:
        down, across = (
            _parts(matrix, windows.starts[axis], windows.size[axis], needed.starts[axis], needed.size[axis])
            for axis, matrix in enumerate((self._down.to(values[0]), self._across.to(values[0])))
        )
        rows = torch.einsum("eoi,ecix->ecox", down, values[0])
        return torch.einsum("epx,ecox->ecop", across, rows).contiguous(memory_format=torch.channels_last)


def _parts(matrix: Tensor, start: Places, width: int, start_before: Places, width_before: int) -> Tensor:
    """For every entry the part of a matrix that its windows meet, [e, width, width before]."""
    rows = torch.from_numpy(start)[:, None, None] + torch.arange(width)[:, None]
    columns = torch.from_numpy(start_before)[:, None, None] + torch.arange(width_before)
    return matrix[rows, columns]


@dataclass
class Pad:
    """A border of a constant."""

    axes: tuple[Stencil, Stencil]
    margin: float
    work: int = 0

    def compute(self, values: Sequence[Tensor], windows: Windows, needed: Windows) -> Tensor:
        return values[0].clone()


@dataclass
class Pointwise:
    """Any function of one or several inputs, place by place."""

    function: Callable[[Sequence[Tensor]], Tensor]
    axes: tuple[Same, Same]
    overwriting: Callable[[Sequence[Tensor]], Tensor] | None = None  # the same, in the memory of its input
    margin: float = 0.0
    work: int = 0

    def compute(self, values: Sequence[Tensor], windows: Windows, needed: Windows) -> Tensor:
        return self.function(values)


def linear_along_both_axes(function: Callable[[Tensor], Tensor], size: Pair) -> tuple[Tensor, Tensor]:
    """The two matrices of a function of maps that is linear along each axis by itself."""
    height, width = size
    whole = function(torch.ones(1, 1, height, width, dtype=torch.float64))[0, 0]
    place = numpy.unravel_index(int(whole.abs().argmax()), tuple(whole.shape))
    rows = torch.eye(height, dtype=torch.float64)[:, None, :, None].expand(-1, 1, -1, width)
    columns = torch.eye(width, dtype=torch.float64)[:, None, None, :].expand(-1, 1, height, -1)
    down = function(rows.contiguous())[:, 0, :, place[1]].T
    across = function(columns.contiguous())[:, 0, place[0], :].T
    return down.contiguous(), (across / whole[place]).contiguous()


def spread(size: int, stride: int) -> Tensor:
    """The matrix that puts places `stride` apart, with zeros between."""
    matrix = torch.zeros((size - 1) * stride + 1, size, dtype=torch.float64)
    matrix[torch.arange(size) * stride, torch.arange(size)] = 1
    return matrix


def called(target: Callable[..., Tensor], template: Sequence[Any], named: dict[str, Any]) -> Any:
    """A function of the values that stand in a template of arguments as `Slot`s."""

    def function(values: Sequence[Tensor]) -> Tensor:
        return target(
            *(_filled(part, values) for part in template), **{key: _filled(part, values) for key, part in named.items()}
        )

    return function


@dataclass(frozen=True)
class Slot:
    """The place of an input among the arguments of a call."""

    number: int


def _filled(part: Any, values: Sequence[Tensor]) -> Any:
    if isinstance(part, Slot):
        return values[part.number]
    return [_filled(one, values) for one in part] if isinstance(part, list) else part
