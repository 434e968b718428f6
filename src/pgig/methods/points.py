"""Points: the places at which a method takes gradients, written for one input without a batch axis."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import cache
from operator import index
from typing import ClassVar, NamedTuple, SupportsIndex

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from pgig.draws import Draws
from pgig.errors import PgigError
from pgig.methods.quadrature import Quadrature, alphas_and_weights, check_quadrature


class Example(NamedTuple):
    """One input as the points see it. A tuple of inputs arrives here as one vector, its members end to end."""

    x: Tensor  # [*input]
    baseline: Tensor  # [*input]
    references: Tensor | None  # [r, *input]


class Slice(NamedTuple):
    """Some of the k places of one input."""

    at: Tensor  # [n, *input]: take the gradient here
    scale: Tensor  # broadcasts to [n, *input]: what a method that multiplies by the input multiplies with
    weight: Tensor  # [n]: the share of each place; over all k places they sum to 1


@dataclass(frozen=True)
class Points(ABC):
    """A value: equal points have equal places, so that methods can share their gradients.

    `take` gives the places start..stop-1 and must not depend on which slices were taken before.
    """

    is_path: ClassVar[bool] = False  # does the scale say how far x is from a baseline?
    is_input: ClassVar[bool] = False  # is x itself the only place?
    needs_references: ClassVar[bool] = False

    def __post_init__(self) -> None:
        # plain Python numbers, so that equal options print alike: draws go by what is printed
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("steps", "samples"):
                if isinstance(value, bool) or not isinstance(value, SupportsIndex) or not 1 <= index(value) <= 10**6:
                    raise PgigError(
                        f"{field.name} must be a whole number of at least 1, and at most 10**6, got {value!r}"
                    )
                object.__setattr__(self, field.name, index(value))
            if field.name == "variance":
                if not isinstance(value, int | float | numpy.number) or not 0 <= value < float("inf"):
                    raise PgigError(f"variance must be a finite number of at least 0, got {value!r}")
                object.__setattr__(self, field.name, float(value))
            if field.name == "quadrature":  # it comes behind the steps
                check_quadrature(value, getattr(self, "steps"))  # noqa: B009 (not every kind of points has any)

    @property
    @abstractmethod
    def count(self) -> int:
        """k, the number of places."""

    @abstractmethod
    def take(self, one: Example, draw: Draws, start: int, stop: int) -> Slice:
        """The places start..stop-1."""


@dataclass(frozen=True)
class Here(Points):
    """x itself."""

    is_input = True
    count = 1

    def take(self, one: Example, draw: Draws, start: int, stop: int) -> Slice:
        return Slice(one.x[None], one.x, one.x.new_ones(1))


@dataclass(frozen=True)
class Chance(Points):
    """x itself, scaled by uniform noise in [-1, 1): what remains when the gradient is left out."""

    is_input = True
    count = 1

    def take(self, one: Example, draw: Draws, start: int, stop: int) -> Slice:
        noise = 2 * torch.rand(one.x.shape, generator=draw(0), dtype=torch.float32, device="cpu") - 1
        return Slice(one.x[None], noise.to(one.x), one.x.new_ones(1))


@dataclass(frozen=True)
class Line(Points):
    """The straight line from the baseline to x."""

    steps: int = 25
    quadrature: Quadrature = "right"

    is_path = True

    @property
    def count(self) -> int:
        return self.steps

    def take(self, one: Example, draw: Draws, start: int, stop: int) -> Slice:
        alphas, weights = _path(self.quadrature, self.steps)
        at = torch.lerp(one.baseline, one.x, _column(alphas[start:stop], one.x))
        return Slice(at, one.x - one.baseline, _like(weights[start:stop], one.x))


@dataclass(frozen=True)
class Ball(Points):
    """x with Gaussian noise."""

    samples: int = 25
    variance: float = 0.15

    @property
    def count(self) -> int:
        return self.samples

    def take(self, one: Example, draw: Draws, start: int, stop: int) -> Slice:
        noise = torch.stack([_noise(one.x, draw(j), self.variance) for j in range(start, stop)])
        return Slice(one.x + noise, -noise, _like(numpy.full(stop - start, 1 / self.samples), one.x))


@dataclass(frozen=True)
class NoisyLines(Points):
    """Straight lines from the baseline to x with Gaussian noise, one line per sample."""

    steps: int = 25
    samples: int = 25
    variance: float = 0.15
    quadrature: Quadrature = "right"

    is_path = True

    @property
    def count(self) -> int:
        return self.steps * self.samples

    def take(self, one: Example, draw: Draws, start: int, stop: int) -> Slice:
        alphas, weights = _path(self.quadrature, self.steps)
        sample, step = numpy.divmod(numpy.arange(start, stop), self.steps)
        first, last = int(sample[0]), int(sample[-1])
        ends = torch.stack([one.x + _noise(one.x, draw(j), self.variance) for j in range(first, last + 1)])
        end = ends[torch.from_numpy(sample - first).to(ends.device)]
        at = torch.lerp(one.baseline.expand_as(end), end, _column(alphas[step], one.x).expand_as(end))
        return Slice(at, one.x - one.baseline, _like(weights[step] / self.samples, one.x))


@dataclass(frozen=True)
class References(Points):
    """A random place on the line to x from each of `samples` references, drawn with replacement."""

    samples: int = 49

    is_path = True
    needs_references = True

    @property
    def count(self) -> int:
        return self.samples

    def take(self, one: Example, draw: Draws, start: int, stop: int) -> Slice:
        assert one.references is not None  # the engine has seen to it
        picks, alphas = [], []
        for j in range(start, stop):
            generator = draw(j)
            picks.append(int(torch.randint(len(one.references), (), generator=generator, device="cpu")))
            alphas.append(float(torch.rand((), generator=generator, dtype=torch.float64, device="cpu")))
        references = one.references[picks]
        at = torch.lerp(references, one.x.expand_as(references), _column(numpy.array(alphas), one.x))
        return Slice(at, one.x - references, _like(numpy.full(stop - start, 1 / self.samples), one.x))


_path = cache(alphas_and_weights)


def _noise(x: Tensor, generator: torch.Generator, variance: float) -> Tensor:
    # always drawn in float32: the dtype of the input changes the rounding, not the draw
    noise = torch.randn(x.shape, generator=generator, dtype=torch.float32, device="cpu")
    return noise.mul(variance**0.5).to(x)


def _like(values: NDArray[numpy.float64], x: Tensor) -> Tensor:
    return torch.from_numpy(values).to(x)


def _column(values: NDArray[numpy.float64], x: Tensor) -> Tensor:
    return _like(values, x).reshape(-1, *[1] * x.dim())
