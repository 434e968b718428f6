"""Explaining pictures: which methods can, what they say, how far to believe it, and writing it down."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from pgig.drawing.encoded import as_address, mask_address
from pgig.drawing.figures import show
from pgig.drawing.heatmaps import heatmap, strengths
from pgig.errors import PgigError
from pgig.explainers.methods import MethodExplainer
from pgig.explainers.protocol import Explainer
from pgig.explainers.reading import is_control, reading_of
from pgig.explainers.registry import SETS, explainers, names_in
from pgig.explainers.together import needing_patterns, needing_references, sharing
from pgig.explaining.explain import explain
from pgig.files import written
from pgig.measures.top_tenth import TopTenth, agreement, top_tenth
from pgig.records.explanation import Explanation
from pgig.report.explained import ShownMap, ShownQuestion
from pgig.runs.questions import Question
from pgig.subject.subject import Subject
from pgig.vision.models import output_for
from pgig.vision.pictures import Picture

_AT_ONCE = 8  # images with something removed
SMOOTH = 1 / 75  # of the shorter side: the width of the Gaussian that maps are smoothed with on the page


@dataclass(frozen=True)
class Answer:
    """What came of one question."""

    question: Question
    explanations: dict[str, Explanation]
    left_out: dict[str, str]  # method -> why


def chosen_methods(names: str, has_patterns: bool, has_references: bool) -> tuple[list[str], dict[str, list[str]]]:
    """The methods that `names` stands for, and those that a set such as "all" has to leave out, by what they lack."""
    listed = names_in(names)
    table = explainers(listed)
    lacking = {
        "patterns": [] if has_patterns else needing_patterns(table),
        "references": [] if has_references else needing_references(table),
    }
    for what, needing in lacking.items():
        if needing and names.strip() not in SETS:
            raise PgigError(f"{needing[0]} needs {what}", lacks=what)
    left_out = {name for needing in lacking.values() for name in needing}
    return [name for name in listed if name not in left_out], {what: found for what, found in lacking.items() if found}


def predictions(model: nn.Module, picture: Picture, most: int = 5) -> list[tuple[int, float]]:
    """The likeliest classes with their probabilities."""
    output = output_for(model, picture.x)
    if output.dim() != 2:
        raise PgigError("the model does not return one row of class scores per image")
    values, indices = output.softmax(1)[0].topk(min(most, output.shape[1]))
    return list(zip(indices.tolist(), values.tolist(), strict=True))


def answer(
    subject: Subject,
    picture: Picture,
    question: Question,
    methods: Sequence[str],
    references: Sequence[Tensor] = (),
    *,
    signed: bool = False,
    ready: Callable[[str, Explanation], object] = lambda name, explanation: None,
    progress: Callable[[int, int], object] | None = None,
    **options: Any,
) -> Answer:
    """Each method's explanation is handed to `ready` as soon as it is there; one that does not fit is left out.

    signed: PGIG is to be drawn with its sign.
    Random draws go by the picture's name: they do not depend on what else is explained.
    """
    drawn_from = torch.cat(list(references)) if references else None
    found: dict[str, Explanation] = {}
    left_out: dict[str, str] = {}
    groups = sharing(explainers(list(methods)))
    for number, group in enumerate(groups):
        say = None if progress is None else _part(progress, number, len(groups))
        for names in _tries(group):
            try:
                table = {name: _from_one(explainer, question) for name, explainer in explainers(names).items()}
                explained = explain(
                    subject, picture.x, table, question.target, references=drawn_from, ids=[picture.name],
                    score=question.score, progress=say, **_options_for(names, options),
                )  # fmt: skip
            except PgigError as error:
                left_out |= {name: str(error) for name in names}
                continue
            for name in names:
                reading = reading_of(table[name], signed)
                found[name] = replace(explained[name], label=question.title, **reading._asdict())
                left_out.pop(name, None)
                ready(name, found[name])
            if len(names) == len(group):
                break
    if not found:
        name, reason = next(iter(left_out.items()))
        raise PgigError(f"{name}: {reason}" if len(left_out) > 1 else reason)
    return Answer(question, {name: found[name] for name in methods if name in found}, left_out)


def _tries(group: Mapping[str, Explainer]) -> Iterator[list[str]]:
    """All at once; and each alone, if that fails."""
    yield list(group)
    if len(group) > 1:
        yield from ([name] for name in group)


def _from_one(explainer: Explainer, question: Question) -> Explainer:
    """Backpropagation from the score itself turns all signs where that is negative, as only a probability never is."""
    if question.score == "probability" or not isinstance(explainer, MethodExplainer) or "start" in explainer.own:
        return explainer
    return explainer.with_options(start="one")


def _part(progress: Callable[[int, int], object], number: int, count: int) -> Callable[[int, int], object]:
    return lambda done, total: progress(round(100 * (number + done / max(1, total))), 100 * count)


def _options_for(names: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of methods go to those that have them; others to all."""
    having = {key for explainer in explainers(list(names)).values() for key in explainer.options}
    return {key: value for key, value in options.items() if key not in ("steps", "samples") or key in having}


