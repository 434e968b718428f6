"""Images with known truth: shapes under noise, with masks of the pixels that carry the class.

Sample number i of a setting depends on (setting, size, seed, i) alone: streams can be cut, continued and shared out.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from pgig.draws import draws
from pgig.errors import PgigError

Purpose = Literal["drawn", "training", "testing", "patterns", "references"]


class Samples(NamedTuple):
    """Labelled images, and which of their pixels carry the class."""

    x: Tensor  # [n, 3, size, size], float32, 0 is the background's mean
    label: Tensor  # [n]
    mask: Tensor  # [n, size, size], bool


@dataclass(frozen=True)
class Setting:
    """What covers the object, which is brighter than its background by `contrast`."""

    about: str
    contrast: float
    noise: Callable[[int, torch.Generator], Tensor]  # [3, size, size], from the size


def _white(size: int, rng: torch.Generator) -> Tensor:
    return torch.randn(3, size, size, generator=rng)


def _correlated(size: int, rng: torch.Generator) -> Tensor:
    """White noise under a Gaussian of two pixels, on a torus, with unit variance again."""
    away = torch.arange(size).minimum(size - torch.arange(size)).float()
    bell = torch.exp(-0.5 * (away / 2) ** 2)
    kernel = bell[:, None] * bell
    spectrum = torch.fft.rfft2(_white(size, rng)) * torch.fft.rfft2(kernel / kernel.norm())
    return torch.as_tensor(torch.fft.irfft2(spectrum, s=(size, size)))


def _streaks(size: int, rng: torch.Generator) -> Tensor:
    """Each column has one random colour from top to bottom, and every pixel a little noise of its own."""
    return 2 * torch.randn(3, 1, size, generator=rng) + 0.5 * _white(size, rng)


SETTINGS: Mapping[str, Setting] = {
    "white": Setting("every pixel has noise of its own", 1.0, _white),
    "correlated": Setting("clouds: noise that neighbouring pixels share", 1.5, _correlated),
    "suppressor": Setting(
        "streaks: the noise over the object is seen above and below it, and must be subtracted", 1.0, _streaks
    ),
}


def _triangle(u: Tensor, v: Tensor) -> Tensor:
    corners = [(math.sin(turn), math.cos(turn)) for turn in (0, 2 * math.pi / 3, 4 * math.pi / 3)]
    return torch.stack([u * a + v * b for a, b in corners]).amax(0) < 0.5


def _square(u: Tensor, v: Tensor) -> Tensor:
    return u.abs().maximum(v.abs()) < 1


def _cross(u: Tensor, v: Tensor) -> Tensor:
    return (u.abs().minimum(v.abs()) < 1 / 3) & _square(u, v)


def _ring(u: Tensor, v: Tensor) -> Tensor:
    radius = torch.hypot(u, v)
    return (radius < 1) & (radius > 0.6)


def _bars(u: Tensor, v: Tensor) -> Tensor:
    return _square(u, v) & (v.abs() > 0.45)


class Shape(NamedTuple):
    inside: Callable[[Tensor, Tensor], Tensor]  # of coordinates around the centre
    area: float  # so that all shapes can be given the same


SHAPES: Mapping[str, Shape] = {
    "triangle": Shape(_triangle, 0.75 * math.sqrt(3)),
    "square": Shape(_square, 4),
    "cross": Shape(_cross, 20 / 9),
    "ring": Shape(_ring, 0.64 * math.pi),
    "bars": Shape(_bars, 2.2),
}
CLASSES = tuple(SHAPES)
_SHARE = 0.08  # of the image that an object covers, before it is made up to a fifth larger or smaller in diameter
_REACH = 0.325  # of the side: how far objects can reach from their centres


def samples(
    setting: str, number: int, *, seed: int = 0, first: int = 0, size: int = 64, purpose: Purpose = "drawn"
) -> Samples:
    """The samples `first` to `first + number` of a setting. Samples for different purposes are never the same."""
    if setting not in SETTINGS:
        raise PgigError(f"unknown setting {setting!r}; choose one of: {', '.join(SETTINGS)}")
    wanted = {"number": (number, 1), "first": (first, 0), "size": (size, 16), "seed": (seed, None)}
    for name, (value, least) in wanted.items():
        if not isinstance(value, int) or (least is not None and value < least):
            raise PgigError(
                f"{name} must be a whole number{f' of at least {least}' * (least is not None)}, got {value}"
            )
    draw = draws(seed, size, f"known truth, {setting}" + f", {purpose}" * (purpose != "training"))
    each = [_sample(SETTINGS[setting], size, draw(first + i)) for i in range(number)]
    x, label, mask = zip(*each, strict=True)
    return Samples(torch.stack(x), torch.tensor(label), torch.stack(mask))


def stream(
    setting: str, batch_size: int, *, seed: int = 0, first: int = 0, size: int = 64, purpose: Purpose = "drawn"
) -> Iterator[Samples]:
    """Batches of a setting without end."""
    for start in count(first, batch_size):
        yield samples(setting, batch_size, seed=seed, first=start, size=size, purpose=purpose)


def pixels(x: Tensor) -> Tensor:
    """Images as colours in 0..1, for showing."""
    return (0.5 + x / 8).clamp(0, 1)


def _sample(setting: Setting, size: int, rng: torch.Generator) -> tuple[Tensor, int, Tensor]:
    label = int(torch.randint(len(CLASSES), (1,), generator=rng))
    across, down, turn, scale = torch.rand(4, generator=rng).tolist()
    mask = _mask(SHAPES[CLASSES[label]], size, (across, down), 2 * math.pi * turn, 0.8 + 0.4 * scale)
    colour = 0.6 + 0.4 * torch.rand(3, 1, 1, generator=rng)
    x = setting.noise(size, rng) + setting.contrast * colour * mask
    return x, label, mask


def _mask(shape: Shape, size: int, place: tuple[float, float], turn: float, scale: float) -> Tensor:
    unit = scale * size * math.sqrt(_SHARE / shape.area)
    x, y = (size * (_REACH + (1 - 2 * _REACH) * at) for at in place)
    row, column = torch.meshgrid(torch.arange(size) + 0.5, torch.arange(size) + 0.5, indexing="ij")
    across, down = (column - x) / unit, (row - y) / unit
    return shape.inside(
        math.cos(turn) * across + math.sin(turn) * down, math.cos(turn) * down - math.sin(turn) * across
    )
