"""ROAD's noisy linear imputation (Rong et al. 2022): a pixel is the weighted mean of its eight neighbours, and noise.

The unknown pixels of a patch are solved for together, from the pixels around it in the intact image. (ROAD solves for
all pixels removed so far; here each patch is replaced by what its surroundings say, whatever else is replaced, so that
what stands in a patch does not depend on the order.)
"""

from functools import cache

import torch
from torch import Tensor

from pgig.degradation.grid import PatchGrid

NOISE = 0.01
_DIRECT, _DIAGONAL = 1 / 6, 1 / 12  # weights of neighbours; they add up to one


def imputed(x: Tensor, grid: PatchGrid) -> Tensor:
    """Every patch as its surroundings let expect it, with a little noise, the same for all images."""
    rng = torch.Generator().manual_seed(0)
    noise = NOISE * torch.randn(x.shape[1:], generator=rng, dtype=torch.float32)
    result = x.clone()
    for index in range(len(grid)):
        down, across = grid.place(index)
        top, left = min(1, down.start), min(1, across.start)
        bottom, right = min(1, grid.height - down.stop), min(1, grid.width - across.stop)
        around = x[:, :, down.start - top : down.stop + bottom, across.start - left : across.stop + right]
        solution = _solution(grid.patch, top, left, bottom, right).to(x)  # [inside, around]
        inside = around.flatten(2) @ solution.mT
        result[:, :, down, across] = torch.unflatten(inside, 2, (grid.patch, grid.patch))
    return result + torch.where(grid.mask(torch.ones(1, len(grid), dtype=torch.bool)), noise, 0.0).to(x)


@cache
def _solution(patch: int, top: int, left: int, bottom: int, right: int) -> Tensor:
    """What each pixel of a patch takes from each pixel of the patch and the ring around it, where there is one."""
    height, width = patch + top + bottom, patch + left + right
    n = height * width
    if n == patch**2:  # the patch is the whole image: nothing is known
        return torch.full((n, n), 1 / n, dtype=torch.float64)
    unknown = torch.zeros(height, width, dtype=torch.bool)
    unknown[top : top + patch, left : left + patch] = True
    means = torch.zeros(n, n, dtype=torch.float64)
    for row in range(height):
        for column in range(width):
            for down in (-1, 0, 1):
                for across in (-1, 0, 1):
                    if (down or across) and 0 <= row + down < height and 0 <= column + across < width:
                        weight = _DIAGONAL if down and across else _DIRECT
                        means[row * width + column, (row + down) * width + column + across] = weight
    inside = unknown.flatten()
    means = means[inside]
    means = means / means.sum(1, keepdim=True)  # at the edge of the image there are fewer neighbours
    known_part = torch.zeros(int(inside.sum()), n, dtype=torch.float64)
    known_part[:, ~inside] = means[:, ~inside]
    system = torch.eye(int(inside.sum()), dtype=torch.float64) - means[:, inside]
    return torch.as_tensor(torch.linalg.solve(system, known_part))
