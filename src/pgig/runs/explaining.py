"""A run of `explain`: every picture's questions answered, written as they get ready, and one page of all."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from pgig import __version__
from pgig.degradation.dense import check_score
from pgig.digests import digest_of
from pgig.errors import PgigError
from pgig.explainers.methods import MethodExplainer, with_told
from pgig.explainers.registry import explainers
from pgig.explainers.together import needing_patterns, needing_references
from pgig.files import check_target, written
from pgig.patterns.kept import read_patterns
from pgig.patterns.patterns import Patterns
from pgig.report.benchmarked import benchmarked
from pgig.report.explained import ShownPicture, write_explained
from pgig.runs.explain import (
    answer,
    chosen_methods,
    is_blank,
    judged,
    photo,
    predictions,
    shown_question,
    write_map,
    write_sheets,
)
from pgig.runs.picture_queue import PictureQueue
from pgig.runs.questions import Question, questions_of
from pgig.subject.scores import ALWAYS_SURE
from pgig.subject.subject import Subject
from pgig.vision.classes import default_classes, name_of
from pgig.vision.models import load_model, output_for
from pgig.vision.pictures import Picture, read_classes, read_references
from pgig.vision.preprocess import Preprocess

_POOL = 64  # pictures that expected gradients draw from, at most
_PAGE_SECONDS = 20  # between two writings of the page, which grows with the pictures


@dataclass(frozen=True)
class Explained:
    """What came of one picture."""

    name: str
    predictions: list[tuple[str, int, float]]
    left_out: dict[str, str]
    blank: list[str]  # methods that are zero everywhere


class Explaining:
    """Everything that can be refused is refused when this is made, before there is a folder."""

    def __init__(
        self, *, images: Sequence[Path], model: str, weights: str | None, preprocess: Preprocess, methods: str,
        patterns_file: Callable[[Callable[[], nn.Module]], Path | None], force: bool, references: Path | None,
        score: str, seed: int, targets: Sequence[str], contrasts: Sequence[str], top: int | None,
        classes: Path | None, out: Path, save_arrays: bool, formats: Sequence[str], options: Mapping[str, Any],
        batch_size: Any, signed: bool = False,
    ) -> None:  # fmt: skip
        self._model, self._preprocess, self._out, self._seed = model, preprocess, out, seed
        self._save_arrays, self._formats, self._signed = save_arrays, formats, signed
        self.page = out / "index.html"
        check_target(self.page)
        replaced = _check_own(self.page)
        self._queue = PictureQueue(images, preprocess)
        self.count, self.skipped = self._queue.count, self._queue.skipped
        first = self._queue.first
        self._drawn_from = read_references(references, preprocess) if references else None
        needed = needing_patterns(explainers(methods))
        module = load_model(model, weights)
        predictions(module, first)  # does the model take such images at all?
        count = output_for(module, first.x).shape[1]
        self._names = read_classes(classes) if classes else default_classes(model, weights, module, count)
        if classes and len(self._names) != count:
            raise PgigError(f"{classes} has {len(self._names)} names, and the model {count} classes")
        check_score(score)
        if count == 1 and score == "probability":
            raise PgigError(ALWAYS_SURE)
        self._most, self._told = max(5, top or 0), 5 if count > 1 else 0  # the share of a single output is always 1
        self._one_by_one = batch_size in (1, "whole")
        self._ask = questions_of(targets, contrasts, top, self._names, count, score)
        file = patterns_file(lambda: module) if needed else None
        self.chosen, self.lacking = chosen_methods(
            methods, file is not None, self._drawn_from is not None or self._queue.has_several
        )  # fmt: skip
        methods_of = explainers(self.chosen)
        with_told({name: e for name, e in methods_of.items() if isinstance(e, MethodExplainer)}, options)
        patterns = None if file is None else read_patterns(file, module, force)
        self.notes = _other_preprocessing(patterns, preprocess)
        if replaced:
            self.notes.append(f"{self.page} of an earlier run will be replaced")
        if patterns is not None:
            self.notes.append(f"the verdict on these patterns: {patterns.health().verdict}")
        self._subject = Subject(module, dict(patterns) if force and patterns is not None else patterns)
        if not force:
            self._subject.check_patterns()
        self._options = {**options, "seed": seed, "batch_size": batch_size, "black": preprocess.black}
        self._facts: dict[str, Any] = {
            "weights": weights or "default", "weights digest": digest_of(self._subject.known_digest),
            "pgig": __version__,
        }  # fmt: skip
        self._facts |= {"patterns": "none" if patterns is None else patterns.content_digest(), "seed": seed, **options}
        if patterns is not None:
            self._facts["verdict on the patterns"] = patterns.health().verdict
        self.benchmarked = benchmarked(model, digest_of(self._subject.known_digest))
        draws_others = self._drawn_from is None and needing_references(explainers(self.chosen))
        self._pool = self._queue.pool(_POOL) if draws_others else {}
        self.current = ""
        self._picture: Picture | None = None
        self._shown: list[ShownPicture] = []
        self._results: list[dict[str, Any]] = []
        self._written = 0.0

    @property
    def shown(self) -> Sequence[ShownPicture]:
        """What is on the page so far."""
        return tuple(self._shown)

    def pictures(self) -> Iterator[str]:
        """The name of one picture after the other, which is `current` then; those that cannot be read are skipped."""
        self._out.mkdir(parents=True, exist_ok=True)
        for picture in self._queue:
            self._picture, self.current = picture, picture.name
            yield self.current

    def explain_current(self, progress: Callable[[int, int], object]) -> Explained:
        picture = self._picture
        assert picture is not None
        likeliest = predictions(self._subject.module, picture, self._most)
        named = [(name_of(index, self._names), index, share) for index, share in likeliest[: self._told]]
        questions = self._ask([index for index, _ in likeliest])
        references = self._drawn_from if self._drawn_from is not None else self._others(picture)
        left_out: dict[str, str] = {}
        blank: list[str] = []
        shown, results = [], []
        for number, question in enumerate(questions):
            folder = self._out / picture.name / (question.slug if len(questions) > 1 else "")
            files: dict[str, list[str]] = {}

            def ready(name: str, explanation: Any, folder: Path = folder, files: Any = files) -> None:
                made = write_map(name, explanation, folder, save_arrays=self._save_arrays)
                files[name] = [str(path.relative_to(self._out)) for path in made]
                if is_blank(explanation):
                    blank.append(name)

            found = answer(
                self._subject, picture, question, self.chosen, references, ready=ready, signed=self._signed,
                progress=_part(progress, number, len(questions)), **self._options,
            )  # fmt: skip
            judgement = judged(self._subject, picture, found, self._seed, self._one_by_one)
            removed = judgement.removed
            title = self._title(picture, question, named, removed.before)
            sheets = write_sheets(found, picture, title, folder, self._formats)
            shown.append(shown_question(picture, found, judgement, self._lacks()))
            left_out |= found.left_out
            results.append({
                "question": question.title, "target": question.target, "score": question.told,
                "value": removed.before,
                "value_without_random_tenth": removed.after_random if removed.after else None,
                "sheets": [str(path.relative_to(self._out)) for path in sheets],
                "left_out": {**self._lacks(), **found.left_out},
                "methods": {
                    name: {
                        "files": files[name], "seconds": one.seconds, "options": dict(one.options),
                        "value_without_top_tenth": removed.after.get(name), "zero_everywhere": is_blank(one),
                        "agreement": judgement.agreement.get(name),
                    } for name, one in found.explanations.items()
                },
            })  # fmt: skip
        self._shown.append(ShownPicture(picture.name, photo(picture), named, shown))
        top = [{"class": index, "name": name, "probability": share} for name, index, share in named]
        source = self._queue.shown[picture.name]
        self._results.append({"image": picture.name, "source": source, "predictions": top, "questions": results})
        if time.monotonic() - self._written > _PAGE_SECONDS:
            self._write_page()
        return Explained(picture.name, named, left_out, list(dict.fromkeys(blank)))

    def close(self) -> None:
        """The page and the facts, with all that was finished."""
        if self._shown:
            self._write_page()

    def facts(self) -> dict[str, Any]:
        """For machines."""
        return {
            "model": self._model, **self._facts, "preprocessing": self._preprocess.facts, "page": str(self.page),
            "images": self._results, "skipped": self.skipped,
        }  # fmt: skip

    def _write_page(self) -> None:
        write_explained(
            self.page, self._shown, model=self._model, count=self.count, skipped=self.skipped, facts=self._facts,
            benchmarked=self.benchmarked,
        )  # fmt: skip
        with written(self._out / "results.json") as path:
            path.write_text(json.dumps(self.facts(), indent=2), encoding="utf-8")
        self._written = time.monotonic()

    def _title(
        self, picture: Picture, question: Question, named: Sequence[tuple[str, int, float]], value: float
    ) -> str:
        found = [f"{named[0][0]}, {named[0][2]:.0%}"] if named else []
        if not named or question.target != named[0][1]:
            found.append(f"{question.told[0].lower()}{question.told[1:]}: {value:.3g}")
        return f"{picture.name}: {'; '.join(found)}"

    def _lacks(self) -> dict[str, str]:
        return {name: f"it needs {what}" for what, names in self.lacking.items() for name in names}

    def _others(self, picture: Picture) -> list[Tensor]:
        return [x for name, x in self._pool.items() if name != picture.name]


def _check_own(page: Path) -> bool:
    """Is there a page of an earlier run? Another's is not replaced."""
    if not page.exists():
        return False
    if '<meta name="generator" content="pgig">' not in page.read_text(encoding="utf-8", errors="replace")[:2000]:
        raise PgigError(f"{page} is not a page of pgig's, and would be replaced", lacks="another folder")
    return True


def _part(progress: Callable[[int, int], object], number: int, count: int) -> Callable[[int, int], object]:
    return lambda done, total: progress(round(100 * (number + done / max(1, total)) / count), 100)


def _other_preprocessing(patterns: Patterns | None, preprocess: Preprocess) -> list[str]:
    stored = patterns.facts.get("preprocessing", {}) if patterns is not None else {}
    return [
        f"the patterns were estimated with {name} {stored[name]}, not {now}"
        for name, now in preprocess.facts.items()
        if stored.get(name) is not None and _as_read(stored[name]) != _as_read(now)
    ]


def _as_read(value: object) -> object:
    """Tuples come back from a file as lists."""
    return list(value) if isinstance(value, tuple) else value
