"""pgig rank"""

from pathlib import Path
from typing import Annotated

import typer

from pgig.cli.command import app
from pgig.cli.terminal import console


@app.command()
def rank(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("ranking"),
) -> None:
    """Rank methods over all measures of one or several runs: other networks, protocols or images, each a folder.

    Examples:
    `pgig rank runs/photos --out ranking`

    `pgig rank runs/vgg16 runs/squeezenet runs/resnet50 --out ranking`
    """
    from pgig.report.benchmark import named_runs  # matplotlib is slow to load
    from pgig.report.ranking import Ranking
    from pgig.report.ranking_report import write_ranking
    from pgig.report.verdict import verdict

    read = named_runs(runs)
    ranking = Ranking.of(read)
    page = write_ranking(ranking, read, out)
    for method, found in ranking.mean_ranks.items():
        console.print(
            f"{method:32s} mean rank {found.mean:5.2f} [{found.low:.2f}, {found.high:.2f}], in the best group in "
            f"{ranking.in_best_group[method]} of {len(ranking.cells)}", highlight=False, soft_wrap=True,
        )  # fmt: skip
    for name, methods in ranking.left_out.items():
        console.print(f"not every run has {', '.join(methods)}, of {name}: left out", highlight=False, soft_wrap=True)
    console.print(verdict(ranking), highlight=False, soft_wrap=True)
    console.print(f"the page is {page.resolve()}: open it in a browser", highlight=False, soft_wrap=True)
