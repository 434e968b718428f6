"""Insertion and deletion (RISE, Petsiuk et al. 2018): units go until none is left, or come until the image is whole.

Insertion of an order is deletion of its reverse, seen from the other end.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from pgig.degradation import PatchGrid, ranking
from pgig.degradation.fills import find_fill
from pgig.errors import PgigError
from pgig.measures.degradation import Curves, all_curves
from pgig.measures.setting import Attributions, Setting, pixel_maps
from pgig.measures.superpixels import superpixels
from pgig.subject.context import Context
from pgig.subject.subject import Subject

Unit = Literal["patch", "pixel", "superpixel"]


@dataclass(frozen=True)
class ByUnits:
    """Records are the curves of every method: from the image to the filled one, or from the filled one to the image."""

    inserted: bool
    fill: str = "0"
    unit: Unit = "patch"
    across: int = 14
    segments: int = 100

    def __post_init__(self) -> None:
        if self.unit not in get_args(Unit):
            raise PgigError(f"unknown unit {self.unit!r}; choose one of: {', '.join(get_args(Unit))}")
        if self.across < 1 or self.segments < 2:
            raise PgigError("insertion and deletion need at least one patch across, and two segments")
        find_fill(self.fill)
        if self.unit != "patch" and self.fill == "mean":
            raise PgigError(f"fill=mean replaces a {self.unit}'s pixels by themselves: choose another fill")

    def __call__(
        self, subject: Subject, x: Tensor, target: Tensor, attributions: Attributions, context: Context
    ) -> Curves:
        setting = Setting.of(context)
        evaluator = setting.evaluator_for(subject)
        grid = self.grid(x)
        filled = torch.where(grid.mask(torch.ones(1, len(grid), dtype=torch.bool)), find_fill(self.fill)(x, grid), x)
        before, after = (filled, x) if self.inserted else (x, filled)
        if self.unit == "patch":
            orders = [
                ranking(sums, "descending", setting.names(x)) for sums in setting.sums_of(attributions, grid).values()
            ]
            found = evaluator.curves(before, after, torch.stack(orders, 1)[..., None], target, grid)
            return all_curves(found, attributions)
        labels = [superpixels(image.numpy(), self.segments) for image in x] if self.unit == "superpixel" else []
        when = torch.stack([self._when(maps, x, setting, labels) for maps in pixel_maps(attributions).values()], 1)
        steps = x.shape[2] if self.unit == "pixel" else self.segments
        found = evaluator.curves_by_pixel(before, after, when, steps, target)
        if labels:  # SLIC finds fewer than it was asked for
            found = torch.stack(
                [_stretched(of[:, : int(one.max()) + 2], steps) for of, one in zip(found, labels, strict=True)]
            )
        return all_curves(found, attributions)

    def grid(self, x: Tensor) -> PatchGrid:
        height, width = x.shape[2:]
        side = 1 if self.unit != "patch" else max(1, min(height, width) // self.across)
        return PatchGrid(height, width, side)

    def with_constants(self, **constants: Any) -> "ByUnits":
        return replace(self, **constants)

    def _when(
        self, maps: Tensor, x: Tensor, setting: Setting, labels: Sequence[NDArray[numpy.int64]]
    ) -> Tensor:  # [n, height, width] -> the same
        """The step at which each pixel goes."""
        if self.unit == "pixel":
            order = ranking(maps.flatten(1), "descending", setting.names(x))
            steps = torch.arange(order.shape[1]) // x.shape[3] + 1  # as many at a time as a row has
            return torch.empty_like(order).scatter_(1, order, steps.expand_as(order)).reshape(maps.shape)
        return torch.stack([_when_of(*one) for one in zip(maps, labels, strict=True)])


def _when_of(attribution: Tensor, pieces: NDArray[numpy.int64]) -> Tensor:
    """Superpixels by their mean, one at a step."""
    labels = torch.from_numpy(pieces).long()  # [height, width], from 0
    count = int(labels.max()) + 1
    sums = torch.zeros(count, dtype=torch.float64).scatter_add_(0, labels.flatten(), attribution.flatten())
    sizes = torch.bincount(labels.flatten(), minlength=count)
    order = ranking((sums / sizes)[None], "descending", [0])[0]
    return torch.empty_like(order).scatter_(0, order, torch.arange(1, count + 1))[labels]


def _stretched(curves: Tensor, steps: int) -> Tensor:  # [m, points] -> [m, steps + 1]
    """The same curves on more points, straight in between."""
    old, new = numpy.linspace(0, 1, curves.shape[1]), numpy.linspace(0, 1, steps + 1)
    return torch.from_numpy(numpy.stack([numpy.interp(new, old, curve) for curve in curves.numpy()]))


INSERTION: Callable[..., Any] = ByUnits(inserted=True, fill="rise")
DELETION: Callable[..., Any] = ByUnits(inserted=False)
