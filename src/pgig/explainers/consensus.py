"""Consensus: the mean rank of several views of one image (docs/consensus.md)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy
import torch
from torch import Tensor

from pgig.errors import PgigError
from pgig.explainers.methods import MethodExplainer
from pgig.explainers.occlusion import Occlusion
from pgig.explainers.protocol import Explainer, Needs
from pgig.explainers.together import explain_group, needing_patterns, needing_references, sharing
from pgig.methods.table import METHODS
from pgig.statistics import ranks
from pgig.subject.context import Context
from pgig.subject.subject import Subject

Views = Mapping[str, Explainer]


@dataclass(frozen=True)
class Consensus:
    """The mean over views of each pixel's rank, 0 to 1, by its attribution summed over channels.

    Ranks have no unit and no outliers, so that views of different kinds count alike; views that share their passes
    are explained together. The attribution is the same in all channels and sums up to the mean rank.
    """

    views: Views
    about: str = "Mean rank of several views"

    @property
    def options(self) -> dict[str, Any]:
        return {}

    @property
    def needs(self) -> Needs:
        return Needs(
            patterns=bool(needing_patterns(self.views)), references=bool(needing_references(self.views)),
            memory=max(view.needs.memory for view in self.views.values()),
        )  # fmt: skip

    @property
    def shares(self) -> None:
        return None

    @property
    def gradients(self) -> int:
        """Forward passes with gradients for one input; views on the same path share them."""
        points = {view.method.points for view in self.views.values() if isinstance(view, MethodExplainer)}
        return sum(each.count for each in points)

    @property
    def work(self) -> int:
        """What progress counts, for one input: hundredths."""
        return 100

    def with_options(self, **values: Any) -> Self:
        if values:
            raise PgigError(f"no option {sorted(values)[0]}")
        return self

    def explain(self, subject: Subject, x: Tensor, target: Tensor, context: Context) -> Tensor:
        if not isinstance(x, Tensor) or x.dim() != 4:
            raise PgigError("a consensus ranks the pixels of images, [n, channels, height, width]")
        found: dict[str, Tensor] = {}
        groups = sharing({name: fitting(view, x) for name, view in self.views.items()})
        for place, group in enumerate(groups):
            told = replace(context, baseline=0, progress=self._progress(context, place, len(groups), len(x)))
            found |= explain_group(group, subject, x, target, told)
        mean = torch.stack([pixel_ranks(each) for each in found.values()]).mean(0)
        return (mean / x.shape[1]).expand_as(x).to(x.dtype).clone()

    def _progress(self, context: Context, place: int, groups: int, images: int) -> Callable[[int, int], object] | None:
        say = context.progress
        if say is None:
            return None
        return lambda done, total: say(
            round(self.work * images * (place + done / max(1, total)) / groups), self.work * images
        )


@dataclass(frozen=True)
class PatternConsensus(Consensus):
    """Three views that fail in different ways: removal, a path of gradients, and patterns along the same path."""

    views: Views = field(
        default_factory=lambda: {
            "removal": Occlusion(),
            "path": MethodExplainer(METHODS["integrated_gradients"]),
            "patterns": MethodExplainer(METHODS["integrated_pattern_attribution"], absolute=True),
        }
    )
    about: str = "Mean rank of three views: removal, a path, patterns"


def pixel_ranks(attribution: Tensor) -> Tensor:  # [n, channels, height, width] -> [n, 1, height, width]
    """Each pixel's place among those of its image, 0 to 1, by the sum over channels; equal ones share theirs."""
    summed = attribution.detach().double().sum(1).flatten(1).cpu().numpy()
    places = numpy.stack([ranks(of_image) for of_image in summed]) - 1
    found = torch.from_numpy(places / max(1, summed.shape[1] - 1)).to(attribution.device)
    return found.reshape(len(attribution), 1, *attribution.shape[2:])


def fitting(view: Explainer, x: Tensor) -> Explainer:
    """Occlusion with a window that leaves something to compare: a quarter of a small image's side."""
    side = min(x.shape[2:])
    if not isinstance(view, Occlusion) or side >= 2 * view.window:
        return view
    window = max(1, side // 4)
    return view.with_options(window=window, stride=max(1, window // 2))
