"""One way from an image file to the tensor that a model takes."""

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import numpy
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from pgig.errors import PgigError


@dataclass(frozen=True)
class Preprocess:
    """Short side to `resize`, centre crop to `size`, values 0..1, minus `mean`, over `std`, in the order `channels`.

    The defaults are torchvision's for ImageNet.
    """

    size: int = 224
    resize: int = 256
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    channels: Literal["RGB", "BGR"] = "RGB"

    def __post_init__(self) -> None:
        if not 1 <= self.size <= self.resize:
            raise PgigError(f"size {self.size} must be at least 1 and at most resize {self.resize}")
        if len(self.mean) != 3 or len(self.std) != 3 or min(self.std) <= 0:
            raise PgigError("mean and std need three numbers each, std above zero: 0.485,0.456,0.406")
        if self.channels not in ("RGB", "BGR"):
            raise PgigError(f"channels must be RGB or BGR, got {self.channels!r}")

    def pixels(self, source: str | Path | BinaryIO, name: str | None = None) -> Tensor:
        """The cropped image, [3, size, size] in 0..1, as a person would look at it; `name` is for errors."""
        image = _opened(source, name or str(source))
        scale = self.resize / min(image.size)
        width, height = (max(self.size, round(side * scale)) for side in image.size)
        image = image.resize((width, height), Image.Resampling.BILINEAR)
        left, top = (width - self.size) // 2, (height - self.size) // 2
        image = image.crop((left, top, left + self.size, top + self.size))
        return torch.from_numpy(numpy.array(image)).permute(2, 0, 1).float() / 255

    def normalise(self, pixels: Tensor) -> Tensor:
        """What the model takes, from `pixels`."""
        ordered = pixels if self.channels == "RGB" else pixels.flip(-3)
        return (ordered - torch.tensor(self.mean)[:, None, None]) / torch.tensor(self.std)[:, None, None]


def example(size: int) -> Tensor:
    """An image of noise, for a look at what a model does with it."""
    return torch.rand(1, 3, size, size, generator=torch.Generator().manual_seed(0))


def _opened(source: str | Path | BinaryIO, name: str) -> Image.Image:
    if isinstance(source, str | Path) and not Path(source).is_file():
        raise PgigError(f"no image at {name}")
    try:
        with Image.open(source) as image:
            upright = ImageOps.exif_transpose(image)
            if upright.mode.startswith("I;16"):  # convert() would cut 16 bits off at 255
                upright = Image.fromarray((numpy.asarray(upright) >> 8).astype(numpy.uint8))
            return upright.convert("RGB")
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        reason = "not an image" if isinstance(error, UnidentifiedImageError) else str(error)
        raise PgigError(f"cannot read the image {name}: {reason}") from error
