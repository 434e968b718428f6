"""Random sets of patches, and how far a score falls without each: the same sets for all methods."""

from collections.abc import Callable, Hashable, Sequence

import torch
from torch import Tensor

from pgig.degradation import Evaluator, PatchGrid
from pgig.degradation.fills import find_fill
from pgig.draws import draws


def drawn(
    draw: Callable[[int, torch.Generator], Tensor],
    size: int,
    count: int,
    names: Sequence[Hashable],
    seed: int,
    kind: str,
) -> Tensor:  # [n, count, patches]
    """So many sets of patches of a size for each input, which depend on its name alone."""
    stem = f"{kind} {size}"
    return torch.stack(
        [torch.stack([draw(size, draws(seed, name, stem)(number)) for number in range(count)]) for name in names]
    )


def drops(evaluator: Evaluator, x: Tensor, target: Tensor, sets: Tensor, grid: PatchGrid, fill: str) -> Tensor:
    """How far the score falls when all patches of a set [n, count, size] are replaced at once: [n, count]."""
    found = evaluator.curves(x, find_fill(fill)(x, grid), sets[:, :, None], target, grid)
    return found[..., 0] - found[..., 1]


def sums_over(sums: Tensor, sets: Tensor) -> Tensor:  # [n, patches], [n, count, size] -> [n, count]
    """An attribution's sum over each set."""
    return sums[:, None].expand(-1, sets.shape[1], -1).gather(2, sets).sum(2)


def correlation(one: Tensor, other: Tensor) -> Tensor:  # [n, count] each -> [n]
    """Pearson's; zero where one of the two is constant."""
    a, b = one - one.mean(1, keepdim=True), other - other.mean(1, keepdim=True)
    scale = a.norm(dim=1) * b.norm(dim=1)
    flat = (a.abs().amax(1) <= 1e-12 * one.abs().amax(1)) | (b.abs().amax(1) <= 1e-12 * other.abs().amax(1))
    return torch.where(flat | (scale == 0), 0.0, (a * b).sum(1) / scale.clamp(min=torch.finfo(a.dtype).tiny))
