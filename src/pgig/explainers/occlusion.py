"""Occlusion maps (Zeiler and Fergus 2014): how much the score falls when a window of the image is covered."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy
import torch
from torch import Tensor, nn

from pgig.degradation.dense import check_score, score_of
from pgig.errors import PgigError
from pgig.explainers.protocol import Needs, typed
from pgig.explainers.window_outputs import OCCLUSION_BYTES, Say, window_outputs
from pgig.incremental.plan import Boxes
from pgig.methods.rules import plain
from pgig.network.outputs import answer_of
from pgig.subject.context import Context
from pgig.subject.rows import check_rows
from pgig.subject.scores import Score, Target
from pgig.subject.subject import Subject


@dataclass(frozen=True)
class Occlusion:
    """Each pixel's mean, over the windows that cover it, of f(x) - f(x with the window covered)."""

    window: int = 16
    stride: int = 8
    baseline: float = 0.0  # what covers, in the model's normalised values
    about = "Fall of the score under a sliding cover (Zeiler and Fergus 2014)"

    def __post_init__(self) -> None:
        if not math.isfinite(self.baseline):
            raise PgigError(f"baseline must be a finite number, got {self.baseline}")
        if self.window < 1:
            raise PgigError(f"the window must be at least 1 pixel wide, got {self.window}")
        if not 1 <= self.stride <= self.window:
            raise PgigError(f"stride must be from 1 to the window's {self.window} pixels, got {self.stride}")

    @property
    def options(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def needs(self) -> Needs:
        return Needs(memory=OCCLUSION_BYTES)

    @property
    def work(self) -> int:
        """What progress counts, for one input: hundredths of its windows."""
        return 100

    @property
    def shares(self) -> None:
        return None

    def with_options(self, **values: Any) -> Self:
        """The same with other options: `window=8`."""
        if unknown := values.keys() - self.options.keys():
            raise PgigError(f"no option {sorted(unknown)[0]}")
        return replace(self, **{key: typed(value, self.options[key]) for key, value in values.items()})

    def explain(self, subject: Subject, x: Tensor, target: Tensor, context: Context) -> Tensor:
        def say(images: float) -> None:
            if context.progress is not None:
                context.progress(round(self.work * images), self.work * len(x))

        return self(subject, x, target, context.score, say=say)

    def __call__(
        self,
        model: nn.Module | Subject,
        x: Tensor,
        target: Target = None,
        score: Score = "probability",
        incremental: bool = True,
        say: Callable[[float], object] = lambda images: None,
    ) -> Tensor:
        """Attributions shaped like x, [n, channels, height, width], the same in every channel.

        target: a class for all, one for each, or None for the predicted ones.
        score: "probability", "logit", or a function of the model's output that gives one number for each input.
        incremental: compute only what each window reaches, where the model can be treated so.
        say: told how many images are done, in fractions.
        """
        if not callable(score):
            check_score(score)
        subject = Subject.of(model)
        subject.check([plain])
        if not isinstance(x, Tensor) or x.dim() != 4 or len(x) == 0:
            raise PgigError("occlusion needs a tensor of images, [n, channels, height, width]")
        if not bool(x.isfinite().all()):
            raise PgigError("inputs have NaN or infinite values")
        classes = None if callable(score) else _classes(subject, x, target)
        check_rows(
            subject, [x], [torch.full_like(x, self.baseline)], score, lambda given, _: subject(given[0].clone()),
            remedy="occlusion, which puts many covered images through at once, cannot take it",
        )  # fmt: skip
        boxes = self.boxes(x.shape[2], x.shape[3])
        maps = []
        for n in range(len(x)):
            own = None if classes is None else classes[n : n + 1]
            maps.append(
                self._map(
                    subject, x[n : n + 1], own, score, boxes, incremental,
                    lambda done, n=n: say(n + done / len(boxes)),  # type: ignore[misc]
                )
            )  # fmt: skip
        return torch.cat(maps)

    def boxes(self, height: int, width: int) -> Boxes:  # [windows, 2, (lo, hi)]
        """All windows, row by row. Those that would go beyond the border end there."""
        if self.window > min(height, width):
            raise PgigError(f"a window of {self.window} pixels does not fit images of {height} x {width}")
        down, across = (_intervals(size, self.window, self.stride) for size in (height, width))
        return numpy.array([[one, other] for one in down for other in across])

    def _map(
        self, subject: Subject, x: Tensor, target: Tensor | None, score: Score, boxes: Boxes, incremental: bool,
        say: Say,
    ) -> Tensor:  # fmt: skip
        fill = torch.full_like(x, self.baseline)
        with torch.no_grad():
            intact = _finite(_scores(answer_of(subject(x.clone())), target, score).double())
            outputs = window_outputs(subject, x, boxes, fill, incremental, say)
            scores = _finite(_scores(outputs, target, score).double())
        total = torch.zeros(x.shape[2:], dtype=torch.float64, device=x.device)
        covers = torch.zeros_like(total)
        for fall, ((top, bottom), (left, right)) in zip((intact - scores).tolist(), boxes.tolist(), strict=True):
            total[top:bottom, left:right] += fall
            covers[top:bottom, left:right] += 1
        return (total / covers).to(x.dtype).expand_as(x).clone()


def occlusion(
    model: nn.Module | Subject,
    inputs: Tensor,
    target: Target = None,
    *,
    window: int = 16,
    stride: int = 8,
    baseline: float = 0.0,
    score: Score = "probability",
) -> Tensor:
    """An occlusion map for each image, shaped like the inputs. See `Occlusion`.

    window, stride: of the cover, in pixels. baseline: what covers, in the model's values.
    Raises PgigError for what is no batch of images, or a model that gives no row of class scores.

    target, score: as at `pgig.attribute`.

    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, 5)).eval()
    >>> pgig.occlusion(model, torch.ones(1, 3, 8, 8), window=4, stride=2).shape
    torch.Size([1, 3, 8, 8])
    """
    return Occlusion(window, stride, baseline)(model, inputs, target, score)


def _scores(outputs: Tensor, target: Tensor | None, score: Score) -> Tensor:  # [windows, classes] -> [windows]
    if not callable(score):
        assert target is not None
        return score_of(outputs, target.expand(len(outputs)), score)
    found = score(outputs)
    if not isinstance(found, Tensor) or found.shape != outputs.shape[:1]:
        raise PgigError("a score must give one number for each input")
    return found


def _classes(subject: Subject, x: Tensor, target: Target) -> Tensor:
    """One class for each image."""
    with torch.no_grad():
        output = answer_of(subject((x[:1] if target is not None else x).clone()))  # it may write to what it is given
    if output.dim() != 2:
        raise PgigError("occlusion needs a model that returns one row of class scores per image")
    if target is None:
        return output.argmax(1)
    try:
        found = torch.as_tensor(target, device=x.device).long().reshape(-1)
    except (TypeError, ValueError, RuntimeError):
        raise PgigError(f"target must be a class index, or one for each image, got {target!r}") from None
    found = found.expand(len(x)) if len(found) == 1 else found
    if len(found) != len(x):
        raise PgigError(f"{len(found)} targets for {len(x)} images")
    if int(found.min()) < 0 or int(found.max()) >= output.shape[1]:
        raise PgigError(f"target {found.tolist()} is out of range: the model has {output.shape[1]} classes")
    return found


def _finite(scores: Tensor) -> Tensor:
    if not bool(scores.isfinite().all()):
        raise PgigError("the model's scores are NaN or infinite: no occlusion map can be had from them")
    return scores


def _intervals(size: int, window: int, stride: int) -> list[tuple[int, int]]:
    count = -(-(size - window) // stride) + 1
    return [(n * stride, min(n * stride + window, size)) for n in range(count)]
