"""pgig report"""

from pathlib import Path
from typing import Annotated

import typer

from pgig.cli.command import app
from pgig.cli.terminal import console


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("report"),
) -> None:
    """Make figures, tables and a page of one or several runs, with what a paper needs of them.

    Examples:
    `pgig report runs/vgg16 --out report`

    `pgig report runs/vgg16 runs/vgg16-blur --out both`
    """
    from pgig.report.benchmark import write_report  # matplotlib is slow to load

    page = write_report(runs, out)
    console.print(f"the page is {page.resolve()}: open it in a browser", highlight=False, soft_wrap=True)
