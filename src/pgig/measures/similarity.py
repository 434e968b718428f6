"""How alike two attributions of the same image are."""

import numpy
import torch
import torch.nn.functional as F
from torch import Tensor

from pgig.statistics import ranks

_WINDOW = 11  # pixels of SSIM's Gaussian window, with a standard deviation of 1.5 (Wang et al. 2004)
_SIGMA = 1.5


def spearman(one: Tensor, other: Tensor) -> float:
    """The correlation of ranks; equal values share their mean rank. Zero where one of the two is constant."""
    a, b = (ranks(each.detach().cpu().double().numpy().reshape(-1)) for each in (one, other))
    a, b = a - a.mean(), b - b.mean()
    scale = float(numpy.sqrt((a**2).sum() * (b**2).sum()))
    return float((a * b).sum()) / scale if scale else 0.0


def ssim(one: Tensor, other: Tensor) -> float:
    """Structural similarity of two maps [height, width], each scaled to 0..1 by its largest magnitude, zero at 0.5."""
    x, y = (_scaled(each)[None, None] for each in (one, other))
    window = _gaussian(min(_WINDOW, *x.shape[2:]))
    mean_x, mean_y = F.conv2d(x, window), F.conv2d(y, window)
    variance_x = F.conv2d(x * x, window) - mean_x**2
    variance_y = F.conv2d(y * y, window) - mean_y**2
    covariance = F.conv2d(x * y, window) - mean_x * mean_y
    c1, c2 = 0.01**2, 0.03**2
    found = (2 * mean_x * mean_y + c1) * (2 * covariance + c2)
    found = found / ((mean_x**2 + mean_y**2 + c1) * (variance_x + variance_y + c2))
    return float(found.mean())


def _scaled(values: Tensor) -> Tensor:
    values = values.detach().cpu().double()
    largest = values.abs().max()
    return (values / largest if largest > 0 else values) / 2 + 0.5


def _gaussian(size: int) -> Tensor:
    places = torch.arange(size, dtype=torch.float64) - (size - 1) / 2
    bell = torch.exp(-0.5 * (places / _SIGMA) ** 2)
    bell = bell / bell.sum()
    return torch.outer(bell, bell)[None, None]
