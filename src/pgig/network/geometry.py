"""Geometries: how a layer's weight meets its input, and what follows for gradients and for moments.

The canonical form of a weight is a matrix [units, fan_in]: one row per output unit, whatever its geometry.
"""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor


class Sums(NamedTuple):
    """Sums over samples: over all of them, and over those that each unit's mask lets through. In float64."""

    samples: int
    y: Tensor  # [units], over all
    active: Tensor  # [units], how many the mask lets through
    y_active: Tensor  # [units]
    x_active: Tensor  # [units, fan_in]
    xy_active: Tensor  # [units, fan_in]

    def grown(self, more: "Sums") -> "Sums":
        """These sums, written to, and more."""
        for mine, new in zip(self[1:], more[1:], strict=True):
            mine.add_(new.to(mine.device))
        return self._replace(samples=self.samples + more.samples)


class Geometry(Protocol):
    def output(self, x: Tensor, weight: Tensor) -> Tensor:
        """What the layer makes of x, without a bias."""
        ...

    def input_gradient(self, arriving: Tensor, shape: torch.Size, weight: Tensor) -> Tensor:
        """The gradient of x, from that of the output and the shape of x."""
        ...

    def canonical(self, weight: Tensor) -> Tensor:
        """A weight as [units, fan_in]."""
        ...

    def from_canonical(self, rows: Tensor, shape: torch.Size) -> Tensor:
        """The inverse of `canonical`."""
        ...

    def sums(self, x: Tensor, y: Tensor, mask: Tensor | None, shape: torch.Size) -> Sums:
        """The sums over a batch, where `mask` (shaped like y; None: all) says which samples count for which unit."""
        ...

    def per_unit(self, values: Tensor, output: Tensor) -> Tensor:
        """Values [units], shaped to broadcast with an output."""
        ...

    def unit_axis(self, axes: int) -> int | None:
        """Which of the output's axes counts the units, if any."""
        ...


def at_least_single(values: Tensor) -> Tensor:
    """Sums of half precision overflow."""
    return values.float() if values.element_size() < 4 else values
