"""How patches are ranked and replaced."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from pgig.degradation.dense import Evaluator
from pgig.degradation.fills import PositiveChannels, find_fill
from pgig.degradation.grid import PatchGrid
from pgig.draws import draws
from pgig.errors import PgigError

Order = Literal["descending", "ascending", "random"]
# the paper's replacement; the released code's; and each half of its difference alone
Departure = Literal["paper", "released", "skip_top", "positive_channels"]


@dataclass(frozen=True)
class Protocol:
    """What is replaced, in which order, how often, and by what; the paper's unless told otherwise.

    patch: side in pixels. steps: scores to take. order: "descending", "ascending" or "random". departure: "paper", or
        what the released code does in its place.
    patches_per_step: replaced between two scores. fill: what replaces, such as "mean", "image_mean" or "blur=5".
    Raises PgigError for what is none of these.

    >>> len(pgig.degradation.Protocol(patch=8, steps=10).grid(torch.ones(1, 3, 64, 64)))
    64
    """

    patch: int = 9
    steps: int = 100
    patches_per_step: int = 1
    order: Order = "descending"
    fill: str = "mean"
    departure: Departure = "paper"

    def __post_init__(self) -> None:
        if self.order not in get_args(Order):
            raise PgigError(f"unknown order {self.order!r}; choose one of: {', '.join(get_args(Order))}")
        if self.departure not in get_args(Departure):
            raise PgigError(f"unknown protocol {self.departure!r}; choose one of: {', '.join(get_args(Departure))}")
        if self.order == "ascending" and self._skipped:
            raise PgigError(f"protocol {self.departure!r} skips the top patch: use it with the descending order")
        for what, number in (("patch", self.patch), ("steps", self.steps), ("patches per step", self.patches_per_step)):
            if number < 1:
                raise PgigError(f"{what} must be at least 1, got {number}")
        find_fill(self.fill)

    def grid(self, x: Tensor) -> PatchGrid:
        """The patches of these images, at least as many as are replaced."""
        grid = PatchGrid(x.shape[-2], x.shape[-1], self.patch)
        if self._replaced > len(grid) - self._skipped:
            raise PgigError(
                f"{self._replaced} patches to replace on images of {len(grid)}: take fewer steps, or smaller patches",
                lacks="patches",
            )
        return grid

    @property
    def _replaced(self) -> int:
        return self.steps * self.patches_per_step

    @property
    def _skipped(self) -> int:
        return int(self.departure in ("released", "skip_top"))

    def filled(self, x: Tensor, grid: PatchGrid) -> Tensor:
        """The images with every patch replaced."""
        fill = find_fill(self.fill)
        if self.departure in ("released", "positive_channels"):
            fill = PositiveChannels(fill)
        return fill(x, grid)

    def ranking(self, sums: Tensor, ids: Sequence[Hashable], seed: int) -> Tensor:  # [n, patches] -> [n, steps, r]
        """The patches to replace, in order, as many at each step as are replaced together."""
        found = ranking(sums, self.order, ids, seed)[:, self._skipped : self._skipped + self._replaced]
        return found.reshape(len(found), self.steps, self.patches_per_step)


def ranking(sums: Tensor, order: Order, ids: Sequence[Hashable], seed: int = 0) -> Tensor:  # [n, patches] -> the same
    """All patches in order. Among equals the earlier in the grid goes first, or last where ascending.

    sums: of patches. ids, seed: what a random order depends on. Raises PgigError for an order that is none, and sums
    that are not finite.

    >>> pgig.degradation.ranking(torch.tensor([[1.0, 3.0, 2.0]]), "descending", [0]).tolist()
    [[1, 2, 0]]
    """
    if not bool(sums.isfinite().all()):
        raise PgigError("attributions must be finite to rank patches by them")
    if order not in get_args(Order):
        raise PgigError(f"unknown order {order!r}; choose one of: {', '.join(get_args(Order))}")
    if order == "random":
        each = [torch.randperm(sums.shape[1], generator=draws(seed, identity, "random order")(0)) for identity in ids]
        return torch.stack(each)
    descending = torch.sort(sums, dim=1, descending=True, stable=True).indices
    return descending if order == "descending" else descending.flip(1)


def degrade(
    evaluator: Evaluator,
    x: Tensor,
    targets: Tensor,
    sums: Mapping[str, Tensor],
    protocol: Protocol,
    ids: Sequence[Hashable],
    seed: int = 0,
) -> dict[str, Tensor]:
    """The curves [n, steps + 1] of every method, from its patch sums [n, patches].

    evaluator: scores patched images, such as `DenseEvaluator(scored_by(model, "probability"))`.
    ids: what random orders depend on.
    targets: the class of each image, [n]. sums: of each method, its attributions summed over patches. seed: of random
    orders. Raises PgigError where images, classes and sums do not fit, or there are fewer patches than steps.

    >>> from pgig.degradation import DenseEvaluator, Protocol, degrade, scored_by
    >>> model, x, protocol = pgig.synthetic.embedded(), torch.randn(2, 3, 64, 64), Protocol(patch=8, steps=10)
    >>> sums = {"mine": protocol.grid(x).sums(torch.randn(2, 3, 64, 64))}
    >>> scored = DenseEvaluator(scored_by(model, "probability"))
    >>> degrade(scored, x, torch.zeros(2).long(), sums, protocol, ids=[0, 1])["mine"].shape
    torch.Size([2, 11])
    """
    grid = protocol.grid(x)
    if len(targets) != len(x):
        raise PgigError(f"{len(targets)} classes for {len(x)} images: give one for each")
    for name, of in sums.items():
        if of.shape != (len(x), len(grid)):
            raise PgigError(f"the patch sums of {name} have shape {tuple(of.shape)}, expected {(len(x), len(grid))}")
    rankings = torch.stack([protocol.ranking(of, ids, seed) for of in sums.values()], 1)
    found = evaluator.curves(x, protocol.filled(x, grid), rankings, targets, grid)
    return {name: found[:, number] for number, name in enumerate(sums)}
