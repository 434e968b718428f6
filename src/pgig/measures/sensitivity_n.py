"""Sensitivity-n (Ancona et al. 2018): does a set's attribution go with how far the score falls without the set?"""

from dataclasses import dataclass, replace
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from pgig.degradation import PatchGrid
from pgig.degradation.fills import find_fill
from pgig.errors import PgigError
from pgig.measures.sets import correlation, drawn, drops, sums_over
from pgig.measures.setting import Attributions, Setting
from pgig.subject.context import Context
from pgig.subject.subject import Subject


@dataclass(frozen=True)
class SensitivityN:
    """Records are the mean correlation, then that of every size of sets."""

    patch: int = 9
    fill: str = "mean"
    sizes: int = 4
    largest: float = 0.8
    draws: int = 100

    def __post_init__(self) -> None:
        if self.sizes < 1 or self.draws < 3 or not 0 < self.largest < 1:
            raise PgigError("sensitivity_n needs at least one size, three draws, and a largest share between 0 and 1")
        find_fill(self.fill)

    def __call__(
        self, subject: Subject, x: Tensor, target: Tensor, attributions: Attributions, context: Context
    ) -> dict[str, NDArray[numpy.float64]]:
        setting = Setting.of(context)
        grid = PatchGrid(x.shape[2], x.shape[3], self.patch)
        sums, evaluator = setting.sums_of(attributions, grid), setting.evaluator_for(subject)

        def draw(size: int, rng: torch.Generator) -> Tensor:
            return torch.randperm(len(grid), generator=rng)[:size]

        found: dict[str, list[Tensor]] = {name: [] for name in sums}
        for size in self.set_sizes(len(grid)):
            sets = drawn(draw, size, self.draws, setting.names(x), setting.seed, "sensitivity_n")
            fallen = drops(evaluator, x, target, sets, grid, self.fill)
            for name, each in sums.items():
                found[name].append(correlation(sums_over(each, sets), fallen))
        return {name: _with_mean(torch.stack(values, 1)) for name, values in found.items()}

    def set_sizes(self, patches: int) -> list[int]:
        """From one patch to the largest share, in equal ratios."""
        most = max(1, round(self.largest * patches))
        return [
            round(most ** (number / max(1, self.sizes - 1))) if self.sizes > 1 else most for number in range(self.sizes)
        ]

    def with_constants(self, **constants: Any) -> "SensitivityN":
        return replace(self, **constants)


def _with_mean(values: Tensor) -> NDArray[numpy.float64]:
    return torch.cat([values.mean(1, keepdim=True), values], 1).numpy()