@dataclass(frozen=True)
class Judgement:
    """What removing shows, and how far the methods agree. A map that is zero everywhere ranks nothing."""

    removed: TopTenth
    agreement: dict[str, float]


def judged(subject: Subject, picture: Picture, found: Answer, seed: int, one_by_one: bool) -> Judgement:
    """one_by_one: the model takes single images only, or mixes those that it is given together."""
    table = explainers(list(found.explanations))
    ranking = {name: one for name, one in found.explanations.items() if not is_blank(one)}
    maps = {name: strengths(one.attribution, signed=one.signed) for name, one in ranking.items()}

    def removed(at_once: int) -> TopTenth:
        if not maps:
            return TopTenth(float(found.question.scores(output_for(subject.module, picture.x))), {}, math.nan, {})
        return top_tenth(
            lambda x: found.question.scores(output_for(subject.module, x)), picture.x, maps, picture.name, seed, at_once
        )

    try:
        removal = removed(1 if one_by_one else _AT_ONCE)
    except PgigError:  # it may take single images only
        removal = removed(1)
    # signs differ in meaning: how far methods agree on what counts is asked of magnitudes
    compared = {
        name: strengths(ranking[name].attribution, signed=False) for name in maps if not is_control(table[name])
    }
    return Judgement(removal, agreement(compared))


def is_blank(explanation: Explanation) -> bool:
    return not numpy.any(explanation.attribution)


def shown_question(
    picture: Picture, found: Answer, judgement: Judgement, lacking: Mapping[str, str]
) -> ShownQuestion:  # fmt: skip
    """For the page. lacking: methods that were left out for all pictures, and why."""
    smooth = SMOOTH * min(picture.pixels.shape[1:])
    maps = []
    for name, explanation in found.explanations.items():
        top = judgement.removed.shown.get(name)
        maps.append(
            ShownMap(
                method=name, about=explainers([name])[name].about, sentence=explanation.sentence,
                signed=explanation.signed,
                map=as_address(coloured(explanation, smooth)),
                top="" if top is None else mask_address(top), seconds=explanation.seconds,
                after=judgement.removed.after.get(name), agreement=judgement.agreement.get(name),
            )
        )  # fmt: skip
    return ShownQuestion(
        title=found.question.title, score=found.question.told, is_share=found.question.score == "probability",
        before=judgement.removed.before, after_random=judgement.removed.after_random, maps=maps,
        left_out=[f"{name} ({reason})" for name, reason in {**lacking, **found.left_out}.items()],
    )  # fmt: skip


def photo(picture: Picture) -> str:
    return as_address((picture.pixels.permute(1, 2, 0) * 255).round().byte().numpy(), quality=90)


def coloured(explanation: Explanation, smooth: float = 0) -> NDArray[numpy.uint8]:
    """Its heat map, as it wants to be read."""
    own = explanation
    return heatmap(own.attribution, signed=own.signed, smooth=smooth, nothing=own.nothing)


def write_map(name: str, explanation: Explanation, folder: Path, *, save_arrays: bool) -> list[Path]:
    """A method's heat map, and its arrays with all that is known beside them, as soon as they are there."""
    made = [folder / f"{name}.png"]
    with written(made[0]) as path:
        Image.fromarray(coloured(explanation)).save(path)
    if save_arrays:
        made += [folder / f"{name}.safetensors", folder / f"{name}.npy"]
        explanation.save(made[1])
        with written(made[2]) as path:
            numpy.save(path, explanation.attribution[0])
    return made


def write_sheets(
    found: Answer, picture: Picture, title: str, folder: Path, formats: Sequence[str] = ("png",)
) -> list[Path]:
    """All heat maps of one question in one figure, with title, legend and scale."""
    made = [folder / f"sheet.{ending}" for ending in formats]
    for target in made:
        with written(target) as path:
            show(found.explanations, picture.pixels, path=path, title=title)
    return made
