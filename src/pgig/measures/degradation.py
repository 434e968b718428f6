"""Degradation: the score as patches are replaced in the order of an attribution."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from pgig.degradation import Evaluator, Protocol, degrade
from pgig.measures.setting import Attributions, Setting
from pgig.subject.context import Context
from pgig.subject.subject import Subject

Curves = dict[str, NDArray[numpy.float64]]


@dataclass(frozen=True)
class Degradation:
    """Records are the curves [n, steps + 1] of every method.

    protocol: what is replaced. evaluator: who scores; without, the fastest that fits. Raises PgigError where images are
    too small for the patches.

    >>> from pgig.measures import Degradation, judge
    >>> model, x, target = pgig.synthetic.embedded("plain"), torch.rand(2, 3, 64, 64), torch.tensor([0, 3])
    >>> maps = {"gradient": pgig.attribute("gradient", model, x, target)}
    >>> found = judge("morf", model, x, target, maps, by=Degradation(pgig.degradation.Protocol(steps=10)))
    >>> found["gradient"]["AUC"].shape
    (2,)
    """

    protocol: Protocol = field(default_factory=Protocol)
    evaluator: Evaluator | None = None  # without, the setting's

    def __call__(
        self, subject: Subject, x: Tensor, target: Tensor, attributions: Attributions, context: Context
    ) -> Curves:
        setting = Setting.of(context)
        sums = setting.sums_of(attributions, self.protocol.grid(x))
        if (before := setting.kept.get(self.protocol)) is not None and before.fits(x, target, sums):
            return dict(before.curves)
        shared = dict([next(iter(sums.items()))]) if self.protocol.order == "random" else sums  # one order for all
        evaluator = self.evaluator or setting.evaluator_for(subject)
        found = degrade(evaluator, x, target, shared, self.protocol, setting.names(x), setting.seed)
        curves = {name: found[name if name in found else next(iter(found))].numpy() for name in sums}
        setting.kept[self.protocol] = _Kept(x, target, sums, curves)
        return curves

    def with_constants(self, **constants: Any) -> "Degradation":
        """The same with other constants of the protocol."""
        return replace(self, protocol=replace(self.protocol, **constants))


@dataclass(frozen=True)
class _Kept:
    """Curves, and what they are of."""

    x: Tensor
    target: Tensor
    sums: Mapping[str, Tensor]
    curves: Curves

    def fits(self, x: Tensor, target: Tensor, sums: Mapping[str, Tensor]) -> bool:
        same = x is self.x and torch.equal(target, self.target) and list(sums) == list(self.sums)
        return same and all(torch.equal(sums[name], self.sums[name]) for name in sums)


@dataclass(frozen=True)
class Between:
    """Records are the differences [n, steps + 1] of the curves, least relevant first minus most relevant first."""

    protocol: Protocol = field(default_factory=Protocol)

    def __post_init__(self) -> None:
        replace(self.protocol, order="ascending")  # refuses protocols that have no such order

    def __call__(
        self, subject: Subject, x: Tensor, target: Tensor, attributions: Attributions, context: Context
    ) -> Curves:
        setting = Setting.of(context)
        most, least = (
            Degradation(replace(self.protocol, order=order))(subject, x, target, attributions, setting)
            for order in ("descending", "ascending")
        )
        return {name: least[name] - most[name] for name in most}

    def with_constants(self, **constants: Any) -> "Between":
        """The same with other constants of the protocol."""
        return replace(self, protocol=replace(self.protocol, **constants))


def all_curves(found: Tensor, names: Any) -> Curves:  # [n, m, points]
    """By method."""
    return {name: numpy.asarray(torch.as_tensor(found[:, number])) for number, name in enumerate(names)}
