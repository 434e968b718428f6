"""Requests: what was asked of a degradation run, as it was asked. A request is never filled in later."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pgig.degradation import Protocol
from pgig.errors import PgigError
from pgig.vision.preprocess import Preprocess


@dataclass(frozen=True, kw_only=True)
class Request:
    """Plain values, so that it can be sent to other processes."""

    model: str
    weights: str | None = None
    images: Path
    limit: int | None = None
    preprocess: Preprocess = field(default_factory=Preprocess)
    methods: tuple[str, ...]
    protocol: Protocol = field(default_factory=Protocol)
    out: Path
    patterns: Path | None = None
    force: bool = False  # use patterns of other weights all the same
    references: Path | None = None
    score: Literal["probability", "logit"] = "probability"
    target: Literal["predicted", "label"] = "predicted"
    labels: Path | None = None
    seed: int = 0
    evaluator: str = "auto"
    workers: int = 1
    batch_size: int | None = None
    memory: float | None = None  # GB for kept activations
    threads: int | None = None
    save_attributions: bool = False
    attributions_from: Path | None = None

    def __post_init__(self) -> None:
        numbers = {"workers": self.workers, "batch size": self.batch_size, "threads": self.threads, "limit": self.limit}
        for what, number in numbers.items():
            if number is not None and number < 1:
                raise PgigError(f"{what} must be at least 1, got {number}")
        if self.score not in ("probability", "logit"):
            raise PgigError(f"unknown score {self.score!r}; choose 'probability' or 'logit'")
        if self.target not in ("predicted", "label"):
            raise PgigError(f"unknown target {self.target!r}; choose 'predicted' or 'label'")
        if self.save_attributions and self.attributions_from is not None:
            raise PgigError(f"the attributions are saved in {self.attributions_from} already: do not save them again")

    @property
    def by_label(self) -> bool:
        return self.target == "label"
