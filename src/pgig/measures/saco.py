"""Do groups of patches that say more weigh more? The salience-guided faithfulness coefficient (Wu et al. 2024)."""

from dataclasses import dataclass, replace
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from pgig.degradation import PatchGrid, ranking
from pgig.degradation.fills import find_fill
from pgig.errors import PgigError
from pgig.measures.sets import drops, sums_over
from pgig.measures.setting import Attributions, Setting
from pgig.subject.context import Context
from pgig.subject.subject import Subject


@dataclass(frozen=True)
class SaCo:
    """Records are the coefficient, from -1 to 1.

    Patches are put into groups of equal size by rank. Every two groups count by the difference of their attributions:
    for the method where the one that says more also weighs more, against it otherwise.
    """

    patch: int = 9
    fill: str = "image_mean"
    groups: int = 10

    def __post_init__(self) -> None:
        if self.groups < 2:
            raise PgigError(f"saco needs at least two groups, got {self.groups}")
        find_fill(self.fill)

    def __call__(
        self, subject: Subject, x: Tensor, target: Tensor, attributions: Attributions, context: Context
    ) -> dict[str, NDArray[numpy.float64]]:
        setting = Setting.of(context)
        grid = PatchGrid(x.shape[2], x.shape[3], self.patch)
        if len(grid) < self.groups:
            raise PgigError(f"saco cannot put {len(grid)} patches into {self.groups} groups: take smaller patches")
        sums, evaluator = setting.sums_of(attributions, grid), setting.evaluator_for(subject)
        size = len(grid) // self.groups  # what is left over, in the middle of the ranking, is in no group
        found = {}
        groups = {
            name: self._groups(ranking(each, "descending", setting.names(x)), size) for name, each in sums.items()
        }
        fallen = drops(evaluator, x, target, torch.cat(list(groups.values()), 1), grid, self.fill)
        for number, (name, sets) in enumerate(groups.items()):
            own = fallen[:, number * self.groups : (number + 1) * self.groups]
            found[name] = coefficient(sums_over(sums[name], sets), own).numpy()[:, None]
        return found

    def _groups(self, order: Tensor, size: int) -> Tensor:  # [n, patches] -> [n, groups, size]
        upper = self.groups // 2
        lower = self.groups - upper
        kept = torch.cat([order[:, : upper * size], order[:, order.shape[1] - lower * size :]], 1)
        return kept.reshape(len(order), self.groups, size)

    def with_constants(self, **constants: Any) -> "SaCo":
        return replace(self, **constants)


def coefficient(said: Tensor, weighed: Tensor) -> Tensor:  # [n, groups] each -> [n]
    """Zero where all groups say the same."""
    gap = said[:, :, None] - said[:, None, :]
    agrees = torch.where(weighed[:, :, None] >= weighed[:, None, :], 1.0, -1.0)
    upper = torch.ones(said.shape[1], said.shape[1], dtype=torch.bool).triu(1)  # the one of higher rank first
    total = gap.abs()[:, upper].sum(1)
    return torch.where(total > 0, (gap * agrees)[:, upper].sum(1) / total.clamp(min=1e-300), 0.0)
