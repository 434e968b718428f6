"""Occlusion: windows that slide over all axes of the inputs."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from pgig.captum.ablation import Box, Cover, FeatureAblation, check_at_once
from pgig.captum.arguments import baselines_like, checked_members, like_given
from pgig.captum.base import Attribution
from pgig.errors import PgigError
from pgig.explainers.window_outputs import window_outputs
from pgig.methods.rules import plain
from pgig.subject.inputs import Baseline, Tensors
from pgig.subject.rows import check_rows
from pgig.subject.scores import Target
from pgig.subject.subject import Subject


class Occlusion(FeatureAblation):
    """The mean fall of the score over the windows that cover a feature, which slide over all axes.

    Images of a module, one tensor, under windows through all channels are computed by what a window reaches, where
    the model can be treated so: the same numbers to rounding, and `perturbations_per_eval` does not matter.
    forward_func: the model, or any callable.
    `attribute` takes what Captum's takes; what does not fit raises a PgigError that is an AssertionError too.

    >>> from pgig.captum import Occlusion
    >>> x, total = torch.tensor([[1.0, 2.0, 3.0, 4.0]]), lambda x: x.sum(1)
    >>> Occlusion(total).attribute(x, sliding_window_shapes=(2,), strides=(2,))
    tensor([[3., 3., 7., 7.]])
    """

    def attribute(  # type: ignore[override]
        self,
        inputs: Tensors,
        sliding_window_shapes: tuple[Any, ...],
        strides: Any = None,
        baselines: Baseline | None = None,
        target: Target = None,
        additional_forward_args: Any = None,
        perturbations_per_eval: int = 1,
        show_progress: bool = False,
    ) -> Any:
        """sliding_window_shapes, strides: a number per axis behind the batch's; for a tuple of inputs, one for each."""
        members = checked_members(inputs)
        check_at_once(perturbations_per_eval)
        windows = _per_member(sliding_window_shapes, members, inputs, "sliding_window_shapes")
        steps = _per_member(1 if strides is None else strides, members, inputs, "strides")
        boxes = [list(_boxes(x, w, s)) for x, w, s in zip(members, windows, steps, strict=True)]
        if additional_forward_args is None and len(members) == 1:
            found = self._by_reach(members[0], boxes[0], baselines, target)
            if found is not None:
                return like_given((found,), inputs)
        covers: list[Cover] = [{i: Box(slices)} for i, listed in enumerate(boxes) for slices in listed]
        total, times = self._falls(
            covers, members, baselines, target, additional_forward_args, perturbations_per_eval, show_progress
        )
        return like_given(tuple(_mean(t, n) for t, n in zip(total, times, strict=True)), inputs)

    def _by_reach(
        self, x: Tensor, boxes: list[tuple[slice, ...]], baselines: Baseline | None, target: Target
    ) -> Tensor | None:
        """Image by image through the incremental engine; None where that is not to be had."""
        if not isinstance(self.forward_func, nn.Module) or x.dim() != 4 or not x.is_floating_point():
            return None
        if any((channels.start, channels.stop) != (0, x.shape[1]) for channels, _, _ in boxes):
            return None
        subject, fill = Subject(self.forward_func), baselines_like(baselines, (x,))[0]
        subject.check([plain])
        try:
            check_rows(subject, [x], [fill], "output", lambda given, _: subject(given[0].clone()))
        except PgigError:  # it mixes rows, or takes one at a time: whole forward passes, as they were asked for
            return None
        intact = self._scores((x,), target, None)
        if intact.shape != (len(x),):
            return None
        windows = numpy.array([[(s.start, s.stop) for s in box[1:]] for box in boxes])
        total, times = torch.zeros(x.shape[0], *x.shape[2:]).to(intact), torch.zeros(x.shape[2:]).to(intact)
        for _, down, across in boxes:
            times[down, across] += 1
        for row in range(len(x)):
            outputs = window_outputs(subject, x[row : row + 1], windows, fill[row : row + 1])
            given = Attribution(lambda _, found=outputs: found)  # what was computed, as a model's
            scores = given._scores((outputs,), _target_of(target, row, len(x)), None)
            for fall, (_, down, across) in zip((intact[row] - scores).tolist(), boxes, strict=True):
                total[row, down, across] += fall
        return _mean(total, times)[:, None].expand_as(x).clone()


def _mean(total: Tensor, times: Tensor) -> Tensor:
    return (total if total.is_floating_point() else total.float()) / times


def _target_of(target: Any, row: int, count: int) -> Any:
    if isinstance(target, list):
        return target[row]
    has_rows = isinstance(target, Tensor) and target.dim() > 0 and len(target) == count > 1
    return target[row] if has_rows else target


def _per_member(given: Any, members: tuple[Tensor, ...], inputs: Tensors, what: str) -> list[tuple[int, ...]]:
    by_member = isinstance(given, tuple) and (isinstance(inputs, tuple) or isinstance(given[0], tuple))
    listed = given if by_member else (given,) * len(members)
    if len(listed) != len(members):
        raise PgigError(f"{len(listed)} {what} for {len(members)} inputs: give one each")
    found = []
    for each, x in zip(listed, members, strict=True):
        numbers = (each,) * (x.dim() - 1) if isinstance(each, int) else tuple(each)
        if len(numbers) != x.dim() - 1 or any(n < 1 for n in numbers):
            raise PgigError(f"{what} {each!r} do not fit inputs {tuple(x.shape)}: give {x.dim() - 1} numbers from 1")
        found.append(numbers)
    return found


def _boxes(x: Tensor, window: tuple[int, ...], stride: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Windows that would go beyond the border end there."""
    axes = []
    for size, wide, step in zip(x.shape[1:], window, stride, strict=True):
        if wide > size:
            raise PgigError(f"a window of {window} does not fit inputs {tuple(x.shape[1:])}")
        if step > wide:
            raise PgigError(f"strides {stride} are larger than the window {window}: features would be left out")
        count = -(-(size - wide) // step) + 1
        axes.append([slice(n * step, min(n * step + wide, size)) for n in range(count)])
    yield from product(*axes)
