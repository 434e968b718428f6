"""What a model gives for an image under each of many windows: by what a window reaches, or by whole forward passes."""

import warnings
from collections.abc import Callable, Iterator

import numpy
import torch
from torch import Tensor

from pgig.errors import PgigWarning
from pgig.incremental import TracingError
from pgig.incremental.agreement import agrees
from pgig.incremental.covering import covered_outputs
from pgig.incremental.kept_plans import forget_plan, plan_for
from pgig.incremental.plan import Boxes
from pgig.network.outputs import answer_of
from pgig.subject.subject import Subject

_ROWS = 32  # covered images at once
_TRIED = 3  # windows that are also computed whole
OCCLUSION_BYTES = 512 * 2**20  # of activations that are kept, at most


Say = Callable[[int], object]  # how many windows are done


def window_outputs(
    subject: Subject, x: Tensor, boxes: Boxes, fill: Tensor, incremental: bool = True, say: Say = lambda done: None
) -> Tensor:
    """Outputs for one image, [windows, ...]. boxes: [windows, 2, (lo, hi)]; fill: what covers, shaped like x."""
    with torch.no_grad():
        outputs = _incremental_outputs(subject, x, boxes, fill, say) if incremental else None
        return _joined(_whole_outputs(subject, x, boxes, fill), say) if outputs is None else outputs


def _joined(parts: Iterator[Tensor], say: Say) -> Tensor:
    found: list[Tensor] = []
    for part in parts:
        found.append(part)
        say(sum(map(len, found)))
    return torch.cat(found)


def _whole_outputs(subject: Subject, x: Tensor, boxes: Boxes, fill: Tensor) -> Iterator[Tensor]:
    """The definition: a forward pass for every window."""
    with torch.no_grad():
        for first in range(0, len(boxes), _ROWS):
            some = boxes[first : first + _ROWS]
            now = x.repeat(len(some), 1, 1, 1)
            for row, ((top, bottom), (left, right)) in enumerate(some):
                now[row, :, top:bottom, left:right] = fill[0, :, top:bottom, left:right]
            yield answer_of(subject(now))


def _incremental_outputs(subject: Subject, x: Tensor, boxes: Boxes, fill: Tensor, say: Say) -> Tensor | None:
    """By what each window reaches; None where the model cannot be treated so.

    A few windows are also computed whole: a plan that says otherwise, since the model has changed or is beyond it, is
    made anew once, and then given up.
    """
    some = numpy.unique(numpy.linspace(0, len(boxes) - 1, _TRIED).astype(int))
    wanted = torch.cat(list(_whole_outputs(subject, x, boxes[some], fill)))
    intact = answer_of(subject(x.clone()))
    for first in (True, False):
        if not first:
            forget_plan(subject)
        try:
            plan = plan_for(subject, x)
            rows = max(1, min(_ROWS, OCCLUSION_BYTES // plan.bytes_per_row - 1))
            found = _joined(covered_outputs(plan, x, boxes, fill, rows), say)
        except TracingError:
            return None
        except RuntimeError:  # what a model that has changed since may lead to
            continue
        if agrees(found[some], wanted, intact):
            return found
    warnings.warn("occlusion is computed whole: windows alone gave other results", PgigWarning, stacklevel=4)
    return None
