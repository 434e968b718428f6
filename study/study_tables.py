"""The page's tables, in Markdown."""

from collections.abc import Mapping, Sequence

import numpy
from analysis import PAPER_ORDER, Network, paper_agreement, rank_correlation
from candidates import cost
from settings import CHOSEN_FROM, FAITHFULNESS, FURTHER, MAIN, SLOW, STABILITY

from pgig.records.measures import asked_measure
from pgig.report.ranking import ALPHA, Cell
from pgig.report.run import Run
from pgig.statistics import compare, holm

TITLES: Mapping[str, str] = {
    "squeezenet1_0": "SqueezeNet 1.0", "efficientnet_lite0": "EfficientNet-Lite0",
    "efficientnet_lite2": "EfficientNet-Lite2", "embedded-plain": "embedded", "embedded-bn": "embedded, batch norm",
}  # fmt: skip
PAPER = tuple(method for method in PAPER_ORDER if method not in SLOW)  # on all photographs


def table(head: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(map(str, head))} |", f"|{' --- |' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def images_table(found: Sequence[Network]) -> str:
    """How many images each number stands on."""
    rows = []
    for network in found:
        results = network.results
        counts = [len(results.run(labels, ["random"]).images) for labels in (MAIN, FURTHER, STABILITY)]
        slow = len(results.run(MAIN, ["igos"]).images) if results.count("igos", "morf") else 0
        rows.append([TITLES[results.network], *counts, slow, len(network.ranking.methods)])
    head = ["network", "MoRF, LeRF, insertion, deletion", "other faithfulness measures and fills", "stability"]
    return table([*head, "`smoothgrad_ig`, `igos`", "methods on all of them"], rows)


def best_table(network: Network) -> str:
    """Means by measure, in bold in the best group; the best mean rank first. Below, how many are in each best group."""
    ranking = network.ranking
    rows = []
    for method, rank in ranking.mean_ranks.items():
        place = ranking.methods.index(method)
        cells = [_bold(f"{cell.means[place]:.3g}", bool(cell.best_group[place])) for cell in ranking.cells]
        standing = network.standings[method]
        rows.append(
            [code(method), f"{rank.mean:.1f} [{rank.low:.1f}, {rank.high:.1f}]",
             f"{len(standing.best_in)} of {len(standing.of)}", *cells]
        )  # fmt: skip
    head = [f"`{c.label}` ({_arrow(c.label)}, {c.images})" for c in ranking.cells]
    sizes = [_size(cell, ranking.methods) for cell in ranking.cells]
    return table(["method", "mean rank", "best group", *head], [*rows, ["*in the best group*", "", "", *sizes]])


def _size(cell: Cell, methods: Sequence[str]) -> str:
    """Of a best group, which tells little where the control is in it."""
    random = cell.best_group[methods.index("random")] if "random" in methods else False
    return f"{int(cell.best_group.sum())} of {len(methods)}{', random too' if random else ''}"


def candidates_table(halves: tuple[Network, Network], whole: Sequence[tuple[str, Network]]) -> str:
    """Candidates, by their mean rank where one is chosen.

    halves: of the network that chooses, mean ranks. whole: on each network, with the number of measures in whose best
    group a candidate is, in bold where it wins, and of those under which it is worse than random.
    """
    shown = [m for m in halves[0].standings if m in CHOSEN_FROM]
    rows = [
        [code(m), cost(m), *(_mean_rank(half, m) for half in halves), *(_standing(network, m) for _, network in whole)]
        for m in shown
    ]
    best = ["*the best of all methods*", "", *(_best(half) for half in halves), *(_best(n) for _, n in whole)]
    which = [f"{name} half, {half.counts}" for name, half in zip(("selection", "confirmation"), halves, strict=True)]
    head = ["candidate", "cost", *which, *(f"{title}, {network.counts}" for title, network in whole)]
    return table(head, [*rows, best])


def _mean_rank(network: Network, method: str) -> str:
    rank = network.ranking.mean_ranks.get(method)
    return "" if rank is None else f"{rank.mean:.1f} [{rank.low:.1f}, {rank.high:.1f}]"


def _standing(network: Network, method: str) -> str:
    standing = network.standings.get(method)
    if standing is None:
        return ""
    worse = sum(each.method == method for each in network.worse_than_random)
    told = f"{standing.mean_rank:.1f} ({len(standing.best_in)} of {len(standing.of)})"
    return _bold(told, standing.wins and not worse) + (f", worse than random in {worse}" if worse else "")


def _best(network: Network) -> str:
    method, standing = next(iter(network.standings.items()))
    return f"{code(method)} {standing.mean_rank:.1f} ({len(standing.best_in)} of {len(standing.of)})"


def verdict(candidate: str, real: Sequence[Network], found: Sequence[Network]) -> str:
    """The answer to question 6, for one candidate: on the real networks, and worse than random on any."""
    standings = [(TITLES[network.results.network], network.standings[candidate]) for network in real]
    worse = [
        f"`{each.label}` on {TITLES[network.results.network]}"
        for network in found for each in network.worse_than_random if each.method == candidate
    ]  # fmt: skip
    wins = all(standing.wins for _, standing in standings) and not worse
    told = ", ".join(f"{len(standing.best_in)} of {len(standing.of)} on {title}" for title, standing in standings)
    beside = f"worse than random under {', '.join(worse)}" if worse else "nowhere worse than random"
    return f"{'Yes' if wins else 'No'}: {code(candidate)} is in the best group under {told}; {beside}."


def control_table(found: Sequence[tuple[str, Network]]) -> str:
    """By how much the consensus with patterns is ahead of the same without; Holm over the measures of a network."""
    rows = []
    for title, network in found:
        ahead: dict[str, float] = {}
        p: dict[str, float] = {}
        for run in network.runs.values():
            for label, asked in run.asked.items():
                sign = 1 if asked.measure.better == "higher" else -1
                values = sign * run.ranked_by(label)
                places = [run.methods.index(m) for m in ("removal_consensus", "removal_control")]
                pair = compare(values[:, places[0]], values[:, places[1]])
                ahead[label], p[label] = pair.difference.mean, pair.p
        mended = holm(p)
        cells = {label: _bold(f"{ahead[label]:+.3g} (p {mended[label]:.2g})", mended[label] < ALPHA) for label in p}
        rows.append([f"{title}, {network.counts}", *(cells.get(label, "") for label in FAITHFULNESS)])
    return table(["better with patterns by", *(f"`{label}`" for label in FAITHFULNESS)], rows)


def worse_table(found: Sequence[Network]) -> str:
    """Once for each method, network and measure: on the most images that it was measured on."""
    rows: dict[tuple[str, str, str], list[object]] = {}
    for network in found:
        for worse in network.worse_than_random:
            key = code(worse.method), TITLES[network.results.network], f"`{worse.label}`"
            rows.setdefault(key, [*key, worse.images, f"{worse.by:.3g}", f"{worse.p:.2g}"])
    head = ["method", "network", "measure", "images", "behind random by", "p (Holm)"]
    return table(head, [rows[key] for key in sorted(rows)]) if rows else "None."


def networks_table(found: Sequence[Network]) -> str:
    """Rank correlation of the methods that both have, measure by measure and of mean ranks; images drawn anew."""
    rows = []
    for number, one in enumerate(found):
        for other in found[number + 1 :]:
            both = [m for m in one.ranking.methods if m in other.ranking.methods]
            pairs = [
                (a, b) for label in FAITHFULNESS for a in one.ranking.cells for b in other.ranking.cells
                if a.label == b.label == label
            ]  # fmt: skip
            told = {a.label: _alike([a], [b], one, other, both) for a, b in pairs}
            mean = _alike([a for a, _ in pairs], [b for _, b in pairs], one, other, both)
            names = f"{TITLES[one.results.network]} and {TITLES[other.results.network]}"
            rows.append([names, len(both), *(told.get(label, "") for label in FAITHFULNESS), mean])
    return table(["networks", "methods", *(f"`{label}`" for label in FAITHFULNESS), "mean rank"], rows)


def _alike(mine: Sequence[Cell], its: Sequence[Cell], one: Network, other: Network, both: Sequence[str]) -> str:
    """Spearman's of mean ranks over cells, and its interval."""
    now, drawn = [], []
    for cells, network in ((mine, one), (its, other)):
        places = [network.ranking.methods.index(m) for m in both]
        now.append(numpy.mean([cell.ranks[places] for cell in cells], 0))
        drawn.append(numpy.mean([cell.drawn[:, places] for cell in cells], 0))
    every = [rank_correlation(a, b) for a, b in zip(drawn[0][:400], drawn[1][:400], strict=True)]
    low, high = numpy.quantile(every, [0.025, 0.975])
    return f"{rank_correlation(now[0], now[1]):.2f} [{low:.2f}, {high:.2f}]"


def paper_table(found: Sequence[Network]) -> str:
    """The paper's methods by `morf`, and how far their order is the paper's; with smoothgrad_ig on the few."""
    rows = []
    for network in found:
        for methods in (PAPER, tuple(PAPER_ORDER)):
            if not all(network.results.count(m, "morf") for m in methods):
                continue
            run = network.results.run(["morf"], methods)
            order = ", ".join(code(m) for m in run.best_first("morf"))
            rows.append([TITLES[network.results.network], len(run.images), order, f"{paper_agreement(run):.2f}"])
    return table(["network", "images", "best first", "rank correlation with the paper's order"], rows)


def fills_table(found: Sequence[Network], methods: Sequence[str]) -> str:
    """Means and places among all methods under every fill and the released code's protocol, on the few."""
    labels = [label for label in (*MAIN, *FURTHER) if label.startswith(("morf", "lerf"))]
    rows = []
    for network in found:
        run = network.results.run([*labels], list(network.ranking.methods))
        for method in methods:
            if method in run.methods:
                cells = [_mean_and_place(run, label, method) for label in labels]
                title = f"{TITLES[network.results.network]}, {len(run.images)} images, {len(run.methods)} methods"
                rows.append([title, code(method), *cells])
    return table(["network", "method", *(f"`{label}` ({_arrow(label)})" for label in labels)], rows)


def _mean_and_place(run: Run, label: str, method: str) -> str:
    mean = run.ranked_by(label).mean(0)[run.methods.index(method)]
    return f"{mean:.3g} ({run.best_first(label).index(method) + 1}.)"


def _arrow(label: str) -> str:
    return f"{asked_measure(label, {}).measure.better} is better"


def code(method: str) -> str:
    """As Markdown names it."""
    name, comma, patterns = method.partition(", ")
    return f"`{name}`{comma}{patterns}"


def _bold(text: str, wanted: bool) -> str:
    return f"**{text}**" if wanted else text
