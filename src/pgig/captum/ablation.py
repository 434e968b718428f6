"""Attributions by taking features away and looking at the score."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy
import torch
from torch import Tensor

from pgig.captum.arguments import (
    baselines_like,
    checked_members,
    forward_args,
    like_given,
    members_of,
    tiled,
    tiled_target,
)
from pgig.captum.base import Attribution
from pgig.errors import PgigError
from pgig.subject.inputs import Baseline, Tensors
from pgig.subject.scores import Target
from pgig.subject.subject import Subject


class Region(Protocol):
    """Some features of one member of the inputs."""

    def covered(self, x: Tensor, baseline: Tensor) -> Tensor: ...

    def add(self, total: Tensor, fall: Tensor) -> None: ...


@dataclass(frozen=True)
class Mask:
    features: Tensor  # bool, [1 or n, *input]

    def covered(self, x: Tensor, baseline: Tensor) -> Tensor:
        return torch.where(self.features, baseline, x)

    def add(self, total: Tensor, fall: Tensor) -> None:
        total += fall * self.features


@dataclass(frozen=True)
class Box:
    slices: tuple[slice, ...]

    def covered(self, x: Tensor, baseline: Tensor) -> Tensor:
        changed = x.clone()
        changed[:, *self.slices] = baseline[:, *self.slices]
        return changed

    def add(self, total: Tensor, fall: Tensor) -> None:
        total[:, *self.slices] += fall


Cover = Mapping[int, Region]  # what is taken away at once, by member


class FeatureAblation(Attribution):
    """The fall of the score when a feature, or a group of them, is replaced by the baseline.

    forward_func: the model, or any callable.
    `attribute` takes what Captum's takes; what does not fit raises a PgigError that is an AssertionError too.

    >>> from pgig.captum import FeatureAblation
    >>> x, linear = torch.tensor([[2.0, 5.0]]), lambda x: x[:, 0] - 3 * x[:, 1]
    >>> FeatureAblation(linear).attribute(x)
    tensor([[  2., -15.]])
    >>> FeatureAblation(linear).attribute(x, feature_mask=torch.tensor([[0, 0]]))  # both in one group
    tensor([[-13., -13.]])
    """

    @property
    def multiplies_by_inputs(self) -> bool:
        return True

    def attribute(
        self,
        inputs: Tensors,
        baselines: Baseline | None = None,
        target: Target = None,
        additional_forward_args: Any = None,
        feature_mask: Tensors | None = None,
        perturbations_per_eval: int = 1,
        show_progress: bool = False,
        enable_cross_tensor_attribution: bool = True,
    ) -> Any:
        """Shaped like the inputs; without a target, a row for each number that the model gives.

        feature_mask: numbers in the shape of the inputs (or of one): features with the same number, also in several
            tensors, are taken away together. Without, every feature by itself.
        perturbations_per_eval: covers that go through the model at once; more than 1 only where each row is by itself.
        enable_cross_tensor_attribution: False takes the same number in several tensors for several features.
        """
        members = checked_members(inputs)
        covers = _covers(_masks(feature_mask, members), enable_cross_tensor_attribution)
        total, _ = self._falls(
            covers, members, baselines, target, additional_forward_args, perturbations_per_eval, show_progress
        )
        return like_given(tuple(total), inputs)

    def _falls(
        self,
        covers: Sequence[Cover],
        members: tuple[Tensor, ...],
        baselines: Baseline | None,
        target: Target,
        additional: Any,
        at_once: int,
        show_progress: bool,
    ) -> tuple[list[Tensor], list[Tensor]]:
        """The sum of falls over all covers, for each feature; and how many covers it had."""
        check_at_once(at_once)
        Subject(self.forward_func).check([])
        members = _promoted(members, baselines)
        starts = baselines_like(baselines, members)
        intact = self._scores(members, target, additional)
        flat, count = intact.reshape(1, -1), len(members[0])
        total = [torch.zeros(intact.numel(), *x.shape[1:], dtype=intact.dtype, device=x.device) for x in members]
        times = [torch.zeros(t.shape, device=t.device) for t in total]
        for first in range(0, len(covers), at_once):
            some = covers[first : first + at_once]
            given = [
                torch.cat([cover[i].covered(x, starts[i]) if i in cover else x for cover in some])
                for i, x in enumerate(members)
            ]
            further = tuple(tiled(value, len(some), count) for value in forward_args(additional))
            scores = self._scores(tuple(given), tiled_target(target, len(some), count), further)
            if len(some) > 1 and scores.numel() != intact.numel() * len(some):
                raise PgigError(
                    f"perturbations_per_eval={at_once}, but what the model gives does not grow with its batch: "
                    f"{tuple(intact.shape)} for {count} rows, {tuple(scores.shape)} for {len(given[0])}"
                )
            for cover, falls in zip(some, flat - scores.reshape(len(some), -1), strict=True):
                for i, region in cover.items():
                    fall = falls.reshape(-1, *[1] * (members[i].dim() - 1)).to(total[i])
                    region.add(total[i], fall)
                    region.add(times[i], torch.ones_like(fall, dtype=times[i].dtype))
            if show_progress:
                _tell(self.get_name(), first + len(some), len(covers))
        return total, times


def check_at_once(at_once: Any) -> None:
    if not isinstance(at_once, int) or at_once < 1:
        raise PgigError(f"perturbations_per_eval must be a whole number of at least 1, got {at_once!r}")


def _promoted(members: tuple[Tensor, ...], baselines: Baseline | None) -> tuple[Tensor, ...]:
    """Whole numbers as floating point ones, where those take their place."""
    given = baselines if isinstance(baselines, tuple) else (baselines,) * len(members)

    def is_floating(baseline: Any) -> bool:
        return isinstance(baseline, float) or (isinstance(baseline, Tensor) and baseline.is_floating_point())

    pairs = zip(members, given, strict=False)
    return tuple(
        x.to(torch.get_default_dtype()) if is_floating(b) and not x.is_floating_point() else x for x, b in pairs
    )


def _masks(feature_mask: Tensors | None, members: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    if feature_mask is None:
        offsets = numpy.cumsum([0, *(x[0].numel() if len(x) else 0 for x in members)])
        return tuple(
            torch.arange(int(n), int(n) + x[:1].numel(), device=x.device).reshape(x[:1].shape)
            for n, x in zip(offsets[:-1], members, strict=True)
        )
    masks = members_of(feature_mask)
    if len(masks) != len(members):
        raise PgigError(f"{len(masks)} feature masks for {len(members)} inputs: give one each")
    for mask, x in zip(masks, members, strict=True):
        if not isinstance(mask, Tensor) or mask.is_floating_point() or mask.is_complex():
            kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
            raise PgigError(f"a feature mask is a tensor of whole numbers, got {kind}")
        try:
            mask.broadcast_to(torch.broadcast_shapes(mask.shape, x.shape))  # type: ignore[no-untyped-call]
        except RuntimeError:
            raise PgigError(f"a feature mask of shape {tuple(mask.shape)} does not fit {tuple(x.shape)}") from None
    return masks


def _covers(masks: tuple[Tensor, ...], across: bool) -> list[Cover]:
    """For each number in the masks, where it stands; across all of them, or in each by itself."""
    if not across:
        return [{i: Mask(mask == number)} for i, mask in enumerate(masks) for number in _numbers(mask)]
    where: dict[int, list[int]] = {}
    for i, mask in enumerate(masks):
        for number in _numbers(mask):
            where.setdefault(number, []).append(i)
    return [{i: Mask(masks[i] == number) for i in held} for number, held in sorted(where.items())]


def _numbers(mask: Tensor) -> list[int]:
    return [int(number) for number in numpy.unique(mask.cpu().numpy())]


def _tell(name: str, done: int, total: int) -> None:
    sys.stderr.write(f"\r{name} attribution: {done * 100 // total}% ({done} of {total})" + "\n" * (done == total))
