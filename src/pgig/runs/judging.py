"""The judging of a part: every measure of a run on what was explained, as rows of records."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from pgig.degradation import Evaluator
from pgig.errors import PgigError
from pgig.measures import Degradation, Judge, Setting, judge_of
from pgig.randomization.comparison import layers_from_the_top, randomised
from pgig.runs.job import Job
from pgig.subject.subject import Subject


@dataclass
class Explained:
    """An image and what the methods say of it."""

    name: str
    digest: str  # of the file's bytes
    x: Tensor  # [channels, height, width]
    predicted: int
    target: int
    sums: dict[str, Tensor]  # method -> [patches]
    seconds: dict[str, float]
    maps: dict[str, NDArray[numpy.float32]] = field(default_factory=dict)  # method -> [height, width], of a few images
    attributions: dict[str, Tensor] = field(default_factory=dict)  # method -> like x, where a measure needs them
    mask: Tensor | None = None  # [height, width] bool, likewise


# by a model, an image as another tensor (or the same): method -> like x
Explain = Callable[[Subject, Explained, Tensor], Mapping[str, Tensor]]


class Judging:
    """The measures of a job, with all that they need."""

    def __init__(self, job: Job, subject: Subject, evaluator: Evaluator, explain: Explain) -> None:
        self._job, self._subject, self._evaluator, self._explain = job, subject, evaluator, explain
        self._judges = {label: judge_of(asked) for label, asked in job.asked.judged_by.items()}
        self.refused: dict[str, str] = {}  # images of the last part that a measure could not judge, with reasons

    def rows(self, done: Sequence[Explained]) -> Iterator[list[dict[str, Any]]]:
        """For one measure after another, a row per image and method; of images that are refused, not all rows."""
        self.refused = {}
        return self._rows(done, list(self._judges.items()))

    def _rows(self, done: Sequence[Explained], judges: Sequence[tuple[str, Judge]]) -> Iterator[list[dict[str, Any]]]:
        x = torch.stack([one.x for one in done])
        target = torch.tensor([one.target for one in done])
        setting = self._setting(done)
        attributions = {m: torch.stack([one.attributions[m] for one in done]) for m in done[0].attributions}
        intact: list[float] = []
        for place, (label, judge) in enumerate(judges):
            begun = time.perf_counter()
            try:
                records = judge(self._subject, x, target, attributions, setting)
            except PgigError as error:
                if len(done) == 1:
                    self.refused[done[0].name] = f"{label}: {error}"
                    return
                for one in done:  # perhaps one image is to blame
                    yield from self._rows([one], judges[place:])
                return
            except Exception as error:  # whatever a user's model raises, or torch where memory is short
                reason = str(error).splitlines()[0] if str(error) else type(error).__name__
                raise PgigError(
                    f"the model failed while {label} was measured: {reason}; the same command goes on"
                ) from error
            if not intact:
                curves = next(iter(records.values())) if isinstance(judge, Degradation) else None
                intact = self._intact(x, target) if curves is None else [float(score) for score in curves[:, 0]]
            each = (time.perf_counter() - begun) / (len(done) * len(records))
            yield [
                {
                    "image": one.name, "method": method, "measure": label, "predicted": one.predicted,
                    "label": self._job.labels.get(one.name, -1), "target": one.target, "intact": intact[number],
                    "values": numpy.asarray(found[number], dtype=numpy.float64).reshape(-1).tolist(),
                    # what explaining took is shared out among the measures
                    "seconds": one.seconds[method] / len(self._judges) + each, "image_digest": one.digest,
                }
                for number, one in enumerate(done)
                for method, found in records.items()
            ]  # fmt: skip

    def _intact(self, x: Tensor, target: Tensor) -> list[float]:
        nothing = torch.empty(len(x), 1, 0, 1, dtype=torch.long)
        grid = self._job.asked.protocol.grid(x)
        return [float(score) for score in self._evaluator.curves(x, x, nothing, target, grid)[:, 0, 0]]

    def _setting(self, done: Sequence[Explained]) -> Setting:
        asked = self._job.asked
        masks = [one.mask for one in done if one.mask is not None]

        def explain(subject: Subject, x: Tensor) -> dict[str, Tensor]:
            found = [self._explain(subject, one, x[number]) for number, one in enumerate(done)]
            return {method: torch.cat([each[method] for each in found]) for method in found[0]}

        return Setting(
            score=asked.score, seed=asked.seed, ids=[one.name for one in done], black=asked.preprocess.black,
            std=asked.preprocess.std, evaluator=self._evaluator, masks=torch.stack(masks) if masks else None,
            sums={} if done[0].attributions else {m: torch.stack([one.sums[m] for one in done]) for m in done[0].sums},
            explain=lambda x: explain(self._subject, x), explain_random=lambda x: explain(self._random, x),
        )  # fmt: skip

    @cached_property
    def _random(self) -> Subject:
        """The model with random weights in every layer; its patterns stay, as what they are of is asked for."""
        size = self._job.asked.preprocess.size
        layers = layers_from_the_top(self._subject.module, torch.zeros(1, 3, size, size))
        model = randomised(self._subject.module, layers, self._job.asked.seed)
        patterns = self._subject.patterns
        return Subject(model, None if patterns is None else dict(patterns))
