"""How well an attribution agrees with a mask of the truth.

Attributions are summed over channels, then read in one of two ways: by their size |a|, or by their positive part.
"""

from collections.abc import Callable, Mapping

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from pgig.errors import PgigError
from pgig.measures.localization import mass, rank, said
from pgig.synthetic.transport import earth_movers_distance

READINGS: Mapping[str, Callable[[Tensor], Tensor]] = {"|a|": torch.abs, "a+": lambda a: a.clamp(min=0)}
Scores = dict[str, NDArray[numpy.float64]]  # "metric, reading" -> [n]


def nearness(weights: Tensor, mask: Tensor) -> float:
    """1 - the earth mover's distance to the mask, as a share of the diagonal."""
    return 1 - earth_movers_distance(weights, mask)


METRICS: Mapping[str, Callable[[Tensor, Tensor], float]] = {
    "precision": rank,
    "mass": mass,
    "1 - EMD": nearness,
}
COLUMNS = tuple(f"{metric}, {reading}" for metric in METRICS for reading in READINGS)


def truth_scores(attributions: Tensor, masks: Tensor) -> Scores:
    """Every metric and reading, for attributions [n, channels, height, width] and masks [n, height, width]."""
    if attributions.dim() != 4 or attributions.shape[:1] + attributions.shape[2:] != masks.shape:
        raise PgigError(f"attributions {tuple(attributions.shape)} do not fit masks {tuple(masks.shape)}")
    if not bool(masks.flatten(1).any(1).all()) or not attributions.isfinite().all():
        raise PgigError("every mask needs a pixel, and attributions must be finite")
    maps = attributions.detach().double().sum(1)
    found: Scores = {}
    for metric, measure in METRICS.items():
        for reading, read in READINGS.items():
            each = [measure(said(read(a)), mask) for a, mask in zip(maps, masks, strict=True)]
            found[f"{metric}, {reading}"] = numpy.array(each)
    return found


def chance(masks: Tensor) -> Scores:
    """What an attribution that says nothing gets: the same everywhere."""
    return truth_scores(torch.ones_like(masks, dtype=torch.float64)[:, None], masks)
