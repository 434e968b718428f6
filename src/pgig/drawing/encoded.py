"""Pictures as addresses that a page can hold: everything it shows is inside."""

from base64 import b64encode
from io import BytesIO
from typing import Any

import numpy
from numpy.typing import NDArray
from PIL import Image


def as_address(pixels: NDArray[Any], quality: int = 85) -> str:
    """RGB pixels [height, width, 3], as WebP."""
    return _address(Image.fromarray(numpy.ascontiguousarray(pixels)), "webp", quality=quality, method=4)


def mask_address(mask: NDArray[numpy.bool_]) -> str:
    """What is shown, [height, width], as a picture that is transparent elsewhere."""
    alpha = Image.fromarray((mask * 255).astype(numpy.uint8))
    picture = Image.new("LA", alpha.size)
    picture.putalpha(alpha)
    return _address(picture, "png", optimize=True)


def grey_address(values: NDArray[numpy.uint8]) -> str:
    """Numbers from 0 to 255, [height, width], without loss."""
    return _address(Image.fromarray(values), "png")


def _address(picture: Image.Image, kind: str, **options: Any) -> str:
    buffer = BytesIO()
    picture.save(buffer, kind, **options)
    return f"data:image/{kind};base64,{b64encode(buffer.getvalue()).decode()}"
