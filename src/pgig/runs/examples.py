"""A few images of a run as they are degraded, kept for the report: what goes when, and what the score does."""

from collections.abc import Sequence
from typing import Any

import numpy
import torch
from torch import Tensor

from pgig.degradation import Protocol
from pgig.files import written
from pgig.runs.job import Job
from pgig.runs.judging import Explained


def write_examples(job: Job, some: Sequence[Explained], rows: Sequence[dict[str, Any]]) -> None:
    """A file each, where the run measures what happens as the most relevant patches go first."""
    asked = next((asked for asked in job.asked.judged_by.values() if asked.measure.name == "morf"), None)
    if asked is None:
        return
    protocol = Protocol(**asked.constants)
    for one in some:
        curves = {r["method"]: r["values"] for r in rows if r["image"] == one.name and r["measure"] == asked.label}
        x = one.x[None]
        grid = protocol.grid(x)
        orders = [protocol.ranking(_sums(one, m, grid)[None], [one.name], job.asked.seed)[0] for m in curves]
        arrays: dict[str, Any] = {
            "image": _pixels(one.x, job), "filled": _pixels(protocol.filled(x, grid)[0], job),
            "methods": numpy.array(list(curves)), "curves": numpy.array(list(curves.values())),
            "orders": torch.stack(orders).numpy().astype(numpy.int32), "patch": numpy.array(grid.patch),
        }  # fmt: skip
        name = f"{job.names.index(one.name)}-{one.name.rpartition('/')[2][-40:]}.npz"  # longer may be too long
        with written(job.asked.out / "examples" / name) as path, path.open("wb") as file:
            numpy.savez_compressed(file, **arrays)


def _sums(one: Explained, method: str, grid: Any) -> Tensor:
    return grid.sums(one.attributions[method][None])[0] if one.attributions else one.sums[method]


def _pixels(x: Tensor, job: Job) -> Any:  # [3, height, width] -> [height, width, 3], 0..255
    """As a person would look at it."""
    preprocess = job.asked.preprocess
    values = x * torch.tensor(preprocess.std)[:, None, None] + torch.tensor(preprocess.mean)[:, None, None]
    ordered = values if preprocess.channels == "RGB" else values.flip(0)
    return (ordered.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).numpy()
