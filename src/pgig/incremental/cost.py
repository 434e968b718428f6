"""What windows cost against whole passes: fixed numbers, not a stopwatch, so that equal requests choose alike.

Costs are counted in multiply-adds. A call costs something before it computes anything, which makes small windows
dear; so does every map or window that is read from what is kept or written to it; and so does a byte. The numbers were
fitted to measured times of twenty networks; benchmarks/evaluators.py has them side by side.
"""

from collections.abc import Sequence

import numpy

from pgig.incremental.arrangement import Step
from pgig.incremental.plan import Boxes, Plan
from pgig.incremental.windows import Pair

CALL = 3e6  # one operation, on some windows or maps
MOVE = 6.5e6  # reading or writing windows of what is kept
BYTE = 1.7
MOVED_BYTE = 0.6
DENSE_AT_ONCE = 4  # images of a whole pass


def dense_cost(plan: Plan) -> float:
    """Of a whole forward pass of one image."""
    total = float(plan.rest_work)
    for step in plan.steps:
        if step.operation is not None:
            total += CALL / DENSE_AT_ONCE + _computing(step, step.size) + BYTE * _bytes(plan.steps, step, step.size)
    return total


def window_cost(plan: Plan, boxes: Boxes) -> float:
    """Of computing anew what each of the boxes reaches, on average; boxes of one row each."""
    total = 0.0
    for some in plan.alike(boxes):
        for step, windows in zip(plan.steps, plan.windows(boxes[some]), strict=True):
            if step.operation is None:
                continue
            moved = sum(not fresh for fresh in step.fresh) + len(step.caches)
            touched = _bytes(plan.steps, step, windows.size)
            each = _computing(step, windows.size) + (BYTE + MOVED_BYTE * moved) * touched
            total += CALL + MOVE * moved + len(some) * each
    return total / len(boxes) + plan.rest_work


def time_gain(plan: Plan, boxes: Boxes) -> float:
    """How many times faster windows are expected to be."""
    return dense_cost(plan) / window_cost(plan, boxes)


def some_boxes(boxes: Boxes, most: int) -> Boxes:
    """At most so many of all, evenly spread."""
    chosen = numpy.unique(numpy.linspace(0, len(boxes) - 1, min(most, len(boxes))).astype(int))
    return numpy.asarray(boxes[chosen])


def _computing(step: Step, size: Pair) -> float:
    assert step.operation is not None
    return float(step.operation.work * size[0] * size[1])


def _bytes(steps: Sequence[Step], step: Step, size: Pair) -> float:
    """Read and written for an output of this size."""
    assert step.operation is not None
    needed = [
        axis.needed(numpy.zeros(1, numpy.int64), min(wide, axis.size))[1]
        for axis, wide in zip(step.operation.axes, size, strict=True)
    ]
    read = sum(steps[number].channels * steps[number].dtype.itemsize for number in step.inputs) * needed[0] * needed[1]
    return float(read + step.channels * step.dtype.itemsize * size[0] * size[1])
