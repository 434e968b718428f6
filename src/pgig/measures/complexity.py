"""Complexity: on how many pixels an attribution lies, whatever the model says."""

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from pgig.measures.setting import Attributions, pixel_maps
from pgig.subject.context import Context
from pgig.subject.subject import Subject


def complexity(
    subject: Subject, x: Tensor, target: Tensor, attributions: Attributions, context: Context
) -> dict[str, NDArray[numpy.float64]]:
    """Records are the entropy (Bhatt et al. 2020) and the Gini coefficient (Chalasani et al. 2020) of magnitudes."""
    found = {}
    for name, maps in pixel_maps(attributions).items():
        sizes = maps.abs().flatten(1)
        found[name] = torch.stack([entropy(sizes), gini(sizes)], 1).numpy()
    return found


def entropy(sizes: Tensor) -> Tensor:  # [n, pixels], none negative -> [n]
    """In nats; an attribution of zero everywhere says as little as one that is the same everywhere."""
    shares = _some(sizes) / _some(sizes).sum(1, keepdim=True)
    return torch.as_tensor(-torch.special.xlogy(shares, shares).sum(1))


def gini(sizes: Tensor) -> Tensor:  # [n, pixels], none negative -> [n]
    """From 0, the same everywhere, to almost 1, all in one pixel."""
    ordered = _some(sizes).sort(1).values
    count = ordered.shape[1]
    places = torch.arange(1, count + 1, dtype=ordered.dtype)
    return (ordered * (2 * places - count - 1)).sum(1) / (count * ordered.sum(1))


def _some(sizes: Tensor) -> Tensor:
    scaled = sizes / sizes.amax(1, keepdim=True).clamp(min=torch.finfo(sizes.dtype).tiny)
    return torch.where(scaled.any(1, keepdim=True), scaled, 1.0)
