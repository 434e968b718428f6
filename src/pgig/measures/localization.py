"""Localisation: does the positive part of an attribution lie on the object that a mask shows?"""

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from pgig.errors import PgigError
from pgig.measures.setting import Attributions, Setting, pixel_maps
from pgig.subject.context import Context
from pgig.subject.subject import Subject


def localization(
    subject: Subject, x: Tensor, target: Tensor, attributions: Attributions, context: Context
) -> dict[str, NDArray[numpy.float64]]:
    """Records are mass and rank accuracy (Arras et al. 2022) and the pointing game (Zhang et al. 2018)."""
    masks = Setting.of(context).masks
    if masks is None:
        raise PgigError("localization needs masks of the objects", lacks="masks")
    if masks.shape != (len(x), *x.shape[2:]) or not bool(masks.flatten(1).any(1).all()):
        raise PgigError(f"localization needs a mask like {tuple(x.shape[2:])} for each input, with a pixel in it")
    found = {}
    for name, maps in pixel_maps(attributions).items():
        weights = [said(one.clamp(min=0)) for one in maps]
        rows = [(mass(w, mask), rank(w, mask), pointing(w, mask)) for w, mask in zip(weights, masks, strict=True)]
        found[name] = numpy.array(rows, dtype=numpy.float64)
    return found


def mass(weights: Tensor, mask: Tensor) -> float:
    """The share of the attribution inside the mask."""
    return float((weights * mask).sum() / weights.sum())


def rank(weights: Tensor, mask: Tensor) -> float:
    """The share of the mask among the top n pixels, n the size of the mask; ties share the places left evenly."""
    return _share_of_top(weights, mask, int(mask.sum()))


def pointing(weights: Tensor, mask: Tensor) -> float:
    """Is the largest in the mask? Ties count by their share."""
    return _share_of_top(weights, mask, 1)


def _share_of_top(weights: Tensor, mask: Tensor, n: int) -> float:
    values, inside = weights.flatten(), mask.flatten()
    least = values.topk(n).values[-1]
    above, tied = values > least, values == least
    left = n - int(above.sum())
    return (int((above & inside).sum()) + left * int((tied & inside).sum()) / int(tied.sum())) / n


def said(weights: Tensor) -> Tensor:
    """An attribution without a positive part says as little as one that is the same everywhere."""
    return weights if bool(weights.any()) else torch.ones_like(weights)
