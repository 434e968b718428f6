"""ROAD (Rong et al. 2022), as published: the whole set of removed pixels is imputed together, anew at every share."""

from dataclasses import dataclass, replace
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from pgig.degradation.dense import score_of
from pgig.degradation.protocol import Order, ranking
from pgig.draws import draws
from pgig.errors import PgigError
from pgig.measures.linear_imputation import imputed
from pgig.measures.setting import Attributions, Setting, pixel_maps
from pgig.network.outputs import answer_of
from pgig.records.measures import road_shares
from pgig.subject.context import Context
from pgig.subject.subject import Subject

_AT_ONCE = 8  # images of a forward pass


@dataclass(frozen=True)
class Road:
    """Records are the scores of the class with nothing removed and at every share, then 1 where it stayed the first.

    Everything is imputed anew at every share, so there is nothing that incremental inference could keep.
    """

    order: Order = "descending"
    noise: float = 0.01
    shares: str = "10/20/30/40/50/70/90"

    def __post_init__(self) -> None:
        road_shares(self.shares)
        if not 0 <= self.noise < float("inf"):
            raise PgigError(f"noise must not be negative, got {self.noise}")

    def __call__(
        self, subject: Subject, x: Tensor, target: Tensor, attributions: Attributions, context: Context
    ) -> dict[str, NDArray[numpy.float64]]:
        setting = Setting.of(context)
        names = setting.names(x)
        if callable(setting.score):
            raise PgigError("road takes the score 'probability' or 'logit', not a function")
        shares = road_shares(self.shares)
        size = self.noise / torch.tensor(setting.std)[:, None, None].to(x)
        noise = [[size * _noise(x, setting.seed, name, n) for n in range(len(shares))] for name in names]
        found = {}
        for method, maps in pixel_maps(attributions).items():
            orders = ranking(maps.flatten(1), self.order, names)
            rows: list[NDArray[numpy.float64]] = []
            for image, order, own in zip(x, orders, noise, strict=True):
                shown = [image, *(_without(image, order, share, own[n]) for n, share in enumerate(shares))]
                rows.append(self._judged(subject, torch.stack(shown), int(target[len(rows)]), setting.score))
            found[method] = numpy.stack(rows)
        return found

    def _judged(self, subject: Subject, shown: Tensor, target: int, score: Any) -> NDArray[numpy.float64]:
        with torch.no_grad():
            output = torch.cat([answer_of(subject(part.clone())) for part in torch.split(shown, _AT_ONCE)])
        scores = score_of(output, torch.full((len(shown),), target), score).double()
        stayed = output[1:].argmax(1) == target
        return torch.cat([scores, stayed.double()]).numpy()

    def with_constants(self, **constants: Any) -> "Road":
        return replace(self, **constants)


def _without(image: Tensor, order: Tensor, share: float, noise: Tensor) -> Tensor:
    """The image with this share of its pixels, the first in order, imputed."""
    removed = torch.zeros(order.shape, dtype=torch.bool)
    removed[order[: min(round(share * len(order)), len(order) - 1)]] = True  # of nothing, nothing can be imputed
    removed = removed.reshape(image.shape[1:])
    solved = torch.from_numpy(imputed(image.numpy(), removed.numpy())).to(image)
    return torch.where(removed, solved + noise, image)


def _noise(x: Tensor, seed: int, name: Any, share: int) -> Tensor:
    return torch.randn(x.shape[1:], generator=draws(seed, name, "road")(share), dtype=torch.float32).to(x)
