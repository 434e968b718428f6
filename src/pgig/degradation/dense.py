"""The definition of a curve's scores: a whole forward pass for every image, ranking and step."""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from pgig.degradation.grid import PatchGrid
from pgig.errors import PgigError
from pgig.network.outputs import answer_of
from pgig.subject.scores import ALWAYS_SURE

# what the model says of images, as one number each in the classes given: [b, ...], [b] -> [b]; or in several for each
Scored = Callable[[Tensor, Tensor], Tensor]


class Evaluator(Protocol):
    """Anything that computes the curves of rankings: one of your own goes wherever pgig's go.

    Its `curves` gives scores [n, steps + 1]; raise PgigError for what a caller can mend.

    >>> from pgig.degradation import DenseEvaluator, Evaluator, scored_by
    >>> evaluator: Evaluator = DenseEvaluator(scored_by(pgig.synthetic.embedded("plain"), "logit"))
    >>> evaluator.name
    'dense'
    """

    name: str

    def curves(self, x: Tensor, filled: Tensor, rankings: Tensor, targets: Tensor, grid: PatchGrid) -> Tensor:
        """Scores [n, m, L + 1] after 0..L steps, cumulatively.

        x: images [n, channels, height, width]; filled: what stands in each patch once it is replaced, shaped like x.
        rankings: [n, m, L, r], the patches in the order in which each of m methods has them replaced, r at each step.
        targets: [n], the class that is scored; or [n, k], several, and the scores have a last axis of as many.
        """
        ...

    def curves_by_pixel(self, x: Tensor, filled: Tensor, when: Tensor, steps: int, targets: Tensor) -> Tensor:
        """The same where any pixels go at a step: `when` [n, m, height, width] says at which, from 1 on."""
        ...


class DenseEvaluator:
    """Batched over images and methods: pairs of them go through their steps side by side.

    scored: gives the score of each image, (images, classes) -> scores: `scored_by`. batch_size: pairs at once.
    channels_last: the memory format of images. What does not fit is an error of torch's: `degrade` says it in words.

    >>> from pgig.degradation import DenseEvaluator, PatchGrid, scored_by
    >>> model, x, target = pgig.synthetic.embedded("plain"), torch.rand(2, 3, 64, 64), torch.tensor([0, 3])
    >>> evaluator, filled = DenseEvaluator(scored_by(model, "probability")), torch.zeros_like(x)
    >>> orders = torch.tensor([[[[5], [0]]], [[[1], [2]]]])  # of one method: two patches of each image, one a step
    >>> evaluator.curves(x, filled, orders, target, PatchGrid(64, 64, patch=9)).shape
    torch.Size([2, 1, 3])
    """

    name = "dense"

    def __init__(self, scored: Scored, batch_size: int = 16, channels_last: bool = True) -> None:
        if batch_size < 1:
            raise PgigError(f"batch size must be at least 1, got {batch_size}")
        self._scored, self._batch = scored, batch_size
        self._format = torch.channels_last if channels_last else torch.contiguous_format

    @torch.inference_mode()
    def curves(self, x: Tensor, filled: Tensor, rankings: Tensor, targets: Tensor, grid: PatchGrid) -> Tensor:
        """As `Evaluator` says, by whole forward passes."""
        n, m, steps = rankings.shape[:3]
        result = torch.empty(n * m, steps + 1, *targets.shape[1:], dtype=torch.float64)
        intact = torch.cat(
            [
                self._score(x[first : first + self._batch], targets[first : first + self._batch])
                for first in range(0, n, self._batch)
            ]
        )
        result[:, 0] = intact.repeat_interleave(m, 0)  # all methods of an image share it
        image_of = torch.arange(n).repeat_interleave(m)
        orders = rankings.flatten(0, 1).tolist()
        for first in range(0, n * m, self._batch):
            images = image_of[first : first + self._batch]
            now = x[images].contiguous(memory_format=self._format)
            for step in range(steps):
                for row, image in enumerate(images.tolist()):
                    for patch in orders[first + row][step]:
                        down, across = grid.place(patch)
                        now[row, :, down, across] = filled[image, :, down, across]
                result[first : first + len(images), step + 1] = self._score(now, targets[images])
        return result.reshape(n, m, *result.shape[1:])

    @torch.inference_mode()
    def curves_by_pixel(self, x: Tensor, filled: Tensor, when: Tensor, steps: int, targets: Tensor) -> Tensor:
        """As `Evaluator` says, by whole forward passes."""
        n, m = when.shape[:2]
        result = torch.empty(n * m, steps + 1, dtype=torch.float64)
        flat, image_of = when.flatten(0, 1), torch.arange(n).repeat_interleave(m)
        for first in range(0, n * m, self._batch):
            rows = slice(first, first + self._batch)
            images = image_of[rows]
            for step in range(steps + 1):
                now = torch.where(flat[rows, None] <= step, filled[images], x[images])
                result[rows, step] = self._score(now, targets[images])
        return result.reshape(n, m, steps + 1)

    def _score(self, x: Tensor, targets: Tensor) -> Tensor:
        # a copy, since a model may write to its input
        return self._scored(x.clone(memory_format=self._format), targets).double().cpu()


def scored_by(model: Callable[[Tensor], Tensor], score: str) -> Scored:
    """A function of (images, classes) that gives the score of each: "probability" or "logit".

    model: gives a row of class scores for each image. A score that is neither raises PgigError.

    >>> pgig.degradation.scored_by(torch.nn.Linear(2, 3), "logit")(torch.ones(4, 2), torch.zeros(4).long()).shape
    torch.Size([4])
    """
    check_score(score)
    return lambda x, targets: score_of(answer_of(model(x)), targets, score)


def check_score(score: str) -> None:
    if score not in ("probability", "logit"):
        raise PgigError(f"unknown score {score!r}; choose 'probability' or 'logit'")


def score_of(output: Tensor, targets: Tensor, score: str) -> Tensor:  # [b, classes], [b] -> [b]; or [b, k] -> [b, k]
    """One number for each row of a model's output, or for each of several classes."""
    if score == "probability":
        if output.shape[1] == 1:
            raise PgigError(ALWAYS_SURE)
        output = output.double().softmax(1)
    return output.gather(1, targets.reshape(len(targets), -1)).reshape(targets.shape)
