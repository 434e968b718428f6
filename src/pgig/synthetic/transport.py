"""The earth mover's distance between two maps."""

from functools import cache
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from pgig.errors import PgigError

_BLOCKS = 16  # a side: maps are summed up in blocks first, since exact distances of 64 x 64 pixels take seconds each


def earth_movers_distance(one: Tensor, other: Tensor) -> float:
    """How far the mass of one map [height, width] must travel to become the other, as a share of the diagonal.

    Both are non-negative and are scaled to the same mass. Exact on a grid of at most 16 x 16 blocks.
    """
    a, b = _in_blocks(one), _in_blocks(other)
    # what both have in one place stays there: the distance is a metric
    common = numpy.minimum(a, b)
    supply, demand = a - common, b - common
    mass = supply.sum()
    if mass < 1e-12:
        return 0.0
    here, there = supply > 0, demand > 0
    distances = _distances(*one.shape)[numpy.ix_(here, there)]
    supply, demand = supply[here] / supply.sum(), demand[there] / demand.sum()
    return float(mass * _solver().emd2(supply, demand, numpy.ascontiguousarray(distances)))


def _in_blocks(weights: Tensor) -> NDArray[numpy.float64]:
    """The shares of the mass in each block; every pixel belongs to one."""
    total = float(weights.sum())
    if total <= 0:
        raise PgigError("the earth mover's distance needs some mass")
    rows, columns = (_blocks(side) for side in weights.shape)
    shares = weights.double().new_zeros(int(rows[-1]) + 1, int(columns[-1]) + 1)
    shares.index_put_((rows[:, None], columns), weights.double(), accumulate=True)
    return numpy.asarray(shares.flatten() / shares.sum())


def _blocks(side: int) -> Tensor:  # [side], the block of each pixel
    return torch.arange(side) * min(_BLOCKS, side) // side


@cache
def _distances(height: int, width: int) -> NDArray[numpy.float64]:
    """Between the centres of blocks, as a share of the diagonal."""
    centres = []
    for side in (height, width):
        block = _blocks(side)
        sums = torch.zeros(int(block[-1]) + 1, dtype=torch.float64).index_add_(
            0, block, torch.arange(side).double() + 0.5
        )
        centres.append(sums / block.bincount())
    places = torch.cartesian_prod(*centres) / (height**2 + width**2) ** 0.5
    return numpy.asarray(torch.cdist(places, places))


def _solver() -> Any:
    try:
        import ot
    except ModuleNotFoundError as error:
        raise PgigError("the earth mover's distance needs POT: pip install 'pgig[cli]'") from error
    return ot
