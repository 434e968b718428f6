"""Superpixels: pieces of an image along its own edges (SLIC, Achanta et al. 2012)."""

from typing import Any

import numpy
from numpy.typing import NDArray

from pgig.errors import PgigError


def superpixels(
    image: NDArray[Any], segments: int
) -> NDArray[numpy.int64]:  # [channels, height, width] -> labels from 0
    """At most so many; of the image as the model sees it, with its values brought to 0..1."""
    try:
        from skimage.segmentation import slic
    except ImportError as error:
        raise PgigError(f"superpixels need scikit-image: pip install scikit-image ({error})") from error
    low, high = float(image.min()), float(image.max())
    scaled = (image - low) / (high - low) if high > low else numpy.zeros_like(image)
    found = slic(
        numpy.moveaxis(scaled.astype(numpy.float64), 0, -1), n_segments=segments, compactness=10, sigma=1,
        start_label=0, channel_axis=-1, convert2lab=len(image) == 3,
    )  # fmt: skip
    _, labels = numpy.unique(found, return_inverse=True)
    labels = labels.reshape(found.shape)
    return numpy.minimum(labels, segments - 1)  # SLIC can find a few more than it was asked for
