"""The grid of patches on an image."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from pgig.errors import PgigError


@dataclass(frozen=True)
class PatchGrid:
    """Square patches from the top left corner on, row by row. What is left at the right and the bottom has no patch.

    height, width: of the images; patch: the side. Raises PgigError where no patch fits.

    >>> pgig.degradation.PatchGrid(64, 64, 8).sums(torch.ones(1, 3, 64, 64)).shape
    torch.Size([1, 64])
    """

    height: int
    width: int
    patch: int = 9

    def __post_init__(self) -> None:
        if not 1 <= self.patch <= min(self.height, self.width):
            raise PgigError(f"patches of {self.patch} pixels do not fit images of {self.height} x {self.width}")

    @property
    def rows(self) -> int:
        """Of patches."""
        return self.height // self.patch

    @property
    def columns(self) -> int:
        """Of patches."""
        return self.width // self.patch

    def __len__(self) -> int:
        return self.rows * self.columns

    @property
    def border(self) -> tuple[int, int]:
        """Rows at the bottom and columns at the right that belong to no patch, and are never replaced."""
        return self.height - self.rows * self.patch, self.width - self.columns * self.patch

    def place(self, index: int) -> tuple[slice, slice]:
        """The rows and columns of a patch."""
        row, column = divmod(index, self.columns)
        top, left = row * self.patch, column * self.patch
        return slice(top, top + self.patch), slice(left, left + self.patch)

    def sums(self, attributions: Tensor) -> Tensor:  # [n, channels, height, width] -> [n, patches], float64
        """Attributions summed over channels and patches."""
        self._check(attributions)
        return self._means(attributions.double().sum(1, keepdim=True)).flatten(1) * self.patch**2

    def means(self, x: Tensor) -> Tensor:  # like x
        """Every patch's own mean in each channel, in its place; the border as it is."""
        self._check(x)
        spread = self._means(x).repeat_interleave(self.patch, 2).repeat_interleave(self.patch, 3)
        result = x.clone()
        result[:, :, : self.rows * self.patch, : self.columns * self.patch] = spread
        return result

    def mask(self, chosen: Tensor) -> Tensor:  # [n, patches] bool -> [n, 1, height, width] bool
        """The pixels of the patches chosen."""
        spread = chosen.reshape(-1, 1, self.rows, self.columns)
        spread = spread.repeat_interleave(self.patch, 2).repeat_interleave(self.patch, 3)
        return F.pad(spread, (0, self.border[1], 0, self.border[0]))

    def _means(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(x, self.patch)

    def _check(self, x: Tensor) -> None:
        if x.dim() != 4 or x.shape[2:] != torch.Size((self.height, self.width)):
            raise PgigError(f"expected [n, channels, {self.height}, {self.width}], got shape {tuple(x.shape)}")
