"""What people ask of a picture: why this class, why that one, why rather this than that."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from pgig.degradation.dense import score_of
from pgig.errors import PgigError
from pgig.network.outputs import answer_of
from pgig.subject.scores import Score
from pgig.vision.classes import class_of, name_of


@dataclass(frozen=True)
class Question:
    slug: str  # for names of files
    title: str
    told: str  # what the score is, in words
    score: Score
    target: int | None  # None: the score says it all

    def scores(self, output: Tensor) -> Tensor:  # [n, classes] -> [n]
        if callable(self.score):
            return self.score(output)
        return score_of(output, output.new_full((len(output),), self.target or 0).long(), self.score)


def why(index: int, names: Sequence[str], score: Any = "probability") -> Question:
    name = name_of(index, names)
    return Question(f"class-{index}", f"Why “{name}”?", f"The {score} of {name}", score, index)


def why_rather(one: int, other: int, names: Sequence[str]) -> Question:
    first, second = name_of(one, names), name_of(other, names)
    return Question(
        f"class-{one}-rather-than-{other}", f"Why “{first}” rather than “{second}”?",
        f"The logit of {first} minus that of {second}", Contrast(one, other), None,
    )  # fmt: skip


@dataclass(frozen=True)
class Contrast:
    """A score: the logit of one class minus that of another."""

    one: int
    other: int

    @property
    def __name__(self) -> str:
        return f"logit {self.one} - logit {self.other}"

    def __call__(self, output: Any) -> Tensor:
        answer = answer_of(output)
        return answer[:, self.one] - answer[:, self.other]


def questions_of(
    targets: Sequence[str], contrasts: Sequence[str], top: int | None, names: Sequence[str], count: int, score: str
) -> Callable[[Sequence[int]], list[Question]]:
    """What to ask of a picture, given its likeliest classes. Without a wish: why the likeliest?"""
    if top is not None and not 1 <= top <= count:
        raise PgigError(f"the likeliest classes are from 1 to {count}, got {top}")
    wanted = [class_of(text, names, count) for text in targets]
    pairs = [_pair(text, names, count) for text in contrasts]
    most = top if top is not None else 0 if wanted or pairs else 1

    def ask(likeliest: Sequence[int]) -> list[Question]:
        classes = dict.fromkeys([*wanted, *likeliest[:most]])
        return [*(why(index, names, score) for index in classes), *(why_rather(a, b, names) for a, b in pairs)]

    return ask


def _pair(text: str, names: Sequence[str], count: int) -> tuple[int, int]:
    parts = [part for part in text.split(",") if part.strip()]
    if len(parts) != 2:
        raise PgigError(f"a contrast is of two classes with a comma between, got {text!r}")
    one, other = (class_of(part, names, count) for part in parts)
    if one == other:
        raise PgigError(f"a contrast is of two different classes, got {text!r}")
    return one, other
