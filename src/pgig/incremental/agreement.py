"""When what windows give is what whole forward passes give."""

import torch
from torch import Tensor

_OF_SIZE, _OF_CHANGE = 1e-5, 1e-2
_ROUNDING = {torch.float64: 1e-12}  # elsewhere:
_SINGLE_ROUNDING = 2e-6


def agrees(found: Tensor, wanted: Tensor, intact: Tensor) -> bool:
    """To 1e-5 of the size of the output, and to a hundredth of how much it differs from the intact image's."""
    size, change = float(wanted.abs().max()), float((wanted - intact).abs().max())
    rounding = _ROUNDING.get(wanted.dtype, _SINGLE_ROUNDING) * size
    return float((found - wanted).abs().max()) <= min(_OF_SIZE * size, max(_OF_CHANGE * change, rounding))
