"""How far a score falls when the tenth of an image that a map ranks highest is removed, beside a random tenth."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from pgig.degradation.fills import patch_mean
from pgig.degradation.grid import PatchGrid
from pgig.draws import draws
from pgig.statistics import ranks

_ACROSS, _SMALLEST = 28, 4  # patches along the shorter side; pixels: the mean of fewer hardly removes anything
_RANDOM = 8  # random tenths
Maps = Mapping[str, NDArray[numpy.float64]]  # [height, width] each


class TopTenth(NamedTuple):
    before: float
    after: dict[str, float]
    after_random: float  # the mean of several
    shown: dict[str, NDArray[numpy.bool_]]  # [height, width]: the tenth


def top_tenth(
    scores: Callable[[Tensor], Tensor], x: Tensor, maps: Maps, name: str, seed: int, at_once: int = 16
) -> TopTenth:
    """Of one image [1, channels, height, width]; name: what random draws go by; at_once: images."""
    grid = _grid(*x.shape[2:])
    sums = torch.stack([grid.sums(torch.from_numpy(m.copy())[None, None])[0] for m in maps.values()])
    count = max(1, round(len(grid) / 10))
    drawn = draws(seed, name, "a random tenth")
    noise = torch.stack([torch.rand(len(grid), generator=drawn(i)) for i in range(_RANDOM)])
    chosen = torch.zeros(len(sums) + _RANDOM, len(grid), dtype=torch.bool)
    chosen.scatter_(1, torch.cat([sums, noise.double()]).topk(count, 1).indices, True)
    removed = torch.where(grid.mask(chosen), patch_mean(x, grid), x)
    with torch.no_grad():
        parts = torch.split(torch.cat([x, removed]), at_once)
        found = torch.cat([scores(part) for part in parts]).double().tolist()
    after = dict(zip(maps, found[1:], strict=False))
    shown = dict(zip(maps, grid.mask(chosen)[:, 0].numpy(), strict=False))
    return TopTenth(found[0], after, sum(found[-_RANDOM:]) / _RANDOM, shown)


def agreement(maps: Maps) -> dict[str, float]:
    """Each map's mean rank correlation with the others, over patches; of one map alone there is none."""
    if len(maps) < 2:
        return {}
    matrix = agreements(maps)
    return {name: float((matrix[i].sum() - matrix[i, i]) / (len(maps) - 1)) for i, name in enumerate(maps)}


def agreements(maps: Maps) -> NDArray[numpy.float64]:  # [maps, maps]
    """Rank correlations of all maps with one another, over patches."""
    grid = _grid(*next(iter(maps.values())).shape)
    sums = [grid.sums(torch.from_numpy(m.copy())[None, None])[0].numpy() for m in maps.values()]
    places = numpy.stack([ranks(one) for one in sums])
    centred = places - places.mean(1, keepdims=True)
    sizes = numpy.sqrt((centred**2).sum(1))
    return numpy.asarray(centred @ centred.T / numpy.maximum(numpy.outer(sizes, sizes), 1e-12))


def _grid(height: int, width: int) -> PatchGrid:
    shorter = min(height, width)
    return PatchGrid(height, width, max(shorter // _ACROSS, min(_SMALLEST, shorter)))
