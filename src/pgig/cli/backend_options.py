"""The options of commands that can be worked on by several processes, or by a cluster."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:  # help is quick
    from pgig.runs.where import Where


@dataclass(frozen=True)
class BackendOptions:
    """On what a run is worked on: this process, several, or a cluster."""

    backend: Annotated[
        str | None,
        typer.Option(help="`serial`, `processes` or `ray`; without, processes where there are several workers."),
    ] = None
    workers: Annotated[
        int | None,
        typer.Option(
            help="Processes, among which torch's threads are divided; on Ray, actors, without as many as fit.",
            show_default="1",
        ),
    ] = None
    cpus_per_worker: Annotated[
        int | None, typer.Option(help="CPUs, and torch's threads, of a worker; on Ray, 1 without.")
    ] = None
    gpus_per_worker: Annotated[
        float, typer.Option(help="On Ray: GPUs to keep for a worker, for models that use one by themselves.")
    ] = 0
    address: Annotated[
        str | None,
        typer.Option(help="Of a Ray cluster on a network you trust, or `auto`; without, one of its own on loopback."),
    ] = None
    shared_folder: Annotated[
        bool,
        typer.Option("--shared-folder", help="On Ray: workers write to the run's folder, which all share."),
    ] = False

    def where(self) -> "Where":
        from pgig.runs.where import Where

        return Where(
            backend=self.backend,  # type: ignore[arg-type]
            workers=self.workers,
            cpus_per_worker=self.cpus_per_worker,
            gpus_per_worker=self.gpus_per_worker,
            address=self.address,
            shared_folder=self.shared_folder,
        )
