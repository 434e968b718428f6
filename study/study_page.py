"""docs/study.md, with its figures, from the published tables: a pure function of them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from analysis import Network, begun, chosen, compared, counting, with_slow
from aside_tables import (
    NOT_YET,
    counts_table,
    good_from,
    other_data_table,
    speed_table,
    stability_table,
    survivors_table,
)
from measured import read_results
from published import read_rows
from settings import FAITHFULNESS, NETWORKS
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
    verdict,
    worse_table,
)

from pgig.report.ranking import Ranking

HERE = Path(__file__).parent
TABLES, DOCS = HERE / "tables", HERE.parent / "docs"
MEASURED = HERE.parent / "benchmarks" / "results" / "experiment.json"
FIRST = "squeezenet1_0"
RELATIVES = (
    "pgig", "pgig+absolute", "integrated_pattern_attribution", "integrated_gradients", "occlusion", "removal_consensus",
    "removal_control", "random",
)  # fmt: skip


def write_page(tables: Path = TABLES, docs: Path = DOCS) -> None:
    found = [Network(read_results(tables, name)) for name in TITLES if (tables / name).is_dir()]
    found = [network for network in found if len(compared(network.results)) > 1]
    questions, answers, findings = ((HERE / f"{name}.md").read_text() for name in ("questions", "answers", "findings"))
    title, _, rest = questions.partition("\n")
    text = "\n".join([title, answers, rest, findings])
    for name, block in blocks(found, tables).items():
        text = text.replace(f"<<{name}>>", block)
    if left := re.findall("<<.*?>>", text):
        raise RuntimeError(f"nothing is known of {left}")
    real = [network for network in found if network.results.network in NETWORKS]
    everywhere = Ranking.of({name: run for network in real for name, run in network.runs.items()})
    shared = {
        n.results.network: Ranking.of(
            {n.results.network: n.results.run(FAITHFULNESS, compared(n.results))}
        ) for n in found if is_whole(n)
    }  # fmt: skip
    candidate = chosen(half(found, tables, "selection").standings)
    write_figures(found, everywhere, shared, candidate, tables, docs / "study")
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
    halves = half(found, tables, "selection"), half(found, tables, "confirmation")
    candidate = chosen(halves[0].standings)
    names = [network.results.network for network in found]
    real = [n for n in found if n.results.network in NETWORKS]
    whole = [n for n in found if is_whole(n)]
    survivors, named = survivors_table(tables, names)
    results = {n.results.network: n.results for n in found}
    with_more = [(_title(n), n) for each in found for n in (each, *_further(each)) if n.of is not with_slow]
    return {
        "images": images_table(found),
        "chosen": f"`{candidate}`",
        "verdict": verdict(candidate, real, found),
        "candidates": candidates_table(halves, with_more),
        "control": control_table([(_title(n), n) for n in found]),
        "worse": worse_table([*found, *(n for each in found for n in _further(each))]),
        "networks": networks_table(found),
        "paper": paper_table(found),
        "fills": fills_table(whole, RELATIVES),
        "stability": stability_table(found),
        "survivors": _with_figure("randomised", "How alike sizes stay as layers get random weights", survivors)
        + ("" if survivors == NOT_YET else _named(named)),
        "counts": _with_figure(
            "counts", "MoRF of PGIG by the photographs behind its patterns", counts_table(tables, results)
        ),
        "good from": good_from(tables, names),
        "other data": other_data_table(tables, results),
        "speed": speed_table(MEASURED),
        "best": "\n\n".join(_best_of(network) for network in found),
        "agreement": "\n\n".join(
            f"![How far measures agree on {TITLES[n.results.network]}: rank correlations of the methods](study/"
            f"agreement-{n.results.network}.png)" for n in whole
        ),
    }  # fmt: skip


def _named(survivors: Mapping[str, Sequence[str]]) -> str:
    """Explanations that survive random weights."""
    told = "; ".join(f"{where}: {', '.join(f'`{method}`' for method in of)}" for where, of in survivors.items())
    return (
        f"\n\nWith the whole interval, over draws and photographs, above 0.5: {told or 'none'}. (Intervals over "
        "three draws are rough. Methods with patterns keep those of the trained weights. Explained is the logit.)"
    )


def _with_figure(name: str, shows: str, table: str) -> str:
    return table if table == NOT_YET else f"![{shows}](study/{name}.png)\n\n{table}"


def _further(network: Network) -> list[Network]:
    """The same with methods that were measured on fewer photographs: those that stopped, and the slow ones."""
    usual = set(compared(network.results))
    found = [replace(network, of=of) for of in (begun, with_slow)]
    return [each for each in found if set(each.of(each.results)) > usual]


def _title(network: Network) -> str:
    kinds: dict[object, str] = {begun: ", all candidates", with_slow: ", the slow ones too"}
    return TITLES[network.results.network] + kinds.get(network.of, "")


def _best_of(network: Network) -> str:
    parts = [f"### {TITLES[network.results.network]}", _figures(network), best_table(network)]
    for each in _further(network):
        parts += [f"**{_title(each)}**, on the photographs that all were measured on:", best_table(each)]
    return "\n\n".join(parts)


def _figures(network: Network) -> str:
    name, title = network.results.network, TITLES[network.results.network]
    return (
        f"![Mean ranks of methods on {title}, the best first, with intervals](study/places-{name}.png)\n\n"
        f"![Degradation curves on {title}: how fast the class fades](study/curves-{name}.png)"
    )


if __name__ == "__main__":
    write_page()
