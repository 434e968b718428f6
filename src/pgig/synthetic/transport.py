"""The earth mover's distance between two maps."""

from functools import cache
from typing import Any

import numpy
import torch
import torch.nn.functional as F
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
    distances = _distances(*(min(_BLOCKS, side) for side in one.shape[-2:]))[numpy.ix_(here, there)]
    supply, demand = supply[here] / supply.sum(), demand[there] / demand.sum()
    return float(mass * _solver().emd2(supply, demand, numpy.ascontiguousarray(distances)))


def _in_blocks(weights: Tensor) -> NDArray[numpy.float64]:
    blocks = F.adaptive_avg_pool2d(
        weights.double()[None], (min(_BLOCKS, weights.shape[0]), min(_BLOCKS, weights.shape[1]))
    )
    array = numpy.asarray(blocks.flatten())
    return numpy.asarray(array / array.sum())


@cache
def _distances(height: int, width: int) -> NDArray[numpy.float64]:
    down, across = torch.meshgrid(torch.arange(height) / height, torch.arange(width) / width, indexing="ij")
    places = torch.stack([down, across], -1).reshape(-1, 2).double() / 2**0.5
    return numpy.asarray(torch.cdist(places, places))


def _solver() -> Any:
    try:
        import ot
    except ModuleNotFoundError as error:
        raise PgigError("the earth mover's distance needs POT: pip install 'pgig[cli]'") from error
    return ot
