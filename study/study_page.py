"""docs/study.md, with its figures, from the published tables: a pure function of them."""

from collections.abc import Sequence
from pathlib import Path

from analysis import Network, begun, chosen, compared, counting
from measured import read_results
from published import read_rows
from settings import FAITHFULNESS
from study_figures import write_figures
from study_tables import (
    TITLES,
    best_table,
    candidates_table,
    control_table,
    fills_table,
    images_table,
    networks_table,
    paper_table,
    patterns_table,
    slow_table,
    stability_table,
    survivors_table,
    worse_table,
)

from pgig.report.ranking import Ranking

HERE = Path(__file__).parent
TABLES, DOCS = HERE / "tables", HERE.parent / "docs"
FIRST = "squeezenet1_0"
RELATIVES = "pgig", "pgig+absolute", "integrated_pattern_attribution", "integrated_gradients", "occlusion", "random"


def write_page(tables: Path = TABLES, docs: Path = DOCS) -> None:
    found = [Network(read_results(tables, name)) for name in TITLES if (tables / name).is_dir()]
    found = [network for network in found if len(compared(network.results)) > 1]
    text = (HERE / "questions.md").read_text() + "\n" + (HERE / "findings.md").read_text()
    for name, block in blocks(found, tables).items():
        text = text.replace(f"<<{name}>>", block)
    rankings = (
        Ranking.of({name: run for network in found for name, run in network.runs.items()}),
        Ranking.of(
            {TITLES[n.results.network]: n.results.run(FAITHFULNESS, compared(n.results)) for n in found if is_whole(n)}
        ),
    )
    write_figures(found, rankings, chosen(half(found, tables, "selection").standings), tables, docs / "study")
    (docs / "study.md").write_text(text)


def is_whole(network: Network) -> bool:
    """Was it measured by all that counts?"""
    return len(counting(network.results)) == len(FAITHFULNESS)


def half(found: Sequence[Network], tables: Path, which: str) -> Network:
    """The network that chooses, on one half of its photographs."""
    names = {row["photograph"] for row in read_rows(tables / "photographs.csv") if row["half"] == which}
    return Network(next(network.results for network in found if network.results.network == FIRST), tuple(names))


def blocks(found: Sequence[Network], tables: Path) -> dict[str, str]:
    """What stands in the text between << and >>."""
    selection, confirmation = (half(found, tables, which) for which in ("selection", "confirmation"))
    others = [(TITLES[n.results.network], n) for n in found if n.results.network != FIRST]
    confirming = [
        (f"{TITLES[n.results.network]}{', where all were measured' if part.with_begun else ''}", part)
        for _, n in others for part in (n, Network(n.results, with_begun=True))
        if not part.with_begun or set(begun(n.results)) > set(compared(n.results))
    ]  # fmt: skip
    survivors, named = survivors_table(tables, [network.results.network for network in found])
    return {
        "images": images_table(found),
        "chosen": f"`{chosen(selection.standings)}`",
        "candidates": candidates_table(selection, [("SqueezeNet 1.0, confirmation half", confirmation), *confirming]),
        "control": control_table([("SqueezeNet 1.0", next(n for n in found if n.results.network == FIRST)), *others]),
        "worse": worse_table(found),
        "networks": networks_table(found),
        "paper": paper_table(found),
        "fills": fills_table([n for n in found if is_whole(n)], RELATIVES),
        "slow": slow_table([n for n in found if is_whole(n)]),
        "stability": stability_table(found),
        "survivors": survivors,
        "survivors named": "none measured."
        if not named
        else "; ".join(f"{where}: {', '.join(f'`{m}`' for m in of)}" for where, of in named.items()),
        "patterns": patterns_table(tables, {n.results.network: n.results for n in found}),
        "best": "\n\n".join(f"### {TITLES[n.results.network]}\n\n{_figures(n)}\n\n{best_table(n)}" for n in found),
    }


def _figures(network: Network) -> str:
    name, title = network.results.network, TITLES[network.results.network]
    return (
        f"![Mean ranks of methods on {title}, with bars that join what is not told apart](study/places-{name}.png)\n\n"
        f"![Degradation curves on {title}](study/curves-{name}.png)"
    )


if __name__ == "__main__":
    write_page()
