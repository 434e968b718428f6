"""Answers to a visitor's question, method by method, each kept: what was computed is never computed again."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pgig.app.network import Network
from pgig.app.visitors import Visitor, bytes_of
from pgig.errors import PgigError
from pgig.explainers.methods import MethodExplainer
from pgig.explainers.protocol import Explainer
from pgig.explainers.registry import explainers
from pgig.explainers.together import sharing
from pgig.records.explanation import Explanation
from pgig.runs.explain import answer
from pgig.runs.questions import Question, why, why_rather
from pgig.vision.pictures import Picture

MOST_METHODS = 12  # at once


@dataclass
class Found:
    """What is there so far."""

    question: Question
    picture: Picture
    before: float  # the score
    explanations: dict[str, Explanation] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)


def question_of(network: Network, asked: Sequence[int]) -> Question:
    """One class: why? Two: why the one rather than the other?"""
    if len(asked) == 2:
        return why_rather(asked[0], asked[1], network.names)
    return why(asked[0], network.names)


def answers(
    network: Network, visitor: Visitor, picture: Picture, question: Question, methods: Sequence[str],
    say: Callable[[str, float], object] = lambda method, share: None, check: Callable[[], None] | None = None,
) -> Iterator[Found]:  # fmt: skip
    """After each step all that is there: what is kept at once, then what shares its passes together.

    say: told which method is in work, and how far all are. check: raises `Stopped` when the visitor wants something
        else; without, from when it begins.
    """
    check = check or visitor.wanted()
    if not methods:
        raise PgigError("choose at least one method")
    if len(methods) > MOST_METHODS:
        raise PgigError(f"{len(methods)} methods at once are too many: choose at most {MOST_METHODS}")
    found = Found(question, picture, float(question.scores(network.output(picture.x))))
    for name in methods:
        if kept := visitor.find(key_of(network, picture, question, name)):
            found.explanations[name] = kept
        else:
            found.waiting.append(name)
    yield found
    groups = sorted(sharing(explainers(found.waiting)), key=_work) if found.waiting else []
    for number, group in enumerate(groups):
        names = list(group)

        def progress(done: int, total: int, names: Sequence[str] = names, number: int = number) -> None:
            check()
            say(", ".join(names), (number + done / max(1, total)) / len(groups))

        check()
        say(", ".join(names), number / len(groups))
        try:
            with network.working:
                check()
                if not _work(group)[1]:
                    network.evaluator()  # it may trace the model, and is to do so here, not while others run it
                made = answer(
                    network.subject, picture, question, names, ready=lambda *_: None, progress=progress,
                    black=network.preprocess.black, seed=0,
                )  # fmt: skip
            found.left_out |= made.left_out
            for name, one in made.explanations.items():
                found.explanations[name] = one
                visitor.keep(key_of(network, picture, question, name), one, _bytes(one))
        except PgigError as error:
            found.left_out |= dict.fromkeys(names, str(error))
        found.waiting = [name for name in found.waiting if name not in names]
        yield found


def _work(group: Mapping[str, Explainer]) -> tuple[bool, int]:
    """What takes little goes first: methods by their points, then those that put many pictures through."""
    points = [one.method.points.count for one in group.values() if isinstance(one, MethodExplainer)]
    return not points, max(points, default=0)


def in_order(found: Found, methods: Sequence[str]) -> dict[str, Explanation]:
    return {name: found.explanations[name] for name in methods if name in found.explanations}


def key_of(network: Network, picture: Picture, question: Question, method: str) -> tuple[Any, ...]:
    return id(network), picture.name, hash(picture.pixels.numpy().tobytes()), question.slug, method


def _bytes(one: Explanation) -> int:
    return bytes_of(one.attribution, one.input)
