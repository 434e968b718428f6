"""A picture painted over by hand: what the network says of it then."""

from typing import Any

import torch
from torch import Tensor

from pgig.app.network import LIKELIEST, Network
from pgig.app.removal import pixels_of
from pgig.degradation.fills import Blurred
from pgig.degradation.grid import PatchGrid
from pgig.drawing.encoded import as_address
from pgig.errors import PgigError
from pgig.runs.explain import photo
from pgig.vision.pictures import Picture

_CELL = 4  # pixels: what the brush paints
_BLUR = 12  # pixels at 224: the width of the brush's Gaussian
_USUAL = 224


def canvas(network: Network, picture: Picture) -> dict[str, Any]:
    """What the brush needs: the picture, and what stands where it has painted."""
    filled = _filled(network, picture.x)
    return {
        "photo": photo(picture), "fills": {name: as_address(pixels_of(network, x), 90) for name, x in filled.items()},
        "cell": _CELL, "columns": -(-picture.x.shape[3] // _CELL), "rows": -(-picture.x.shape[2] // _CELL),
        "shares": _shares(network, picture.x, picture.x),
    }  # fmt: skip


def painted(network: Network, picture: Picture, cells: str, fill: str) -> dict[str, Any]:
    """cells: a `1` for every painted one, row by row."""
    rows, columns = (-(-side // _CELL) for side in picture.x.shape[2:])
    fills = _filled(network, picture.x)
    if len(cells) != rows * columns or set(cells) - {"0", "1"} or fill not in fills:
        raise PgigError("that painting does not fit the picture")
    mask = torch.tensor([cell == "1" for cell in cells]).reshape(rows, columns)
    mask = mask.repeat_interleave(_CELL, 0).repeat_interleave(_CELL, 1)[: picture.x.shape[2], : picture.x.shape[3]]
    return {"shares": _shares(network, picture.x, torch.where(mask, fills[fill], picture.x)),
            "painted": float(mask.float().mean())}  # fmt: skip


def _filled(network: Network, x: Tensor) -> dict[str, Tensor]:
    grid = PatchGrid(x.shape[2], x.shape[3], min(_CELL, *x.shape[2:]))
    sigma = max(1, round(_BLUR * min(x.shape[2:]) / _USUAL))
    return {
        "blur": Blurred(sigma)(Blurred(sigma)(x, grid), grid),
        "grey": network.preprocess.normalise(torch.full_like(x, 0.5)),
    }


def _shares(network: Network, before: Tensor, now: Tensor) -> list[dict[str, Any]]:
    """Of the likeliest classes before and now."""
    both = torch.cat([network.shares(before), network.shares(now)])  # one at a time: some take no more
    most = [index for row in both for index in row.topk(min(LIKELIEST, both.shape[1])).indices.tolist()]
    shown = list(dict.fromkeys(most))[: LIKELIEST + 2]
    return [{"name": network.name_of(i), "before": float(both[0, i]), "now": float(both[1, i])} for i in shown]
