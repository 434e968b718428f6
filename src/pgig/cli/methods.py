"""pgig methods"""

from rich.table import Table

from pgig.cli.app import app
from pgig.cli.terminal import console


@app.command()
def methods() -> None:
    """List the attribution methods with their options.

    Example: `pgig methods`
    """
    from pgig.explainers.registry import known_explainers
    from pgig.methods.table import PAPER_METHODS

    table = Table(box=None, pad_edge=False)
    table.add_column("method", no_wrap=True)
    table.add_column("what it is")
    table.add_column("options")
    for name, explainer in known_explainers().items():
        options = ", ".join(f"{key}={value}" for key, value in explainer.options.items())
        table.add_row(name, explainer.about, options, style=None if name in PAPER_METHODS else "dim")
    console.print(table)
