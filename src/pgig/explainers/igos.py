"""I-GOS (Qi, Khorram and Li 2019): the smallest, smoothest mask whose removal makes the score fall most."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pgig.attribution.attributions import attributions
from pgig.degradation.dense import check_score, score_of
from pgig.draws import draws
from pgig.errors import PgigError
from pgig.explainers.protocol import Needs, typed
from pgig.methods.table import METHODS
from pgig.network.outputs import answer_of
from pgig.subject.context import Context
from pgig.subject.inputs import checked_ids
from pgig.subject.subject import Subject

# of the released code, for images of 224 pixels; lengths are scaled to the image's
_SIDE = 224
_MASK, _KERNEL, _SIGMA = 112, 51, 50
_LARGEST_STEP, _SHRINK, _SMALLEST_STEP, _ALPHA = 200.0, 0.2, 1e-5, 1e-4


@dataclass(frozen=True)
class Igos:
    """One minus a mask that is optimised along integrated gradients: where it is 0, the image is blurred away.

    The mask goes down the gradient of `l1 * mean |1 - mask| + tv * total variation + score`, in which that of the
    score is integrated from the blurred image to the masked one, over noisy copies; a line search (Armijo's, as
    revised by the authors) finds the step. The constants are those of the authors' released code.
    """

    iterations: int = 15
    intervals: int = 20
    l1: float = 3.0
    tv: float = 60.0
    noise: float = 0.2
    about = "Optimised mask along integrated gradients (Qi et al. 2019)"

    def __post_init__(self) -> None:
        for count in (self.iterations, self.intervals):
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise PgigError(f"iterations and intervals must be whole numbers of at least 1, got {count!r}")
        numbers = (self.l1, self.tv, self.noise)
        if not all(isinstance(v, int | float) and not isinstance(v, bool) and 0 <= v < math.inf for v in numbers):
            raise PgigError(
                f"l1, tv and noise must be finite numbers of at least 0, got {self.l1}, {self.tv}, {self.noise}"
            )

    @property
    def options(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def work(self) -> int:
        """What progress counts, for one input."""
        return self.iterations

    @property
    def needs(self) -> Needs:
        return Needs()

    @property
    def shares(self) -> None:
        return None

    def with_options(self, **values: Any) -> "Igos":
        """The same with other options: `iterations=5`."""
        if unknown := values.keys() - self.options.keys():
            raise PgigError(f"no option {sorted(unknown)[0]}")
        return replace(self, **{key: typed(value, self.options[key]) for key, value in values.items()})

    def explain(self, subject: Subject, x: Tensor, target: Tensor, context: Context) -> Tensor:
        """Attributions shaped like x, the same in every channel, 0 (kept) to 1 (removed)."""
        if callable(context.score):
            raise PgigError("igos takes the score 'probability' or 'logit', not a function")
        check_score(context.score)
        if x.dim() != 4 or min(x.shape[2:]) < 2:
            raise PgigError("igos needs images, [n, channels, height, width]")
        with torch.no_grad():
            classes = answer_of(subject(x[:1].clone())).shape[-1]
        if int(target.min()) < 0 or int(target.max()) >= classes:
            raise PgigError(f"target {target.tolist()} is out of range: the model has {classes} classes")
        ids = checked_ids(context.ids, len(x))
        maps = []
        for n in range(len(x)):
            one = _Masking(self, subject, x[n : n + 1], target[n : n + 1], context, draws(context.seed, ids[n], self))
            maps.append(one.run(partial(_say, context, n * self.iterations, len(x) * self.iterations)))
        return torch.cat(maps).expand_as(x).clone()


def _say(context: Context, before: int, total: int, now: int) -> None:
    if context.progress is not None:
        context.progress(before + now, total)


class _Masking:
    """The mask of one image."""

    def __init__(
        self, asked: Igos, subject: Subject, x: Tensor, target: Tensor, context: Context,
        draw: Callable[[int], torch.Generator],
    ) -> None:  # fmt: skip
        self._asked, self._subject, self._x, self._target, self._context = asked, subject, x, target, context
        self._draw, self._l1 = draw, asked.l1
        self._far = blurred_away(x)

    def run(self, say: Callable[[int], None]) -> Tensor:
        mask = torch.ones(1, 1, *(_scaled(_MASK, side) for side in self._x.shape[2:])).to(self._x)
        scores = []
        for iteration in range(self._asked.iterations):
            scores.append(self._score(mask))
            gradient = self._gradient(mask, iteration)
            mask = self._stepped(mask, gradient, float(self._price(mask)) + scores[-1])
            self._relax(iteration, abs(scores[0] - scores[-1]))
            say(iteration + 1)
        return 1 - self._upsampled(mask)

    def _gradient(self, mask: Tensor, iteration: int) -> Tensor:
        """Of the whole loss; the score's is taken along the line from the blurred image to the masked one."""
        leaf = mask.detach().requires_grad_()
        with torch.enable_grad():
            up, price = self._upsampled(leaf), self._price(leaf)
        count = self._asked.intervals
        shares = torch.arange(1, count + 1).to(mask)[:, None, None, None] / count
        noise = torch.randn((count, *self._x.shape[1:]), generator=self._draw(iteration)).to(mask)
        places = self._far + shares * up.detach() * (self._x - self._far) + self._asked.noise * noise
        found = attributions(
            {"gradient": METHODS["gradient"]}, self._subject, places, self._target.expand(count),
            score=self._context.score, baseline=0, references=None, seed=0, ids=None,
            batch_size=self._context.batch_size, forward_args=(), forward_kwargs=None,
        )["gradient"]  # fmt: skip
        assert isinstance(found, Tensor)
        at_full_size = (found * shares * (self._x - self._far)).sum((0, 1), keepdim=True) / count
        (gradient,) = torch.autograd.grad([up, price], leaf, [at_full_size, torch.ones_like(price)])
        return gradient

    def _stepped(self, mask: Tensor, gradient: Tensor, loss: float) -> Tensor:
        """As far down as the loss falls enough for the length of the step; else the shortest step."""
        step, squared = _LARGEST_STEP, float(gradient.double().square().sum())
        while True:
            moved = (mask - step * gradient).clamp(0, 1)
            falls = float(self._price(moved)) + self._score(moved) <= loss - _ALPHA * step * squared
            if falls or step < _SMALLEST_STEP:
                return moved
            step *= _SHRINK

    def _relax(self, iteration: int, change: float) -> None:
        """Where the score hardly moves, a larger mask is allowed."""
        if self._asked.iterations <= 3:
            return
        if iteration == self._asked.iterations // 2 and change <= 0.001:
            self._l1 /= 10
        elif iteration == int(self._asked.iterations / 1.25) and change <= 0.01:
            self._l1 /= 5

    def _price(self, mask: Tensor) -> Tensor:
        down, across = (mask.diff(dim=axis).square().mean() for axis in (2, 3))
        return self._l1 * (1 - mask).abs().mean() + self._asked.tv * (down + across)

    def _score(self, mask: Tensor) -> float:
        with torch.no_grad():
            up = self._upsampled(mask)
            output = answer_of(self._subject(self._x * up + self._far * (1 - up)))
            return float(score_of(output, self._target, str(self._context.score)))

    def _upsampled(self, mask: Tensor) -> Tensor:
        return F.interpolate(mask, size=self._x.shape[2:], mode="bilinear", align_corners=True)


def blurred_away(x: Tensor) -> Tensor:
    """The image under a wide Gaussian, cut off where the authors' kernel ends."""
    for axis in (2, 3):
        side = x.shape[axis]
        reach = min(_scaled(_KERNEL // 2, side), side - 1)
        bell = torch.exp(-0.5 * (torch.arange(-reach, reach + 1) / (_SIGMA * side / _SIDE)) ** 2).to(x)
        kernel = (bell / bell.sum()).reshape(1, 1, *([-1, 1] if axis == 2 else [1, -1])).expand(x.shape[1], 1, -1, -1)
        pad = (0, 0, reach, reach) if axis == 2 else (reach, reach, 0, 0)
        x = F.conv2d(F.pad(x, pad, mode="reflect"), kernel, groups=x.shape[1])
    return x


def _scaled(length: int, side: int) -> int:
    return max(1, round(length * side / _SIDE))
