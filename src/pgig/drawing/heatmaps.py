"""Heat maps: an attribution as colours."""

from typing import Any

import numpy
from numpy.typing import NDArray

from pgig.errors import PgigError

# The colour scale ends at this percentile of |attribution|, the same in both directions: a few extreme pixels do not
# turn all others white.
PERCENTILE = 99.5
_RED = numpy.array([178, 24, 43]) / 255
_BLUE = numpy.array([33, 102, 172]) / 255


def heatmap(attribution: Any, image: Any = None) -> NDArray[numpy.uint8]:
    """RGB pixels [height, width, 3] of an attribution: red positive, blue negative, white zero.

    attribution: [channels, height, width] (channels are summed), [height, width], or a batch of one; a tensor or array.
    image: laid under the colours in grey, where given.
    """
    summed = _summed(attribution)
    limit = numpy.percentile(numpy.abs(summed), PERCENTILE) or numpy.abs(summed).max() or 1.0
    colours = _coloured(numpy.clip(summed / limit, -1, 1)[..., None])
    if image is not None:
        grey = as_pixels(image).mean(-1, keepdims=True)
        if grey.shape[:2] != summed.shape:
            raise PgigError(f"an image of {grey.shape[:2]} pixels under an attribution of {summed.shape}")
        colours = colours * (0.45 + 0.55 * grey)
    return numpy.asarray((colours * 255).round(), dtype=numpy.uint8)


def colours_of(strength: float) -> tuple[int, int, int]:
    """Red, green and blue for a share of the largest, -1..1."""
    red, green, blue = (_coloured(numpy.array([strength])) * 255).round().astype(int).tolist()
    return red, green, blue


def _coloured(strength: NDArray[numpy.float64]) -> NDArray[numpy.float64]:
    """Red where positive, blue where negative, white at zero; of [..., 1]."""
    return numpy.asarray(1 - numpy.abs(strength) * (1 - numpy.where(strength > 0, _RED, _BLUE)))


def as_pixels(image: Any) -> NDArray[numpy.float64]:
    """Any image as RGB or grey values [height, width, channels] in 0..1; what exceeds that range is rescaled to it."""
    array = _as_array(image)
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3 or (array.shape[0] not in (1, 3) and array.shape[-1] not in (1, 3)):
        raise PgigError(f"an image must be [channels, height, width] with 1 or 3 channels, got shape {array.shape}")
    if array.shape[0] in (1, 3):
        array = array.transpose(1, 2, 0)
    if array.dtype == numpy.uint8:
        return array / 255
    array = array.astype(numpy.float64)
    if array.min() < 0 or array.max() > 1:
        array = (array - array.min()) / (numpy.ptp(array) or 1)
    return array


def _summed(attribution: Any) -> NDArray[numpy.float64]:
    array = _as_array(attribution).astype(numpy.float64)
    if array.ndim not in (2, 3) or array.size == 0:
        raise PgigError(f"a heat map needs [channels, height, width] or [height, width], got shape {array.shape}")
    if not numpy.isfinite(array).all():
        raise PgigError("the attribution has NaN or infinite values")
    return array if array.ndim == 2 else array.sum(0)


def _as_array(values: Any) -> NDArray[Any]:
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.float() if values.is_floating_point() and values.element_size() < 4 else values
    array = numpy.asarray(values)
    return array[0] if array.ndim == 4 and len(array) == 1 else array
