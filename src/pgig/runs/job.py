"""Jobs: what a request was resolved to, with all that a process needs to work on parts."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from pgig.degradation import PatchGrid
from pgig.runs.request import Request


@dataclass(frozen=True, kw_only=True)
class Job:
    """Plain values, so that it can be sent to other processes."""

    asked: Request
    names: tuple[str, ...]  # of the images
    labels: Mapping[str, int]
    digest: str  # of the model: every process must have the same
    evaluator: str
    batch_size: int
    references_contents: str | None  # digest of the images that references are drawn from: likewise
    configuration: str  # digest of the run's configuration, which every part says it was made with
    threads: int | None  # of every worker


def grid_of(asked: Request) -> PatchGrid:
    return asked.protocol.grid(torch.empty(1, 3, asked.preprocess.size, asked.preprocess.size))
