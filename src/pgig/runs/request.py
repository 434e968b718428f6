"""Requests: what was asked of a run, as it was asked. A request is never filled in later."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pgig.degradation import Protocol
from pgig.errors import PgigError
from pgig.measures import judge_of
from pgig.records.measure import AskedMeasure
from pgig.records.measures import BY_ORDER, asked_measure, find_measure
from pgig.runs.where import Where
from pgig.vision.preprocess import Preprocess


@dataclass(frozen=True, kw_only=True)
class Request:
    """Plain values, so that it can be sent to other processes."""

    model: str
    weights: str | None = None
    images: Path | str  # a folder or archive, or an address of such
    limit: int | None = None
    preprocess: Preprocess = field(default_factory=Preprocess)
    methods: tuple[str, ...]
    protocol: Protocol = field(default_factory=Protocol)
    measures: tuple[str, ...] = ()  # labels; without, the one of the protocol's order
    constants: tuple[tuple[str, int | float | str], ...] = ()  # of every measure that has them
    masks: Path | None = None  # a folder of masks, or a table of boxes
    out: Path
    patterns: Path | None = None
    force: bool = False  # use patterns of other weights all the same
    references: Path | None = None
    score: Literal["probability", "logit"] = "probability"
    target: Literal["predicted", "label"] = "predicted"
    labels: Path | None = None
    seed: int = 0
    evaluator: str = "auto"
    where: Where = field(default_factory=Where)
    batch_size: int | None = None
    memory: float | None = None  # GB for kept activations
    threads: int | None = None
    save_attributions: bool = False
    attributions_from: Path | None = None

    def __post_init__(self) -> None:
        numbers = {"batch size": self.batch_size, "threads": self.threads, "limit": self.limit}
        for what, number in numbers.items():
            if number is not None and number < 1:
                raise PgigError(f"{what} must be at least 1, got {number}")
        if self.score not in ("probability", "logit"):
            raise PgigError(f"unknown score {self.score!r}; choose 'probability' or 'logit'")
        if self.target not in ("predicted", "label"):
            raise PgigError(f"unknown target {self.target!r}; choose 'predicted' or 'label'")
        if self.save_attributions and self.attributions_from is not None:
            raise PgigError(f"the attributions are saved in {self.attributions_from} already: do not save them again")
        for asked in self.judged_by.values():
            judge_of(asked)  # its constants, checked
            if self.attributions_from is not None and self._beyond_sums(asked):
                raise PgigError(f"{asked.label} needs more than the patch scores that {self.attributions_from} saved")
        if self.needs_masks and self.masks is None:
            raise PgigError("localization needs masks of the objects", lacks="masks")

    @property
    def by_label(self) -> bool:
        return self.target == "label"

    @cached_property
    def judged_by(self) -> dict[str, AskedMeasure]:
        """The measures, by label."""
        if self.measures:
            return {label: asked_measure(label, dict(self.constants)) for label in self.measures}
        measure = find_measure(BY_ORDER[self.protocol.order])
        own = {constant.name: getattr(self.protocol, constant.name) for constant in measure.constants}
        return {measure.name: AskedMeasure(measure.name, measure, own)}

    @property
    def needs_pixels(self) -> bool:
        """Are sums over the run's own patches too little to judge by?"""
        return any(self._beyond_sums(asked) for asked in self.judged_by.values())

    @property
    def needs_masks(self) -> bool:
        return any(asked.needs == "masks" for asked in self.judged_by.values())

    def _beyond_sums(self, asked: AskedMeasure) -> bool:
        return asked.needs != "patches" or asked.constants.get("patch", self.protocol.patch) != self.protocol.patch

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "judged_by"}  # measures hold functions
