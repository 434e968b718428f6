"""What a curve of scores f_0 .. f_L says, in one number."""

from typing import Any

import numpy
from numpy.typing import NDArray


def auc(curves: Any) -> NDArray[numpy.float64]:  # [..., L + 1] -> [...]
    """The area under the curve: the mean of f_0 .. f_L. Lower is better where the most important goes first."""
    return numpy.asarray(numpy.asarray(curves, dtype=numpy.float64).mean(-1))


def aopc(curves: Any) -> NDArray[numpy.float64]:  # [..., L + 1] -> [...]
    """The area over the curve: the mean of f_0 - f_k. Higher is better."""
    array = numpy.asarray(curves, dtype=numpy.float64)
    return numpy.asarray((array[..., :1] - array).mean(-1))


def score_at(curves: Any, step: int) -> NDArray[numpy.float64]:  # [..., L + 1] -> [...]
    """The score after `step` patches."""
    return numpy.asarray(numpy.asarray(curves, dtype=numpy.float64)[..., step])
