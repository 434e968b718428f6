"""Why the factor x - x0 matters: what it does to the order of patches, bright ones and dark ones apart."""

from io import BytesIO
from pathlib import Path

import numpy
import torch
from claims import Areas
from torch import Tensor

from pgig.degradation import PatchGrid, Protocol
from pgig.report.run import Run
from pgig.runs.parts import parts_of, read_sums
from pgig.similarity import spearman
from pgig.vision.folders import ImageFolder
from pgig.vision.preprocess import Preprocess

WITH, WITHOUT = "pgig", "integrated_pattern_attribution"
ORDERS = (WITH, WITHOUT, "pgig+absolute", "pgig+baseline=black", "pattern_attribution", "integrated_gradients")
_TOP = Protocol().steps


def signs(runs: Path) -> tuple[Areas, Areas]:
    """For every image: how well the orders with and without the factor agree, by patches; and the share of patches
    darker than the mean colour among the first hundred of each order, and among all.
    """
    run = Run.read(runs / "ablations")
    folder = ImageFolder.open(runs / "images" / "ablation")
    agreement: dict[str, list[float]] = {"all patches": [], "brighter": [], "darker": []}
    share: dict[str, list[float]] = {name: [] for name in ("all patches", *ORDERS)}
    for image, sums in _sums(run).items():
        light = _light(folder, image)
        for which, some in (("all patches", light == light), ("brighter", light > 0), ("darker", light < 0)):
            if int(some.sum()) > 1:
                agreement[which].append(spearman(sums[WITH][some], sums[WITHOUT][some]))
        share["all patches"].append(float((light < 0).double().mean()))
        for name in ORDERS:
            first = sums[name].argsort(descending=True)[:_TOP]
            share[name].append(float((light[first] < 0).double().mean()))
    return (
        {name: numpy.array(values) for name, values in agreement.items()},
        {name: numpy.array(values) for name, values in share.items()},
    )


def _sums(run: Run) -> dict[str, dict[str, Tensor]]:
    """image -> method -> [patches]."""
    found: dict[str, dict[str, Tensor]] = {}
    names = ImageFolder.open(run.folder.parent / "images" / "ablation").names
    for part in parts_of(names):
        for row in read_sums(run.folder, part)[0]:
            found.setdefault(row["image"], {})[row["method"]] = torch.tensor(row["sums"], dtype=torch.float64)
    return found


def _light(folder: ImageFolder, image: str) -> Tensor:
    """By patch, the sum of x - x0 over channels and pixels, x0 the mean colour."""
    preprocess = Preprocess()
    x = preprocess.normalise(preprocess.pixels(BytesIO(folder.read(image)), image))
    return PatchGrid(*x.shape[-2:], Protocol().patch).sums(x[None])[0]
