"""The page of explained pictures: what was predicted, what mattered by each method, and how far to believe it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pgig.report.benchmarked import Benchmarked
from pgig.report.page import write_page

_HARDLY = 0.02  # of the score


@dataclass(frozen=True)
class ShownMap:
    """One method's answer to one question."""

    method: str
    about: str
    sentence: str  # how to read its colours
    signed: bool
    map: str  # addresses of pictures: all of the map, and the most important tenth
    top: str  # empty where nothing is ranked
    seconds: float
    after: float | None  # the score when its top tenth is removed; None: the map is zero everywhere
    agreement: float | None  # mean rank correlation with the other methods


@dataclass(frozen=True)
class ShownQuestion:
    """What was asked of a picture: why this class?"""

    title: str
    score: str  # what is explained, in words
    is_share: bool  # is the score a probability?
    before: float
    after_random: float  # when a random tenth is removed, the mean of several
    maps: Sequence[ShownMap] = ()
    left_out: Sequence[str] = ()


@dataclass(frozen=True)
class ShownPicture:
    name: str
    photo: str  # address
    predictions: Sequence[tuple[str, int, float]]  # class name, index, probability
    questions: Sequence[ShownQuestion] = field(default=())


def write_explained(
    path: Path,
    pictures: Sequence[ShownPicture],
    *,
    model: str,
    count: int,
    skipped: Mapping[str, str],
    facts: Mapping[str, Any],
    benchmarked: Benchmarked | None,
) -> None:
    """count: pictures that were asked for; facts: what else was used, by name: patterns, options."""
    write_page(
        path, "explained.html", pictures=pictures, model=model, count=count, skipped=skipped, facts=facts,
        benchmarked=benchmarked,
        believing=believing, shown=shown,
    )  # fmt: skip


def shown(value: float, is_share: bool) -> str:
    return f"{value:.1%}" if is_share else f"{value:.2f}"


def believing(question: ShownQuestion) -> str:
    """Which should I believe? A paragraph from what was measured on this picture."""
    after = {one.method: one.after for one in question.maps if one.after is not None}
    if not after:
        return "All maps are zero everywhere: there is nothing to believe."
    if all(abs(score - question.before) < _HARDLY * abs(question.before) for score in after.values()):
        return (
            "Taking away a tenth of the picture, whichever, hardly changes the score of "
            f"{shown(question.before, question.is_share)}: on this picture removing cannot tell the methods apart."
        )
    best = min(after, key=lambda method: after[method])
    told = (
        f"Taking away the tenth of the picture that {best} ranks highest changes the score from "
        f"{shown(question.before, question.is_share)} to {shown(after[best], question.is_share)}; a random tenth, to "
        f"{shown(question.after_random, question.is_share)}."
    )
    idle = [method for method, score in after.items() if score >= question.after_random]
    if idle:
        told += f" No better than a random tenth here: {', '.join(idle)}."
    agreeing = [one.agreement for one in question.maps if one.agreement is not None]
    if agreeing:
        mean = sum(agreeing) / len(agreeing)
        words = "agree well" if mean > 0.6 else "agree in part" if mean > 0.3 else "hardly agree"
        told += f" The methods {words} (mean rank correlation {mean:.2f})."
        if mean <= 0.3:
            told += " Where they do not agree, look at what removing shows rather than at any one map."
    return told
