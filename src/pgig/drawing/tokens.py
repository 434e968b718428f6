"""Tokens on coloured ground: red for the class, blue against it, for terminals and pages."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from pgig.drawing.heatmaps import colours_of

_WORD_STARTS = "Ġ", "▁"  # as byte-pair and sentence-piece vocabularies mark them
_CONTINUES = "##"  # as word-piece vocabularies do
_SHOWN = {"Ċ": "⏎", "\n": "⏎", "\t": "⇥"}
_DARK = 0.55  # of the largest: from there on, white letters can be read, black ones no more


class Token(NamedTuple):
    text: str
    value: float
    strength: float  # -1..1
    spaced: bool  # is there a space before it?


def tokens_of(texts: Sequence[str], values: Sequence[float]) -> list[Token]:
    """Pieces of words joined again, each with its value and that over the largest."""
    largest = max((abs(value) for value in values), default=0.0) or 1.0
    marks_starts = any(text.startswith(_WORD_STARTS) for text in texts)
    found = []
    for number, (text, value) in enumerate(zip(texts, values, strict=True)):
        spaced = text.startswith(_WORD_STARTS) if marks_starts else not text.startswith(_CONTINUES)
        plain = text.removeprefix(_CONTINUES) if text != _CONTINUES else text
        for mark in _WORD_STARTS:
            plain = plain.removeprefix(mark) if plain != mark else " "
        found.append(Token(_printable(plain), value, value / largest, spaced and number > 0))
    return found


def in_colour(tokens: Sequence[Token]) -> str:
    """For a terminal of 24-bit colours."""
    return "".join(_ansi(token) for token in tokens)


def in_words(tokens: Sequence[Token], most: int = 8) -> str:
    """For where there are no colours: the text, and the tokens that mattered most with their values."""
    text = "".join(" " * token.spaced + token.text for token in tokens)
    strongest = sorted(tokens, key=lambda token: -abs(token.value))[:most]
    return f"{text}\n  {', '.join(f'{token.text} {token.value:+.3g}' for token in strongest)}"


def as_html(tokens: Sequence[Token]) -> str:
    return "".join(_spans(tokens))


def _spans(tokens: Sequence[Token]) -> Iterator[str]:
    for token in tokens:
        red, green, blue = colours_of(token.strength)
        ink = "#fff" if abs(token.strength) > _DARK else "#111"
        yield (
            f'{" " * token.spaced}<span title="{token.value:+.4g}" style="background:rgb({red},{green},{blue});'
            f'color:{ink};padding:.1em .15em;border-radius:.2em">{escape(token.text)}</span>'
        )


def _ansi(token: Token) -> str:
    red, green, blue = colours_of(token.strength)
    ink = "255;255;255" if abs(token.strength) > _DARK else "0;0;0"
    return f"{' ' * token.spaced}\x1b[48;2;{red};{green};{blue}m\x1b[38;2;{ink}m{token.text}\x1b[0m"


def _printable(text: str) -> str:
    for mark, shown in _SHOWN.items():
        text = text.replace(mark, shown)
    return "".join(letter if letter.isprintable() else "�" for letter in text)
