"""Why the factor x - x0 matters: what it does to the order of patches, bright ones and dark ones apart."""

from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path

import torch
from plan import DIGITS
from torch import Tensor

from pgig.degradation import Protocol
from pgig.measures.similarity import spearman
from pgig.records.part_files import read_sums
from pgig.records.parts import parts_of
from pgig.vision.image_folder import ImageFolder
from pgig.vision.preprocess import Preprocess

WITH, WITHOUT = "pgig", "integrated_pattern_attribution"
ORDERS = (WITH, WITHOUT, "pgig+absolute", "pgig+baseline=black", "pattern_attribution", "integrated_gradients")
_TOP = Protocol().steps


def sign_rows(runs: Path) -> Iterator[list[object]]:
    """Image by image: how well the orders with and without the factor agree, by patches; and the share of patches
    darker than the mean colour among the first hundred of each order, and among all.
    """
    folder = ImageFolder.open(runs / "images" / "ablation")
    for image, sums in _sums(runs / "ablations", folder.names).items():
        light = _light(folder, image)
        for which, some in (("all patches", light == light), ("brighter", light > 0), ("darker", light < 0)):
            if int(some.sum()) > 1:
                yield [image, "agreement", which, round(spearman(sums[WITH][some], sums[WITHOUT][some]), DIGITS)]
        yield [image, "dark", "all", round(_dark(light), DIGITS)]
        for name in ORDERS:
            yield [image, "dark", name, round(_dark(light[sums[name].argsort(descending=True)[:_TOP]]), DIGITS)]


def _dark(light: Tensor) -> float:
    return float((light < 0).double().mean())


def _sums(run: Path, images: Sequence[str]) -> dict[str, dict[str, Tensor]]:
    """image -> method -> [patches]."""
    found: dict[str, dict[str, Tensor]] = {}
    for part in parts_of(images):
        for row in read_sums(run, part).rows:
            found.setdefault(row["image"], {})[row["method"]] = torch.tensor(row["sums"], dtype=torch.float64)
    return found


def _light(folder: ImageFolder, image: str) -> Tensor:
    """By patch, the sum of x - x0 over channels and pixels, x0 the mean colour."""
    preprocess = Preprocess()
    x = preprocess.normalise(preprocess.pixels(BytesIO(folder.read(image)), image))
    return Protocol().grid(x[None]).sums(x[None])[0]
