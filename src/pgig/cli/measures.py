"""pgig measures"""

from rich.table import Table

from pgig.cli.command import app
from pgig.cli.terminal import console


@app.command()
def measures() -> None:
    """List the measures: what each says, which way is better, what it needs; its constants and where they come from.

    Example: `pgig measures`
    """
    from pgig.records.measures import CORE, MEASURES

    table = Table(box=None, pad_edge=False)
    for head in ("measure", "better", "needs"):
        table.add_column(head, no_wrap=True)
    table.add_column("what it says")
    for name, measure in MEASURES.items():
        needs = {"patches": "", "methods": "methods, anew"}.get(measure.needs, measure.needs)
        table.add_row(name, measure.better, needs, measure.about, style=None if name in CORE else "dim")
    console.print(table)
    console.print(f"core: {', '.join(CORE)}", highlight=False)
    console.print()
    constants = Table(box=None, pad_edge=False)
    for head in ("measure", "constant"):
        constants.add_column(head, no_wrap=True)
    constants.add_column("what it is")
    constants.add_column("from")
    for name, measure in MEASURES.items():
        for number, one in enumerate(measure.constants):
            constants.add_row("" if number else name, f"{one.name}={one.default}", one.about, one.source)
    console.print(constants)
    console.print("another constant: morf+fill=blur, insertion+unit=pixel, several with a plus each", highlight=False)
