"""What the views of the page are given: plain values that turn into JSON. Nothing here computes an attribution."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy
from numpy.typing import NDArray
from PIL import Image

from pgig.drawing.encoded import as_address, grey_address
from pgig.drawing.heatmaps import heatmap, strengths
from pgig.errors import PgigError
from pgig.explainers.registry import explainers
from pgig.measures.top_tenth import agreements
from pgig.records.explanation import Explanation
from pgig.runs.explain import SMOOTH, is_blank, photo
from pgig.vision.pictures import Picture

_THUMBNAIL = 96  # pixels


def shown_map(
    explanation: Explanation, picture: Picture, *, title: str | None = None, note: str = "", own_photo: bool = False
) -> dict[str, Any]:
    """One card: the map's colours, and every pixel's rank, by which a view shows only the most important."""
    smooth = SMOOTH * min(picture.pixels.shape[1:])
    attribution, signed = explanation.attribution, explanation.signed
    blank = is_blank(explanation)
    return {
        "name": title or explanation.method,
        "about": explainers([explanation.method])[explanation.method].about,
        "sentence": explanation.sentence,
        "signed": signed,
        "map": as_address(heatmap(attribution[0], signed=signed, smooth=smooth, nothing=explanation.nothing)),
        "ranks": None if blank else grey_address(ranks(strengths(attribution[0], signed=signed, smooth=smooth))),
        "seconds": round(explanation.seconds, 2),
        "note": note,
        **({"photo": photo(picture)} if own_photo else {}),
    }


def ranks(values: NDArray[numpy.float64]) -> NDArray[numpy.uint8]:
    """For every pixel the share of pixels below it, from 0 to 255: what is the same everywhere is ranked as it lies."""
    order = values.reshape(-1).argsort(kind="stable")
    found = numpy.empty(values.size)
    found[order] = numpy.arange(values.size)
    return (found / max(1, values.size - 1) * 255).round().astype(numpy.uint8).reshape(values.shape)


def shown_classes(likeliest: Sequence[tuple[int, float]], names: Sequence[str], asked: Sequence[int]) -> dict[str, Any]:
    return {
        "classes": [
            {"index": index, "name": name, "share": share}
            for (index, share), name in zip(likeliest, names, strict=True)
        ],
        "asked": list(asked),
    }  # fmt: skip


def shown_agreement(explanations: Mapping[str, Explanation]) -> dict[str, Any]:
    """Rank correlations of patches, by magnitude, of all methods with one another."""
    maps = {
        name: strengths(one.attribution[0], signed=False) for name, one in explanations.items() if not is_blank(one)
    }
    if len(maps) < 2:
        raise PgigError("agreement is between methods: choose at least two that are not zero everywhere")
    return {"names": list(maps), "matrix": agreements(maps).round(3).tolist()}


def thumbnail(data: bytes) -> str:
    """Of an example, as an address."""
    with Image.open(BytesIO(data)) as image:
        small = image.convert("RGB")
        small.thumbnail((_THUMBNAIL, _THUMBNAIL))
    return as_address(numpy.asarray(small))
