"""Where a run is worked on, as it was asked for: a backend by its name, and how many workers of which size."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from pgig.errors import PgigError
from pgig.runs.backends.events import Backend
from pgig.runs.backends.processes import Processes
from pgig.runs.backends.ray import Ray
from pgig.runs.backends.ray_cluster import ray_module
from pgig.runs.backends.serial import Serial

BackendName = Literal["serial", "processes", "ray"]
RAY_LOG = "ray.log"


@dataclass(frozen=True, kw_only=True)
class Where:
    backend: BackendName | None = None  # without: one process for one worker, several for several
    workers: int | None = None  # without: one; on Ray, as many as there is room for
    cpus_per_worker: int | None = None  # threads of each; without: torch's divided among processes; on Ray, one
    gpus_per_worker: float = 0
    address: str | None = None
    shared_folder: bool = False

    def __post_init__(self) -> None:
        if self.backend not in (None, *get_args(BackendName)):
            raise PgigError(f"unknown backend {self.backend!r}; choose one of: {', '.join(get_args(BackendName))}")
        for what, number in (("workers", self.workers), ("CPUs per worker", self.cpus_per_worker)):
            if number is not None and number < 1:
                raise PgigError(f"{what} must be at least 1, got {number}")
        if self.gpus_per_worker < 0:
            raise PgigError(f"GPUs per worker must not be negative, got {self.gpus_per_worker:g}")
        if self.backend == "serial" and (self.workers or 1) > 1:
            raise PgigError(f"the serial backend has one worker, not {self.workers}")
        if self.backend != "ray":
            for what, given in (
                ("an address", self.address is not None),
                ("GPUs for workers", self.gpus_per_worker > 0),
                ("a shared folder", self.shared_folder),
            ):
                if given:
                    raise PgigError(f"{what} is for the ray backend")

    @property
    def is_far(self) -> bool:
        return self.backend == "ray"

    def fitted(self, parts: int) -> "Where":
        """For so many parts: no more workers than they need."""
        count = self.workers or (None if self.is_far else 1)
        return self if count is None else replace(self, workers=max(1, min(count, parts)))

    @property
    def here(self) -> int:
        """Workers that share this machine's memory, at most."""
        if self.workers is not None and self.address is None:
            return self.workers
        room = max(1, (os.cpu_count() or 1) // (self.cpus_per_worker or 1))
        return min(self.workers or room, room) if self.is_far else 1

    def threads(self, asked: int | None, usual: int) -> int | None:
        """Of each worker; usual: what torch takes by itself."""
        if self.is_far or self.cpus_per_worker is not None:
            return asked or self.cpus_per_worker or 1
        return asked if (self.workers or 1) == 1 else max(1, (asked or usual) // (self.workers or 1))

    def check(self, *places: object) -> None:
        """Before anything is computed: is there what it takes? places: of images, read where the work is done."""
        if self.is_far:
            ray_module()
        if any(str(place).startswith("memory://") for place in places) and not isinstance(self.made(None), Serial):
            raise PgigError("images in memory:// are in this process alone: take the serial backend")

    def made(self, log: Path | None) -> Backend:
        if self.backend == "ray":
            return Ray(
                workers=self.workers, cpus_per_worker=self.cpus_per_worker or 1, gpus_per_worker=self.gpus_per_worker,
                address=self.address, shared_folder=self.shared_folder, log=log,
            )  # fmt: skip
        if self.backend == "processes" or (self.backend is None and (self.workers or 1) > 1):
            return Processes(self.workers or 1)
        return Serial()
