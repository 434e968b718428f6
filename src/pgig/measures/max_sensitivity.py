"""Max-sensitivity (Yeh et al. 2019): how far an attribution moves at most under a little noise of the input."""

from dataclasses import dataclass, replace
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from pgig.draws import draws
from pgig.errors import PgigError
from pgig.measures.setting import Attributions, Setting
from pgig.subject.context import Context
from pgig.subject.subject import Subject


@dataclass(frozen=True)
class MaxSensitivity:
    """Records are the largest change, as a share of the attribution's own norm.

    The class stays, and so do a method's own random draws: what moves is the attribution alone.
    """

    radius: float = 0.02
    draws: int = 10

    def __post_init__(self) -> None:
        if not 0 < self.radius < float("inf") or self.draws < 1:
            raise PgigError("max_sensitivity needs a radius above zero and at least one draw")

    def __call__(
        self, subject: Subject, x: Tensor, target: Tensor, attributions: Attributions, context: Context
    ) -> dict[str, NDArray[numpy.float64]]:
        setting = Setting.of(context)
        if setting.explain is None:
            raise PgigError("max_sensitivity explains anew: give a Setting with explain, a function of inputs")
        largest = {name: torch.zeros(len(x), dtype=torch.float64) for name in attributions}
        for number in range(self.draws):
            noisy = x + torch.stack([self._noise(x, setting.seed, name, number) for name in setting.names(x)])
            for name, moved in setting.explain(noisy).items():
                largest[name] = torch.maximum(largest[name], relative_change(attributions[name], moved))
        return {name: found.numpy()[:, None] for name, found in largest.items()}

    def _noise(self, x: Tensor, seed: int, name: Any, number: int) -> Tensor:
        drawn = torch.rand(x.shape[1:], generator=draws(seed, name, "max_sensitivity")(number), dtype=torch.float32)
        return (self.radius * (2 * drawn - 1)).to(x)

    def with_constants(self, **constants: Any) -> "MaxSensitivity":
        return replace(self, **constants)


def relative_change(before: Tensor, after: Tensor) -> Tensor:  # [n, ...] each -> [n]
    """Of an attribution that is zero, the change itself."""
    one, two = before.detach().double().flatten(1), after.detach().double().flatten(1)
    size = one.norm(dim=1)
    return torch.as_tensor((two - one).norm(dim=1) / torch.where(size > 0, size, 1.0))
