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
    return _under_gaussian(x, grid.patch, 3 * grid.patch)


@dataclass(frozen=True)
class Blurred:
    """The image under a Gaussian of so many pixels, cut off at as many."""

    sigma: int

    def __call__(self, x: Tensor, grid: PatchGrid) -> Tensor:
        return _under_gaussian(x, self.sigma, self.sigma)


def rise(x: Tensor, grid: PatchGrid) -> Tensor:
    """RISE's own blur: a Gaussian of 5 pixels reflected into 11, which makes it almost even; black beyond the image.

    Black is zero here as there: what the model takes is normalised.
    """
    reach, sigma, far = 5, 5, 20  # SciPy's gaussian_filter(a point of 11 x 11, 5), which ends at four times its sigma
    offsets = torch.arange(-far, far + 1, dtype=torch.float64)
    bell = torch.exp(-0.5 * (offsets / sigma) ** 2)
    side = 2 * reach + 1
    place = (reach + offsets.long()) % (2 * side)  # reflection at the edges, which repeats after two sides
    inside = torch.where(place < side, place, 2 * side - 1 - place)
    kernel = torch.zeros(side, dtype=torch.float64).index_add_(0, inside, bell / bell.sum()).to(x)
    channels = x.shape[1]
    across = kernel.reshape(1, 1, 1, -1).expand(channels, 1, 1, -1)
    found = F.conv2d(x, across, padding=(0, reach), groups=channels)
    return F.conv2d(found, across.transpose(2, 3), padding=(reach, 0), groups=channels)


def _under_gaussian(x: Tensor, sigma: int, reach: int) -> Tensor:
    reach = min(reach, x.shape[2] - 1, x.shape[3] - 1)
    bell = torch.exp(-0.5 * (torch.arange(-reach, reach + 1, device=x.device) / sigma) ** 2)
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


_WIDEST = 1000  # pixels of a blur
FILLS: Mapping[str, Fill] = {
    "mean": patch_mean,
    "image_mean": image_mean,
    "blur": blurred,
    "rise": rise,
    "road": imputed,
}


def find_fill(name: str) -> Fill:
    """A fill by name; a number is a constant, `blur=5` a blur by so many pixels."""
    if name in FILLS:
        return FILLS[name]
    word, _, pixels = name.partition("=")
    if word == "blur" and pixels.isdecimal() and 1 <= int(pixels) <= _WIDEST:
        return Blurred(int(pixels))
    try:
        value = float(name)
    except ValueError:
        raise PgigError(f"unknown fill {name!r}; choose one of {', '.join(FILLS)}, blur=PIXELS, or a number") from None
    if not abs(value) <= torch.finfo(torch.float32).max:
        raise PgigError(f"a constant fill must be finite, also in float32, got {name}")
    return Constant(value)
