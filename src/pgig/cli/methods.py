"""pgig methods"""

from typing import TYPE_CHECKING

from rich.table import Table

from pgig.cli.command import app
from pgig.cli.terminal import console

if TYPE_CHECKING:
    from pgig.explainers.protocol import Explainer

_VARIANTS = (
    ("NAME+absolute", "every attribution without its sign: how much, for or against"),
    ("NAME+baseline=black", "paths from `black`, `blurred` or `zero` (methods with steps)"),
    ("NAME+OPTION=VALUE", "any option of the table: `pgig+start=one`, `occlusion+window=8`"),
    ("NAME+steps=auto", "as many steps as each input needs (methods with steps)"),
    ("module:name", "an explainer of your own: a function of (model, inputs, targets), or a class like Captum's"),
)


@app.command()
def methods() -> None:
    """List the attribution methods: what each costs, whether it needs patterns, its options; and variants of them.

    Example: `pgig methods`
    """
    from pgig.explainers.registry import QUICK_METHODS, known_explainers
    from pgig.methods.table import PAPER_METHODS

    table = Table(box=None, pad_edge=False)
    for head in ("method", "needs", "gradients"):
        table.add_column(head, no_wrap=True, justify="right" if head == "gradients" else "left")
    table.add_column("what it is")
    table.add_column("options")
    for name, explainer in known_explainers().items():
        options = ", ".join(f"{key}={value}" for key, value in explainer.options.items())
        needs = "patterns" if explainer.needs.patterns else "references" if explainer.needs.references else ""
        table.add_row(
            name, needs, _cost(explainer), explainer.about, options, style=None if name in PAPER_METHODS else "dim"
        )
    console.print(table)
    console.print(f"quick: {', '.join(QUICK_METHODS)}; all: the first {len(PAPER_METHODS)}", highlight=False)
    console.print("gradients: forward and backward passes for one image, with the options as shown", highlight=False)
    console.print()
    variants = Table(box=None, pad_edge=False)
    variants.add_column("variants", no_wrap=True)
    variants.add_column("")
    for written, told in _VARIANTS:
        variants.add_row(written, told.replace("`", ""))
    console.print(variants)


def _cost(explainer: "Explainer") -> str:
    from pgig.explainers.consensus import Consensus
    from pgig.explainers.igos import Igos
    from pgig.explainers.methods import MethodExplainer

    if isinstance(explainer, MethodExplainer):
        return str(explainer.method.points.count if explainer.method.rule.backward else 0)
    if isinstance(explainer, Igos):
        return f"{explainer.iterations * explainer.intervals}+"
    if isinstance(explainer, Consensus):
        return f"{explainer.gradients}, windows"
    return "0: windows" if explainer.needs.memory else "its own"
