"""What a model says of an image with a box of it covered, for many boxes, each by itself."""

from collections.abc import Iterator

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from pgig.incremental.plan import Boxes, Plan
from pgig.incremental.windows import Windows


@torch.inference_mode()
def covered_outputs(plan: Plan, x: Tensor, boxes: Boxes, fill: Tensor, rows: int) -> Iterator[Tensor]:
    """Outputs [rows, ...] for one box after another, some at a time.

    x, fill: one image and what stands in its boxes, [1, channels, height, width].
    """
    rows = min(rows, len(boxes))
    plan.allocate(rows + 1, x.device)
    plan.begin(x, [rows + 1])  # the last row stays as it is
    for first in range(0, len(boxes), rows):
        some = boxes[first : first + rows]
        _cover(plan, some, fill)
        computed = []
        for alike in plan.alike(some):
            computed.append((alike, plan.update(alike, some[alike])))
        yield plan.result(slice(0, len(some))).clone()
        for alike, windows in computed:
            plan.restore(alike, windows, rows)


def _cover(plan: Plan, boxes: Boxes, fill: Tensor) -> None:
    """Write what stands in each box; those at the border may be smaller."""
    sizes = boxes[:, :, 1] - boxes[:, :, 0]
    for height, width in {(int(h), int(w)) for h, w in sizes}:
        rows: NDArray[numpy.int64] = numpy.flatnonzero((sizes == (height, width)).all(1))
        values = torch.cat([fill[:, :, a:b, c:d] for (a, b), (c, d) in boxes[rows]])
        plan.replace(rows, Windows((boxes[rows, 0, 0], boxes[rows, 1, 0]), (height, width)), values)
