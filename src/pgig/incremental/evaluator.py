"""Curves by exact incremental inference: a step computes anew only what its patches can reach."""

from collections.abc import Callable

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from pgig.degradation.dense import Evaluator
from pgig.degradation.grid import PatchGrid
from pgig.errors import PgigError
from pgig.incremental.cost import dense_cost, window_cost
from pgig.incremental.plan import Boxes, Plan
from pgig.incremental.windows import Windows

_QUEUED = 128  # maps that wait until the rest of the model is computed for all
_SMALL = 2**17  # bytes: larger maps do not wait
_TRIED = 16  # steps, on which it is judged whether windows pay


class IncrementalEvaluator:
    """Batched over images and methods: `rows` pairs of them go through their steps side by side.

    whole: who takes over where a step changes so much of the image that windows cost more than whole passes.
    plan: of `plan_of`. score: of an output, (outputs, classes) -> scores. Images of another size raise PgigError.

    >>> from pgig.degradation import PatchGrid
    >>> from pgig.incremental import IncrementalEvaluator, plan_of
    >>> model, x, target = pgig.synthetic.embedded("plain"), torch.rand(1, 3, 64, 64), torch.tensor([2])
    >>> evaluator = IncrementalEvaluator(plan_of(model, x), lambda scores, of: scores[range(len(of)), of])
    >>> orders = torch.tensor([[[[5], [0], [1]]]])  # one image, one method, three steps of a patch each
    >>> curves = evaluator.curves(x, torch.zeros_like(x), orders, target, PatchGrid(64, 64, patch=9))
    >>> x[..., :9, 9:18] = x[..., :9, :9] = x[:, :, :9, 45:54] = 0  # patches 1, 0 and 5
    >>> torch.allclose(curves[0, 0, 3].float(), model(x)[0, 2], atol=1e-4)
    True
    """

    name = "incremental"

    def __init__(
        self,
        plan: Plan,
        score: Callable[[Tensor, Tensor], Tensor],
        rows: int = 16,
        whole: Evaluator | None = None,
    ) -> None:
        if rows < 1:
            raise PgigError(f"batch size must be at least 1, got {rows}")
        self._plan, self._score, self._rows, self._whole = plan, score, rows, whole

    @torch.inference_mode()
    def curves(self, x: Tensor, filled: Tensor, rankings: Tensor, targets: Tensor, grid: PatchGrid) -> Tensor:
        """As `pgig.degradation.Evaluator` says, by what each step reaches."""
        n, m, steps = rankings.shape[:3]
        orders = rankings.reshape(n * m, steps, rankings.shape[3]).numpy()
        if self._whole is not None and rankings.shape[3] > 1 and steps and not self._pay(_some_boxes(orders, grid)):
            return self._whole.curves(x, filled, rankings, targets, grid)
        result = torch.empty(n * m, steps + 1, *targets.shape[1:], dtype=torch.float64)
        patches = _patches(filled, grid)
        for first in range(0, n * m, self._rows):
            images = numpy.arange(first, min(first + self._rows, n * m)) // m
            self._plan.allocate(min(self._rows, n * m), x.device)
            shown, copies = numpy.unique(images, return_counts=True)
            self._plan.begin(x[torch.from_numpy(shown)], copies.tolist())
            waiting = _Waiting(
                self._plan, self._score, targets[torch.from_numpy(images)], result[first : first + len(images)]
            )
            waiting.add(0)
            for step in range(steps):
                self._replace(patches, images, orders[first : first + len(images), step], grid)
                waiting.add(step + 1)
            waiting.finish()
        return result.reshape(n, m, *result.shape[1:])

    @torch.inference_mode()
    def curves_by_pixel(self, x: Tensor, filled: Tensor, when: Tensor, steps: int, targets: Tensor) -> Tensor:
        """A box around all that goes at a step is computed anew."""
        n, m = when.shape[:2]
        result = torch.empty(n * m, steps + 1, dtype=torch.float64)
        flat, image_of = when.flatten(0, 1), torch.arange(n).repeat_interleave(m)
        if self._whole is not None and not self._pay(_boxes_at(flat, steps)):
            return self._whole.curves_by_pixel(x, filled, when, steps, targets)
        for first in range(0, n * m, self._rows):
            rows = slice(first, first + self._rows)
            images, own = image_of[rows], flat[rows]
            self._plan.allocate(min(self._rows, n * m), x.device)
            shown, copies = numpy.unique(images.numpy(), return_counts=True)
            self._plan.begin(x[torch.from_numpy(shown)], copies.tolist())
            waiting = _Waiting(self._plan, self._score, targets[images], result[rows])
            waiting.add(0)
            for step in range(1, steps + 1):
                changed, boxes = _boxes_of(own == step)
                for some in self._plan.alike(boxes) if len(changed) else ():
                    self._overwrite(changed[some], boxes[some], x, filled, own <= step, images)
                waiting.add(step)
            waiting.finish()
        return result.reshape(n, m, steps + 1)

    def _pay(self, boxes: Boxes) -> bool:  # [steps, r, 2, 2]
        """Are windows expected to be faster, on some steps, than whole passes?"""
        joined = self._joined(boxes)[1]
        return window_cost(self._plan, joined) * len(joined) / len(boxes) < dense_cost(self._plan)

    def _overwrite(
        self, rows: NDArray[numpy.int64], boxes: Boxes, x: Tensor, filled: Tensor, gone: Tensor, images: Tensor
    ) -> None:
        """Let boxes of rows, all made as large as the largest, be as they are now; and carry the change on."""
        whole = numpy.array(x.shape[2:])
        size = (boxes[..., 1] - boxes[..., 0]).max(0)
        starts = numpy.minimum(boxes[..., 0], whole - size)
        values = torch.stack([
            torch.where(gone[row][place], filled[images[row]][:, *place], x[images[row]][:, *place])
            for row, (top, left) in zip(rows.tolist(), starts.tolist(), strict=True)
            for place in [(slice(top, top + int(size[0])), slice(left, left + int(size[1])))]
        ])  # fmt: skip
        windows = Windows((starts[:, 0], starts[:, 1]), (int(size[0]), int(size[1])))
        self._plan.replace(rows, windows, values.contiguous(memory_format=torch.channels_last))
        self._plan.update(rows, numpy.stack([starts, starts + size], -1))

    def _replace(
        self, patches: Tensor, images: NDArray[numpy.int64], chosen: NDArray[numpy.int64], grid: PatchGrid
    ) -> None:
        """Replace some patches in every row, and carry the change on."""
        rows = numpy.repeat(numpy.arange(len(images)), chosen.shape[1])
        flat = chosen.reshape(-1)
        boxes = _boxes(chosen, grid).reshape(-1, 2, 2)
        values = patches[torch.from_numpy(images[rows]), torch.from_numpy(flat)]
        self._plan.replace(rows, Windows((boxes[:, 0, 0], boxes[:, 1, 0]), (grid.patch, grid.patch)), values)
        if chosen.shape[1] > 1:
            rows, boxes = self._joined(boxes.reshape(*chosen.shape, 2, 2))
        for some in self._plan.alike(boxes):
            self._plan.update(rows[some], boxes[some])

    def _joined(self, boxes: Boxes) -> tuple[NDArray[numpy.int64], Boxes]:  # [rows, r, 2, 2]
        """For each row all its boxes, or one that holds them, whichever is less work."""
        bounds = numpy.stack([boxes[..., 0].min(1), boxes[..., 1].max(1)], -1)
        together = self._plan.estimated_work(bounds)
        apart = self._plan.estimated_work(boxes.reshape(-1, 2, 2)).reshape(boxes.shape[:2]).sum(1)
        found = [bounds[row : row + 1] if together[row] <= apart[row] else boxes[row] for row in range(len(boxes))]
        return numpy.repeat(numpy.arange(len(boxes)), [len(some) for some in found]), numpy.concatenate(found)


