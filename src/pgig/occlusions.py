"""Occlusion maps (Zeiler and Fergus 2014): how much the score falls when a window of the image is covered."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any
from weakref import ref

import numpy
import torch
from torch import Tensor, nn

from pgig.degradation.dense import check_score, score_of
from pgig.errors import PgigError
from pgig.incremental import Plan, TracingError, plan_of
from pgig.incremental.covering import covered_outputs
from pgig.incremental.plan import Boxes

_ROWS = 32  # covered images at once
_TRIED = 3  # windows on which a plan is compared with whole forward passes
_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Occlusion:
    """Each pixel's mean, over the windows that cover it, of f(x) - f(x with the window covered)."""

    window: int = 16
    stride: int = 8
    baseline: float = 0.0  # what covers, in the model's normalised values
    about = "Fall of the score under a sliding cover (Zeiler and Fergus 2014)"

    def __post_init__(self) -> None:
        if not 1 <= self.stride <= self.window:
            raise PgigError(f"stride must be from 1 to the window's {self.window} pixels, got {self.stride}")

    @property
    def options(self) -> dict[str, Any]:
        return asdict(self)

    def __call__(
        self, model: nn.Module, x: Tensor, target: Tensor, score: str = "probability", incremental: bool = True
    ) -> Tensor:
        """Attributions shaped like x, [n, channels, height, width], the same in every channel.

        incremental: compute only what each window reaches, where the model can be treated so.
        """
        check_score(score)
        if x.dim() != 4:
            raise PgigError(f"occlusion needs images [n, channels, height, width], got shape {tuple(x.shape)}")
        boxes = self.boxes(x.shape[2], x.shape[3])
        found = _plan(model, x, boxes) if incremental else None
        return torch.cat(
            [self._map(model, x[n : n + 1], target[n : n + 1], score, boxes, found) for n in range(len(x))]
        )

    def boxes(self, height: int, width: int) -> Boxes:  # [windows, 2, (lo, hi)]
        """All windows, row by row. Those that would go beyond the border end there."""
        if self.window > min(height, width):
            raise PgigError(f"a window of {self.window} pixels does not fit images of {height} x {width}")
        down, across = (_intervals(size, self.window, self.stride) for size in (height, width))
        return numpy.array([[one, other] for one in down for other in across])

    def _map(self, model: nn.Module, x: Tensor, target: Tensor, score: str, boxes: Boxes, plan: Plan | None) -> Tensor:
        fill = torch.full_like(x, self.baseline)
        if plan is not None:
            outputs = covered_outputs(plan, x, boxes, fill, _ROWS)
        else:
            outputs = _whole_outputs(model, x, boxes, fill)
        with torch.no_grad():
            intact = score_of(model(x), target, score).double()
            scores = torch.cat([score_of(some, target.expand(len(some)), score) for some in outputs]).double()
        total = torch.zeros(x.shape[2:], dtype=torch.float64, device=x.device)
        covers = torch.zeros_like(total)
        for fall, ((top, bottom), (left, right)) in zip((intact - scores).tolist(), boxes.tolist(), strict=True):
            total[top:bottom, left:right] += fall
            covers[top:bottom, left:right] += 1
        return (total / covers).to(x.dtype).expand_as(x).clone()


def occlusion(
    model: nn.Module,
    inputs: Tensor,
    target: Tensor,
    *,
    window: int = 16,
    stride: int = 8,
    baseline: float = 0.0,
    score: str = "probability",
) -> Tensor:
    """An occlusion map for each image, shaped like the inputs. See `Occlusion`."""
    return Occlusion(window, stride, baseline)(model, inputs, target, score)


def _intervals(size: int, window: int, stride: int) -> list[tuple[int, int]]:
    count = -(-(size - window) // stride) + 1
    return [(n * stride, min(n * stride + window, size)) for n in range(count)]


def _whole_outputs(model: nn.Module, x: Tensor, boxes: Boxes, fill: Tensor) -> Iterator[Tensor]:
    """The definition: a forward pass for every window."""
    with torch.no_grad():
        for first in range(0, len(boxes), _ROWS):
            some = boxes[first : first + _ROWS]
            now = x.repeat(len(some), 1, 1, 1)
            for row, ((top, bottom), (left, right)) in enumerate(some):
                now[row, :, top:bottom, left:right] = fill[0, :, top:bottom, left:right]
            yield model(now)


# The last model with a plan, for the next image of the same shape. A plan has its own copies of some weights.
_kept: list[tuple[Any, Any, Plan | None]] = []


def _plan(model: nn.Module, x: Tensor, boxes: Boxes) -> Plan | None:
    """A plan that agrees with whole forward passes on a few windows; None where there is none."""
    state = [(t.data_ptr(), t._version) for t in (*model.parameters(), *model.buffers())]
    key = tuple(x.shape[1:]), x.dtype, x.device, model.training, state
    if _kept and _kept[0][0]() is model and _kept[0][1] == key:
        return _kept[0][2]
    try:
        plan = plan_of(model, x[:1])
        some = boxes[:: max(1, len(boxes) // _TRIED)][:_TRIED]
        fill = torch.zeros_like(x[:1])
        found = [torch.cat(list(each)) for each in (
            covered_outputs(plan, x[:1], some, fill, len(some)), _whole_outputs(model, x[:1], some, fill)
        )]  # fmt: skip
        agrees = bool(((found[0] - found[1]).abs() <= _TOLERANCE * found[1].abs().clamp(min=1)).all())
    except TracingError:
        agrees = False
    _kept[:] = [(ref(model), key, plan if agrees else None)]
    return _kept[0][2]
