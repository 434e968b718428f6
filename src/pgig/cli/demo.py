"""pgig demo"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

import typer

from pgig.cli.command import app
from pgig.cli.embedded import EmbeddedModel, Out, variant_of
from pgig.cli.options import Threads
from pgig.cli.terminal import console, errors, progress_of


@app.command()
def demo(
    out: Out = Path("demo"),
    model: EmbeddedModel = "plain",
    images: Annotated[int, typer.Option(help="Images per setting with known truth.")] = 16,
    threads: Threads = None,
) -> None:
    """Show the whole product without any download, on one page, OUT/index.html.

    Photographs on a real network, the paper's argument, patterns, known truth, degradation; under two minutes.

    Example: `pgig demo --out demo`
    """
    from pgig.runs.demo import run_demo

    found = run_demo(out, _announced, model=variant_of(model), images=images)
    console.print(f"the page is {found.page.resolve()}: open it in a browser", highlight=False, soft_wrap=True)


def _announced(what: str, unit: str) -> AbstractContextManager[Callable[[int, int], object]]:
    """Off a terminal, at least a line at the beginning of each stage."""
    if not errors.is_terminal:
        errors.print(f"{what} ...", highlight=False)
    return progress_of(what, unit)
