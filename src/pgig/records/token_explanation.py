"""Explanations of texts: a number for each token, shown as colours."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

import numpy
from numpy.typing import NDArray

from pgig.drawing.tokens import Token, as_html, in_colour, in_words, tokens_of
from pgig.errors import PgigError

_PER_TEXT = "target", "predicted", "probability", "completeness"


@dataclass(frozen=True, eq=False)
class TokenExplanation:
    """One method's attributions of a batch of texts; `explanation[i]` is that of one text. `print` it.

    What `pgig.explain_tokens` gives.

    tokens: as read. attribution: [n, tokens]. shown: which are no padding. All else as in `pgig.Explanation`: method,
    options, score, target, predicted, probability, completeness, seconds. A value; errors are those of what gives it.

    >>> import numpy
    >>> values, shown = numpy.array([[0, 2.0, 1]]), numpy.ones((1, 3), bool)
    >>> one = pgig.TokenExplanation("mine", (("a", "good", "film"),), values, shown)
    >>> one.tokens[0][one.attribution[0].argmax()]
    'good'
    """

    method: str
    tokens: tuple[tuple[str, ...], ...]  # of each text
    attribution: NDArray[Any]  # [n, tokens]
    shown: NDArray[Any]  # [n, tokens]: False at padding
    options: Mapping[str, Any] = field(default_factory=dict)
    score: str = "probability"
    target: NDArray[Any] | None = None
    predicted: NDArray[Any] | None = None
    probability: NDArray[Any] | None = None
    completeness: NDArray[Any] | None = None
    seconds: float = 0.0

    def __post_init__(self) -> None:
        shape = (len(self.tokens), len(self.tokens[0]) if self.tokens else 0)
        if self.attribution.shape != shape or self.shown.shape != shape:
            raise PgigError(f"attributions of shape {self.attribution.shape} are not those of {shape} tokens")

    def __len__(self) -> int:
        return len(self.tokens)

    def __iter__(self) -> Iterator["TokenExplanation"]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, number: int) -> "TokenExplanation":
        """That of one text, still with a batch axis."""
        if not isinstance(number, int):
            raise PgigError(f"a text is known by its number, got {number!r}")
        if not -len(self) <= number < len(self):
            raise IndexError(f"there are {len(self)} texts, and no number {number}")
        at = slice(number % len(self), number % len(self) + 1)
        cut: dict[str, Any] = {name: getattr(self, name)[at] for name in ("tokens", "attribution", "shown")}
        for name in _PER_TEXT:
            cut[name] = None if getattr(self, name) is None else getattr(self, name)[at]
        return replace(self, **cut, seconds=self.seconds / len(self))

    def __repr__(self) -> str:
        return f"TokenExplanation by {self.method} of {len(self)} texts, in {self.seconds:.2f} s"

    def __str__(self) -> str:
        return self.text(colour=sys.stdout.isatty())

    def text(self, *, colour: bool = True) -> str:
        """Coloured tokens for a terminal, red for the class and blue against it; or in words."""
        draw = in_colour if colour else in_words
        return "\n".join(f"{self._told(number)}\n  {draw(tokens)}" for number, tokens in enumerate(self._drawn()))

    def _repr_html_(self) -> str:
        texts = "".join(
            f"<p>{escape(self._told(number))}<br><span style='line-height:1.9'>{as_html(tokens)}</span></p>"
            for number, tokens in enumerate(self._drawn())
        )
        return f"{texts}<p><small>red: for the class, blue: against it, white: nothing</small></p>"

    def _drawn(self) -> list[list[Token]]:
        return [
            tokens_of(_kept(texts, shown), values[shown].tolist())
            for texts, values, shown in zip(self.tokens, self.attribution, self.shown, strict=True)
        ]

    def _told(self, number: int) -> str:
        words = [self.method]
        if self.target is not None:
            words.append(f"class {' '.join(map(str, numpy.ravel(self.target[number]).tolist()))}")
        if self.probability is not None and self.predicted is not None:
            words.append(f"predicted {int(self.predicted[number])} ({float(self.probability[number]):.0%})")
        return ", ".join(words)


def _kept(texts: Sequence[str], shown: NDArray[Any]) -> list[str]:
    return [text for text, is_shown in zip(texts, shown.tolist(), strict=True) if is_shown]
