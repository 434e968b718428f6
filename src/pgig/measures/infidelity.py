"""Infidelity (Yeh et al. 2019): how badly attributions predict what removing squares does to the score."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from pgig.degradation import PatchGrid
from pgig.degradation.fills import find_fill
from pgig.errors import PgigError
from pgig.measures.sets import drawn, drops, sums_over
from pgig.measures.setting import Attributions, Setting
from pgig.subject.context import Context
from pgig.subject.subject import Subject

Product = Literal["set", "input"]


@dataclass(frozen=True)
class Infidelity:
    """Records are the mean squared error with the attribution scaled as suits it best, and as it is.

    product: what an attribution predicts for a square that is removed. `set`, its sum there: for attributions that
    have the input in them. `input`, its product with the change of the input: for those that are gradients.
    """

    patch: int = 9
    fill: str = "mean"
    side: int = 4
    draws: int = 100
    product: Product = "set"

    def __post_init__(self) -> None:
        if self.product not in get_args(Product):
            raise PgigError(f"unknown product {self.product!r}; choose one of: {', '.join(get_args(Product))}")
        if self.side < 1 or self.draws < self.side:
            raise PgigError("infidelity needs squares of at least one patch, and a draw for each size of them")
        find_fill(self.fill)

    def __call__(
        self, subject: Subject, x: Tensor, target: Tensor, attributions: Attributions, context: Context
    ) -> dict[str, NDArray[numpy.float64]]:
        setting = Setting.of(context)
        grid = PatchGrid(x.shape[2], x.shape[3], self.patch)
        sums, evaluator = self._sums(x, attributions, grid, setting), setting.evaluator_for(subject)
        predicted: dict[str, list[Tensor]] = {name: [] for name in sums}
        fallen = []
        for number, side in enumerate(self.sides(grid)):
            count = (self.draws + number) // self.side  # all sizes alike, the larger get what is left
            sets = drawn(partial(square, grid), side, count, setting.names(x), setting.seed, "infidelity")
            fallen.append(drops(evaluator, x, target, sets, grid, self.fill))
            for name, each in sums.items():
                predicted[name].append(sums_over(each, sets))
        all_fallen = torch.cat(fallen, 1)
        return {name: errors(torch.cat(parts, 1), all_fallen).numpy() for name, parts in predicted.items()}

    def sides(self, grid: PatchGrid) -> list[int]:
        """In patches, no larger than the grid."""
        return [min(side, grid.rows, grid.columns) for side in range(1, self.side + 1)]

    def with_constants(self, **constants: Any) -> "Infidelity":
        return replace(self, **constants)

    def _sums(self, x: Tensor, attributions: Attributions, grid: PatchGrid, setting: Setting) -> dict[str, Tensor]:
        if self.product == "set":
            return setting.sums_of(attributions, grid)
        change = x - find_fill(self.fill)(x, grid)
        return {name: grid.sums(attribution * change) for name, attribution in attributions.items()}


def square(grid: PatchGrid, side: int, rng: torch.Generator) -> Tensor:
    """The patches of a square somewhere on the grid."""
    top = int(torch.randint(grid.rows - side + 1, (1,), generator=rng))
    left = int(torch.randint(grid.columns - side + 1, (1,), generator=rng))
    down, across = torch.arange(top, top + side), torch.arange(left, left + side)
    return (down[:, None] * grid.columns + across).flatten()


def errors(predicted: Tensor, fallen: Tensor) -> Tensor:  # [n, draws] each -> [n, 2]
    """Scaled by the factor with the least error, none below zero; and as it is."""
    size = (predicted**2).sum(1)
    along = (predicted * fallen).sum(1).clamp(min=0)  # no factor makes up for the wrong sign
    factor = torch.where(size > 0, along / size.clamp(min=torch.finfo(size.dtype).tiny), 0.0)
    scaled = (factor[:, None] * predicted - fallen) ** 2
    return torch.stack([scaled.mean(1), ((predicted - fallen) ** 2).mean(1)], 1)
