"""Taking parts of a picture away, the most important first: what becomes of the shares of its classes."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from pgig.app.network import Network
from pgig.degradation.fills import find_fill
from pgig.degradation.grid import PatchGrid
from pgig.degradation.protocol import ranking
from pgig.drawing.encoded import as_address
from pgig.drawing.heatmaps import strengths
from pgig.records.explanation import Explanation
from pgig.runs.explain import photo
from pgig.vision.pictures import Picture

CONTROL = "random order"
FILLS = {"mean": "its own mean colour", "blur": "a blur", "image_mean": "the picture's mean colour"}
_BLOCK = 14  # steps between two looks at whether they are still wanted


@dataclass(frozen=True)
class Removal:
    """Orders of patches, and the shares of all classes after 0, 1, 2, ... of them are gone."""

    grid: PatchGrid
    filled: Tensor  # [1, channels, height, width]: what stands in each patch once it is replaced
    orders: Mapping[str, list[int]]
    shares: Mapping[str, NDArray[numpy.float64]]  # [steps so far + 1, classes]
    milliseconds: float  # a step of all orders took, on average

    @property
    def is_done(self) -> bool:
        return all(len(self.shares[name]) == len(order) + 1 for name, order in self.orders.items())


def removals(
    network: Network, picture: Picture, explanations: Mapping[str, Explanation], fill: str = "mean"
) -> Iterator[Removal]:
    """All that is computed so far, block by block; a random order stands beside the explanations' own."""
    protocol = network.protocol
    grid = protocol.grid(picture.x)
    filled = find_fill(fill)(picture.x, grid)
    sums = [grid.sums(torch.from_numpy(strengths(one.attribution[0], signed=one.signed).copy())[None, None])
            for one in explanations.values()]  # fmt: skip
    orders = [ranking(of, "descending", [picture.name]) for of in sums]
    orders.append(ranking(torch.zeros(1, len(grid)), "random", [picture.name]))
    rows = torch.cat(orders)[:, : protocol.steps]  # [orders, steps]
    names = [*explanations, CONTROL]
    classes = torch.arange(network.classes).expand(len(rows), -1)
    now, found, spent = picture.x.repeat(len(rows), 1, 1, 1), torch.empty(0), 0.0
    for first in range(0, protocol.steps, _BLOCK):
        some = rows[:, first : first + _BLOCK]
        begun = time.perf_counter()
        with network.working:
            part = network.evaluator().curves(now, filled.expand_as(now), some[:, None, :, None], classes, grid)[:, 0]
        spent += time.perf_counter() - begun
        found = part if first == 0 else torch.cat([found, part[:, 1:]], 1)
        gone = torch.zeros(len(rows), len(grid), dtype=torch.bool).scatter_(1, rows[:, : first + _BLOCK], True)
        now = torch.where(grid.mask(gone), filled, picture.x)
        yield Removal(
            grid, filled, dict(zip(names, rows.tolist(), strict=True)),
            dict(zip(names, found.numpy(), strict=True)), 1000 * spent / (found.shape[1] - 1),
        )  # fmt: skip


def shown_removal(network: Network, picture: Picture, removal: Removal, asked: tuple[int, ...]) -> dict[str, Any]:
    """For the view. Beside the class asked for stand its rivals: the likeliest others of the intact picture."""
    control = removal.shares[CONTROL]
    likeliest = control[0].argsort()[::-1].tolist()
    watched = list(dict.fromkeys([*asked, *likeliest]))[:5]
    return {
        "photo": photo(picture), "filled": as_address(pixels_of(network, removal.filled), quality=90),
        "side": {"height": removal.grid.height, "width": removal.grid.width, "patch": removal.grid.patch,
                 "columns": removal.grid.columns},
        "classes": [network.name_of(index) for index in watched],
        "orders": [
            {"name": name, "patches": removal.orders[name],
             "shares": removal.shares[name][:, watched].round(5).tolist(),
             "top": [network.name_of(int(index)) for index in removal.shares[name].argmax(1)]}
            for name in removal.orders
        ],
        "steps": len(next(iter(removal.orders.values()))), "milliseconds": round(removal.milliseconds, 1),
    }  # fmt: skip


def pixels_of(network: Network, x: Tensor) -> NDArray[numpy.uint8]:  # [1, 3, height, width], normalised
    """What the model takes, as a person would look at it."""
    preprocess = network.preprocess
    mean, std = (torch.tensor(values)[:, None, None] for values in (preprocess.mean, preprocess.std))
    pixels = x[0] * std + mean
    ordered = pixels if preprocess.channels == "RGB" else pixels.flip(0)
    return (ordered.clamp(0, 1).permute(1, 2, 0) * 255).round().byte().numpy()
