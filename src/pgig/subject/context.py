"""The context of a call: what all who explain and all who judge are told."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

from pgig.subject.inputs import Baseline, Tensors
from pgig.subject.scores import Score

# None: as many as memory allows; "whole": all inputs at the same point together, for models that mix their rows
BatchSize = int | Literal["whole"] | None


@dataclass(frozen=True)
class Context:
    """The fields are explained at `pgig.attribute`."""

    score: Score = "probability"
    seed: int = 0
    ids: Sequence[Hashable] | Tensor | None = None
    references: Tensors | None = None
    black: Tensor | None = None  # what a black pixel is to the model, [channels, 1, 1]
    baseline: Baseline = 0  # of explainers that have none of their own
    batch_size: BatchSize = None
    progress: Callable[[int, int], object] | None = None
    forward_args: Any = ()
    forward_kwargs: dict[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # set for every method that has the option
