"""Fills: what replaces a patch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from pgig.degradation.grid import PatchGrid
from pgig.degradation.imputation import imputed
from pgig.errors import PgigError

# an image [n, channels, height, width] and the grid -> what stands in each patch once it is replaced, shaped like it
Fill = Callable[[Tensor, PatchGrid], Tensor]


def patch_mean(x: Tensor, grid: PatchGrid) -> Tensor:
    """The patch's own mean in each channel: the paper's."""
    return grid.means(x)


def image_mean(x: Tensor, grid: PatchGrid) -> Tensor:
    return x.mean((2, 3), keepdim=True).expand_as(x)


def blurred(x: Tensor, grid: PatchGrid) -> Tensor:
    """The image under a Gaussian as wide as a patch."""
    reach = min(3 * grid.patch, grid.height - 1, grid.width - 1)
    bell = torch.exp(-0.5 * (torch.arange(-reach, reach + 1, device=x.device) / grid.patch) ** 2)
    bell = (bell / bell.sum()).to(x.dtype)
    channels = x.shape[1]
    across = bell.reshape(1, 1, 1, -1).expand(channels, 1, 1, -1)
    padded = F.pad(x, (reach, reach, reach, reach), mode="reflect")
    return F.conv2d(F.conv2d(padded, across, groups=channels), across.transpose(2, 3), groups=channels)


@dataclass(frozen=True)
class Constant:
    """One number everywhere, in the model's normalised values."""

    value: float

    def __call__(self, x: Tensor, grid: PatchGrid) -> Tensor:
        return torch.full_like(x, self.value)


@dataclass(frozen=True)
class PositiveChannels:
    """Only channels whose mean in the patch is above zero are replaced, as the authors' released code does."""

    fill: Fill

    def __call__(self, x: Tensor, grid: PatchGrid) -> Tensor:
        return torch.where(grid.means(x) > 0, self.fill(x, grid), x)


FILLS: Mapping[str, Fill] = {"mean": patch_mean, "image_mean": image_mean, "blur": blurred, "road": imputed}


def find_fill(name: str) -> Fill:
    """A fill by name; a number is a constant."""
    if name in FILLS:
        return FILLS[name]
    try:
        value = float(name)
    except ValueError:
        raise PgigError(f"unknown fill {name!r}; choose one of {', '.join(FILLS)}, or a number") from None
    if not abs(value) <= torch.finfo(torch.float32).max:
        raise PgigError(f"a constant fill must be finite, also in float32, got {name}")
    return Constant(value)
