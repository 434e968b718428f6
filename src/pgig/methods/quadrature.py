"""Where along a path to look, and how much each place counts."""

from typing import Literal, get_args

import numpy
from numpy.typing import NDArray

from pgig.errors import PgigError

Quadrature = Literal["right", "left", "midpoint", "trapezoid", "gauss-legendre"]


def alphas_and_weights(quadrature: Quadrature, steps: int) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64]]:
    """`steps` values of alpha in [0, 1] and their weights, which sum to 1."""
    check_quadrature(quadrature, steps)
    weights = numpy.full(steps, 1 / steps)
    match quadrature:
        case "right":  # the last point is x itself: the paper's sum runs k = 1..m
            return numpy.arange(1, steps + 1) / steps, weights
        case "left":
            return numpy.arange(steps) / steps, weights
        case "midpoint":
            return (numpy.arange(steps) + 0.5) / steps, weights
        case "trapezoid":
            weights = numpy.full(steps, 1 / (steps - 1))
            weights[[0, -1]] /= 2
            return numpy.arange(steps) / (steps - 1), weights
        case "gauss-legendre":
            nodes, weights = numpy.polynomial.legendre.leggauss(steps)
            return (1 + nodes) / 2, weights / 2


def check_quadrature(quadrature: Quadrature, steps: int) -> None:
    if quadrature not in get_args(Quadrature):
        raise PgigError(f"unknown quadrature {quadrature!r}; choose one of: {', '.join(get_args(Quadrature))}")
    if quadrature == "trapezoid" and steps < 2:
        raise PgigError("the trapezoid quadrature needs steps >= 2, got 1")