class _Waiting:
    """Maps that wait for the rest of the model, so that its large layers see many at once."""

    def __init__(self, plan: Plan, score: Callable[[Tensor, Tensor], Tensor], targets: Tensor, result: Tensor) -> None:
        self._plan, self._score, self._targets, self._result = plan, score, targets, result
        self._rows = slice(0, len(targets))
        size = sum(map_[0].numel() * map_.element_size() for map_ in plan.maps(slice(0, 1)))
        self._most = max(1, _QUEUED // len(targets)) if size <= _SMALL else 1
        self._maps: list[list[Tensor]] = []
        self._steps: list[int] = []

    def add(self, step: int) -> None:
        maps = self._plan.maps(self._rows)
        self._maps.append([map_.clone() for map_ in maps] if self._most > 1 else maps)
        self._steps.append(step)
        if len(self._steps) == self._most:
            self.finish()

    def finish(self) -> None:
        if not self._steps:
            return
        together = [torch.cat(maps) if len(maps) > 1 else maps[0] for maps in zip(*self._maps, strict=True)]
        scores = self._score(self._plan.finish(together), torch.cat([self._targets] * len(self._steps)))
        by_step = scores.double().cpu().reshape(len(self._steps), *self._targets.shape)
        self._result[:, self._steps] = by_step.transpose(0, 1)
        self._maps, self._steps = [], []


def _boxes(chosen: NDArray[numpy.int64], grid: PatchGrid) -> Boxes:  # [..., r] -> [..., r, 2, 2]
    top, left = chosen // grid.columns * grid.patch, chosen % grid.columns * grid.patch
    return numpy.stack([numpy.stack([start, start + grid.patch], -1) for start in (top, left)], -2)


def _some_boxes(orders: NDArray[numpy.int64], grid: PatchGrid) -> Boxes:  # [rows, steps, r] -> [tried, r, 2, 2]
    """Of a few steps, evenly spread over all rows."""
    flat = orders.reshape(-1, orders.shape[2])
    return _boxes(flat[numpy.unique(numpy.linspace(0, len(flat) - 1, min(_TRIED, len(flat))).astype(int))], grid)


def _boxes_at(when: Tensor, steps: int) -> Boxes:  # [rows, height, width] -> [tried, 1, 2, 2]
    """Around what goes at a few steps, evenly spread."""
    tried = numpy.unique(numpy.linspace(1, steps, min(_TRIED, steps)).astype(int))
    return numpy.concatenate([_boxes_of(when[:1] == step)[1] for step in tried.tolist()])[:, None]


def _boxes_of(chosen: Tensor) -> tuple[NDArray[numpy.int64], Boxes]:  # [rows, height, width] bool
    """The rows that have any pixel chosen, and the smallest box around them in each."""
    rows = chosen.flatten(1).any(1).nonzero()[:, 0]
    ends = []
    for axis in (2, 1):  # what is left after reducing it: the lines down, then across
        lines = chosen[rows].any(axis)
        first = lines.int().argmax(1)
        last = lines.shape[1] - lines.flip(1).int().argmax(1)
        ends.append(torch.stack([first, last], 1))
    return rows.numpy(), torch.stack(ends, 1).numpy()


def _patches(filled: Tensor, grid: PatchGrid) -> Tensor:  # -> [n, patches, channels, patch, patch]
    n, channels = filled.shape[:2]
    side = grid.patch
    inner = filled[:, :, : grid.rows * side, : grid.columns * side]
    inner = inner.reshape(n, channels, grid.rows, side, grid.columns, side).permute(0, 2, 4, 1, 3, 5)
    return inner.reshape(n, len(grid), channels, side, side)
