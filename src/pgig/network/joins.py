"""Joins: additions in which two branches meet, as units of two inputs whose weights are one each.

Patterns restore the whole signal of every layer, so that two branches from one place restore it twice: what is sent
back grows with every join. The paper's own equation, applied to the join, shares it out: a branch's pattern is its
covariance with the sum, over the sum's variance.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pgig.network.geometry import Sums
from pgig.network.layer_calls import Operation
from pgig.network.layers import Layers
from pgig.network.torch_ops import ADDITIONS


@dataclass(frozen=True)
class JoinCall:
    name: str
    a: Tensor
    b: Tensor

    func: Operation

    def run(self) -> Tensor:
        return self.func(self.a, self.b)


def read_join(func: Operation, args: tuple[Any, ...], kwargs: Mapping[str, Any], layers: Layers) -> JoinCall | None:
    """The call as a join, if two tensors of one shape are added of which neither is a weight. Without its number."""
    if func not in ADDITIONS or kwargs or len(args) != 2:
        return None
    a, b = args
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)) or a.shape != b.shape or a.dim() < 2:
        return None
    if not (a.is_floating_point() and b.is_floating_point()):
        return None
    if layers.derived.is_of_weights(a) or layers.derived.is_of_weights(b):
        return None
    return JoinCall("", a, b, func)


@dataclass(frozen=True)
class Joint:
    """The geometry of a join: which axis of its branches counts the units; None: all places are one unit's."""

    axis: int | None

    def rows(self, values: Tensor) -> Tensor:  # -> [samples, units]
        if self.axis is None:
            return values.reshape(-1, 1)
        return values.movedim(self.axis, -1).reshape(-1, values.shape[self.axis])

    def sums(self, a: Tensor, b: Tensor, mask: Tensor | None) -> Sums:
        """Over a batch, of units whose input are the two branches and whose output is their sum."""
        total: Sums | None = None
        for row in range(len(a)):  # one input at a time: it is all float64
            some = slice(row, row + 1)
            part = self._sums(a[some], b[some], None if mask is None else mask[some])
            total = part if total is None else total.grown(part)
        assert total is not None
        return total

    def _sums(self, a: Tensor, b: Tensor, mask: Tensor | None) -> Sums:
        first, second = self.rows(a).double(), self.rows(b).double()
        z = first + second
        inside = torch.ones_like(z) if mask is None else self.rows(mask).double()
        inner = inside * z
        return Sums(
            samples=len(z),
            y=z.sum(0),
            active=inside.sum(0),
            y_active=inner.sum(0),
            x_active=torch.stack([(inside * branch).sum(0) for branch in (first, second)], 1),
            xy_active=torch.stack([(inner * branch).sum(0) for branch in (first, second)], 1),
        )

    def weight(self, like: Tensor) -> Tensor:
        """Ones, laid out as the join's pattern is: [2 branches, *axes], to broadcast with a branch of one input."""
        axes = (size if axis == self.axis else 1 for axis, size in enumerate(like.shape) if axis)
        return torch.ones(2, *axes, dtype=like.dtype)

    def unit_axis(self, axes: int) -> int | None:
        return self.axis
