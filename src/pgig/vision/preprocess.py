"""One way from an image file to the tensor that a model takes."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy
import torch
from PIL import Image
from torch import Tensor

from pgig.errors import PgigError
from pgig.vision.decoding import MAX_PIXELS, read_image

_LARGEST = 2**16  # side of an image
_INTERPOLATIONS = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "nearest": Image.Resampling.NEAREST,
}


@dataclass(frozen=True)
class Preprocess:
    """Short side to `resize`, centre crop to `size`, values 0..1, minus `mean`, over `std`, in the order `channels`.

    Or, with fit="squash", both sides to `size`, whatever that does to the image's proportions.
    The defaults are torchvision's for ImageNet. Images of more than `max_pixels` are refused; those within take at most
    about 16 bytes of memory a pixel while they are read.

    interpolation: of resizing. Sizes that cannot be, and images that cannot be read, raise PgigError.

    >>> from pgig.vision import Preprocess
    >>> small = Preprocess(size=96, resize=110)
    >>> small.mean, small.fit
    ((0.485, 0.456, 0.406), 'crop')
    """

    size: int = 224
    resize: int = 256
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    channels: Literal["RGB", "BGR"] = "RGB"
    max_pixels: int = MAX_PIXELS
    interpolation: Literal["bilinear", "bicubic", "nearest"] = "bilinear"
    fit: Literal["crop", "squash"] = "crop"

    def __post_init__(self) -> None:
        if not 1 <= self.size <= self.resize <= _LARGEST:
            raise PgigError(
                f"size {self.size} must be at least 1 and at most resize {self.resize}, that at most {_LARGEST}"
            )
        if len(self.mean) != 3 or len(self.std) != 3 or min(self.std) <= 0:
            raise PgigError(f"mean and std need three numbers each, std above zero, got {self.mean} and {self.std}")
        if not all(math.isfinite(number) for number in (*self.mean, *self.std)):
            raise PgigError(f"mean and std must be finite, got {self.mean} and {self.std}")
        if self.channels not in ("RGB", "BGR"):
            raise PgigError(f"channels must be RGB or BGR, got {self.channels!r}")
        if self.interpolation not in _INTERPOLATIONS:
            raise PgigError(f"interpolation must be one of {', '.join(_INTERPOLATIONS)}, got {self.interpolation!r}")
        if self.fit not in ("crop", "squash"):
            raise PgigError(f"fit must be crop or squash, got {self.fit!r}")
        if self.max_pixels < 1:
            raise PgigError(f"max_pixels must be at least 1, got {self.max_pixels}")

    @property
    def facts(self) -> dict[str, Any]:
        """What an image's values depend on, for the record."""
        usual = {"interpolation": "bilinear", "fit": "crop"}  # not said: files from before have none
        kept = {name: value for name, value in asdict(self).items() if name != "max_pixels"}
        return {name: value for name, value in kept.items() if usual.get(name) != value}

    def pixels(self, source: str | Path | BinaryIO, name: str | None = None) -> Tensor:
        """The cropped image, [3, size, size] in 0..1, as a person would look at it; `name` is for errors."""
        image = read_image(source, name or str(source), self.max_pixels)
        way = _INTERPOLATIONS[self.interpolation]
        if self.fit == "squash":
            image = image.resize((self.size, self.size), way)
            return torch.from_numpy(numpy.array(image)).permute(2, 0, 1).float() / 255
        scale = self.resize / min(image.size)
        width, height = (max(self.size, round(side * scale)) for side in image.size)
        left, top = (width - self.size) // 2, (height - self.size) // 2
        if width * height <= _LARGEST**2 // 16:
            image = image.resize((width, height), way)
            image = image.crop((left, top, left + self.size, top + self.size))
        else:  # a long strip: only the part that is kept is resized
            across, down = image.width / width, image.height / height
            box = left * across, top * down, (left + self.size) * across, (top + self.size) * down
            image = image.resize((self.size, self.size), way, box=box)
        return torch.from_numpy(numpy.array(image)).permute(2, 0, 1).float() / 255

    @property
    def black(self) -> Tensor:
        """What a black pixel is to the model, [3, 1, 1]."""
        return self.normalise(torch.zeros(3, 1, 1))

    def normalise(self, pixels: Tensor) -> Tensor:
        """What the model takes, from `pixels`."""
        ordered = pixels if self.channels == "RGB" else pixels.flip(-3)
        return (ordered - torch.tensor(self.mean)[:, None, None]) / torch.tensor(self.std)[:, None, None]


def example(size: int) -> Tensor:
    """An image of noise, for a look at what a model does with it."""
    return torch.rand(1, 3, size, size, generator=torch.Generator().manual_seed(0))
