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
_PURPLE = numpy.array([84, 39, 136]) / 255


def heatmap(
    attribution: Any, image: Any = None, *, signed: bool = True, smooth: float = 0, nothing: float = 0
) -> NDArray[numpy.uint8]:  # fmt: skip
    """RGB pixels [height, width, 3] of an attribution: red positive, blue negative, white zero.

    attribution: [channels, height, width] (channels are summed), [height, width], or a batch of one; a tensor or array.
    image: laid under the colours in grey, where given.
    signed: False draws magnitudes, white to purple: how much, and nothing about for or against.
    smooth: pixels; the width of a Gaussian that the map is smoothed with, for the eye.
    nothing: the value, over channels, up to which magnitudes are drawn as nothing.

    Raises PgigError for what is no map, for values that are not finite, and for an image of another size.

    >>> pgig.heatmap(torch.randn(3, 8, 8)).shape
    (8, 8, 3)
    """
    summed = strengths(attribution, signed=signed, smooth=smooth)
    if not signed:
        summed = numpy.maximum(summed - nothing, 0)
    limit = numpy.percentile(numpy.abs(summed), PERCENTILE) or numpy.abs(summed).max() or 1.0
    colours = _coloured(numpy.clip(summed / limit, -1, 1)[..., None], signed)
    if image is not None:
        grey = as_pixels(image).mean(-1, keepdims=True)
        if grey.shape[:2] != summed.shape:
            raise PgigError(f"an image of {grey.shape[:2]} pixels under an attribution of {summed.shape}")
        colours = colours * (0.45 + 0.55 * grey)
    return numpy.asarray((colours * 255).round(), dtype=numpy.uint8)


def colours_of(strength: float) -> tuple[int, int, int]:
    """Red, green and blue for a share of the largest, -1..1."""
    red, green, blue = (_coloured(numpy.array([strength]), True) * 255).round().astype(int).tolist()
    return red, green, blue


def scale_colours(signed: bool, steps: int = 255) -> NDArray[numpy.float64]:
    """The colours of a scale, from the lowest to the highest, [steps, 3] in 0..1: for legends."""
    return _coloured(numpy.linspace(-1 if signed else 0, 1, steps)[:, None], signed)


def strengths(attribution: Any, *, signed: bool = True, smooth: float = 0) -> NDArray[numpy.float64]:
    """An attribution as one number per pixel: the sum over channels, or the sum of magnitudes."""
    array = _as_array(attribution).astype(numpy.float64)
    summed = _summed(array if signed else numpy.abs(array))
    if not smooth:
        return summed
    reach = int(3 * smooth)
    weights = numpy.exp(-0.5 * (numpy.arange(-reach, reach + 1) / smooth) ** 2)
    weights /= weights.sum()
    for axis in (0, 1):
        padded = numpy.pad(summed, [(reach, reach) if a == axis else (0, 0) for a in (0, 1)], mode="symmetric")
        windows = numpy.lib.stride_tricks.sliding_window_view(padded, len(weights), axis)
        summed = windows @ weights
    return numpy.asarray(summed)


def _coloured(strength: NDArray[numpy.float64], signed: bool) -> NDArray[numpy.float64]:
    """Red where positive, blue where negative, white at zero; of [..., 1]. Or purple for what has no sign."""
    full = numpy.where(strength > 0, _RED, _BLUE) if signed else _PURPLE
    return numpy.asarray(1 - numpy.abs(strength) * (1 - full))


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
