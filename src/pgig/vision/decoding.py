"""Image files, decoded within bounds: of formats, of pixels, of bytes. Whatever a decoder raises is a damaged image."""

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import numpy
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from pgig.errors import PgigError

MAX_PIXELS = 150_000_000
LARGEST_FILE = 2**30  # bytes
# What Pillow decodes itself. Left out: EPS, which it hands to Ghostscript; IPTC, which can hold any other format; and
# those for which it has no decoder of its own.
FORMATS = frozenset(
    {
        "AVIF", "BLP", "BMP", "CUR", "DCX", "DDS", "DIB", "FITS", "FLI", "FTEX", "GBR", "GIF", "ICNS", "ICO", "IM",
        "IMT", "JPEG", "JPEG2000", "MCIDAS", "MPO", "MSP", "PCD", "PCX", "PIXAR", "PNG", "PPM", "PSD", "QOI", "SGI",
        "SPIDER", "SUN", "TGA", "TIFF", "WEBP", "XBM", "XPM", "XVTHUMB",
    }
)  # fmt: skip
_STRIP = 2**20  # values that are brought to 8 bits at a time
_ORIENTATION = 0x0112  # the EXIF tag
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_LIMIT = threading.Lock()


def read_image(source: str | Path | BinaryIO, name: str, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """An image in RGB, the right way up."""
    if isinstance(source, str | Path):
        check_file(Path(source), name)
    try:
        with _limited(max_pixels), Image.open(source, formats=_formats()) as image:
            _check_pixels(image, max_pixels)
            upright = _upright(image)
            if upright.mode[0] in "IF":  # convert() would cut more than 8 bits off at 255
                upright = Image.fromarray(_eight_bits(numpy.asarray(upright)))
            return upright.convert("RGB")
    except Exception as error:  # decoders of damaged files raise what they like
        reason = "not an image that is read here" if isinstance(error, UnidentifiedImageError) else str(error)
        if isinstance(error, Image.DecompressionBombError):
            reason = f"its pixels are {_more_than(max_pixels)}"
        raise PgigError(f"cannot read the image {name}: {reason or type(error).__name__}") from error


def check_file(path: Path, name: str) -> None:
    if not path.is_file():
        raise PgigError(f"no image at {name}")
    if path.stat().st_size > LARGEST_FILE:
        raise PgigError(f"cannot read the image {name}: {too_large(path.stat().st_size)}")


def too_large(size: int) -> str:
    return f"a file of {size / 2**30:.1f} GB, and no image is read from more than {LARGEST_FILE / 2**30:.0f} GB"


def _formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in Image.ID if name in FORMATS)  # in the order in which Pillow would try them


@contextmanager
def _limited(max_pixels: int) -> Iterator[None]:
    """The limit is ours: Pillow's own, a warning at half of it, would stop nobody; a higher one must be let pass."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        if Image.MAX_IMAGE_PIXELS is None or max_pixels <= 2 * Image.MAX_IMAGE_PIXELS:
            yield
            return
        with _LIMIT:
            before = Image.MAX_IMAGE_PIXELS
            Image.MAX_IMAGE_PIXELS = max_pixels
            try:
                yield
            finally:
                Image.MAX_IMAGE_PIXELS = before


def _check_pixels(image: Image.Image, max_pixels: int) -> None:
    if (pixels := image.width * image.height) > max_pixels:
        raise ValueError(f"{image.width} x {image.height} are {pixels:,} pixels, {_more_than(max_pixels)}")


def _more_than(max_pixels: int) -> str:
    return f"more than the {max_pixels:,} allowed (max_pixels)"


def _upright(image: Image.Image) -> Image.Image:
    """By the orientation tag alone: other tags may be anything."""
    image.load()
    orientation = image.getexif().get(_ORIENTATION)
    turn = _TURNS.get(orientation) if isinstance(orientation, int) else None
    return image if turn is None else image.transpose(turn)


def _eight_bits(values: NDArray[Any]) -> NDArray[numpy.uint8]:
    """Values in 0..1 (fractions only), 0..255 or 0..65535, by their largest; strip by strip, for memory's sake."""
    least, most = values.min(), values.max()
    top = 1 if values.dtype.kind == "f" and most <= 1 else 255 if most <= 255 else 65535
    if values.dtype == numpy.uint16:
        top = 65535
    if not numpy.isfinite([least, most]).all() or least < 0 or most > top:
        raise ValueError("its values are not in 0..1, 0..255 or 0..65535")
    result = numpy.empty(values.shape, numpy.uint8)
    rows = max(1, _STRIP // max(1, values.shape[-1]))
    for first in range(0, len(values), rows):
        some = slice(first, first + rows)
        result[some] = (values[some].astype(numpy.float64) / top * 255).round().astype(numpy.uint8)
    return result


def is_image(name: str) -> bool:
    """By its ending, and not one of the files that macOS leaves beside the real ones."""
    path = PurePosixPath(name)
    hidden = "__MACOSX" in name or path.name.startswith("._")
    return path.suffix.lower() in Image.registered_extensions() and not hidden
