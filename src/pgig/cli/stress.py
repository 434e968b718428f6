"""pgig stress"""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from pgig.cli.command import app
from pgig.cli.embedded import Out
from pgig.cli.options import Threads
from pgig.cli.terminal import console, progress_of, shortened
from pgig.files import check_target


@app.command()
def stress(
    out: Out = Path("stress"),
    seed: Annotated[int, typer.Option(help="Seed of the noise; 42 gives the published inputs.")] = 42,
    steps: Annotated[int, typer.Option(help="Steps of the paths.")] = 100,
    method: Annotated[
        list[str] | None,
        typer.Option(help="Names, comma between; `all`; `module:name`: a function of (model, inputs, targets)."),
    ] = None,
    published_patterns: Annotated[
        bool, typer.Option("--published-patterns", help="Those of the authors' code in place of estimated ones.")
    ] = False,
    threads: Threads = None,
) -> None:
    """Run the paper's stress test: does a method follow the signal on a plateau, and leave a distractor alone?

    Writes figure 2 (stress.png), its numbers (stress.csv) and the verdicts (verdicts.csv).

    Examples:
    `pgig stress`

    `pgig stress --method all --out stress-all`

    `pgig stress --method pgig --method mymodule:my_explainer`
    """
    from pgig.report.synthetic import verdict_rows, write_stress
    from pgig.synthetic.stress import FOLLOWS, LEAVES_ALONE, STRESS_METHODS, authors_patterns, stress_data, stress_test

    check_target(out / "stress.csv")
    patterns = authors_patterns(stress_data(seed)[1]) if published_patterns else None
    with progress_of("stress test") as progress:
        test = stress_test(method or STRESS_METHODS, seed=seed, steps=steps, patterns=patterns, progress=progress)
    write_stress(test, out)
    table = Table(box=None, pad_edge=False)
    for number, head in enumerate(("method", "signal", "output", "follows it", "distractor", "of IG's", "alone")):
        table.add_column(head, justify="right" if number else "left", no_wrap=not number)
    for name, *row in verdict_rows(test):
        table.add_row(shortened(str(name)), *(f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row))
    console.print(table)
    console.print(
        f"signal: the mean |attribution| of x1 on the plateau, which follows the output if within {FOLLOWS:.0%} of it; "
        f"distractor: that of x2, which is left alone if at most {LEAVES_ALONE:.0%} of integrated gradients'",
        highlight=False,
    )
    console.print(f"wrote {out / 'stress.png'}, stress.csv and verdicts.csv", highlight=False, soft_wrap=True)
