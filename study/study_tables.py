"""The page's tables, in Markdown."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy
from analysis import Network, paper_agreement, rank_correlation
from measured import Results
from published import read_rows
from settings import CHOSEN_FROM, FAITHFULNESS, FURTHER, MAIN, STABILITY

from pgig.records.measures import asked_measure
from pgig.report.ranking import ALPHA
from pgig.statistics import Interval, compare, interval

TITLES: Mapping[str, str] = {
    "squeezenet1_0": "SqueezeNet 1.0", "efficientnet_lite0": "EfficientNet-Lite0",
    "efficientnet_lite2": "EfficientNet-Lite2", "embedded-plain": "embedded", "embedded-bn": "embedded, batch norm",
}  # fmt: skip


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
        rows.append([TITLES[results.network], *counts, slow])
    head = ["network", "MoRF, LeRF, insertion, deletion", "other faithfulness measures and fills", "stability"]
    return table([*head, "`smoothgrad_ig`, `igos`"], rows)


def best_table(network: Network) -> str:
    """Means by measure, in bold in the best group; the best mean rank first."""
    ranking = network.ranking
    rows = []
    for method, rank in ranking.mean_ranks.items():
        place = ranking.methods.index(method)
        cells = [_bold(f"{cell.means[place]:.3g}", bool(cell.best_group[place])) for cell in ranking.cells]
        standing = network.standings[method]
        rows.append(
            [_named(method), f"{rank.mean:.1f} [{rank.low:.1f}, {rank.high:.1f}]",
             f"{len(standing.best_in)} of {len(standing.of)}", *cells]
        )  # fmt: skip
    head = [f"`{c.label}` ({_arrow(c.label)}, {c.images})" for c in ranking.cells]
    return table(["method", "mean rank", "best group", *head], rows)


def candidates_table(chosen_on: Network, confirmed_on: Sequence[tuple[str, Network]]) -> str:
    """Candidates, by their mean rank where one is chosen: mean ranks, and in how many measures in the best group."""
    shown = [m for m in chosen_on.standings if m in CHOSEN_FROM]
    every = [("chosen on: SqueezeNet 1.0, selection half", chosen_on), *confirmed_on]
    rows = [[_named(m), *(_standing(network, m) for _, network in every)] for m in shown]
    best = ["*the best of all methods*", *(_best(network) for _, network in every)]
    return table(["candidate", *(name for name, _ in every)], [*rows, best])


def _standing(network: Network, method: str) -> str:
    standing = network.standings.get(method)
    if standing is None:
        return ""
    return _bold(f"{standing.mean_rank:.1f} ({len(standing.best_in)} of {len(standing.of)})", standing.wins)


def _best(network: Network) -> str:
    method, standing = next(iter(network.standings.items()))
    return f"{_named(method)} {standing.mean_rank:.1f} ({len(standing.best_in)} of {len(standing.of)})"


def control_table(found: Sequence[tuple[str, Network]]) -> str:
    """By how much the consensus with patterns is ahead of the same without, measure by measure."""
    rows = []
    for title, network in found:
        cells: dict[str, str] = {}
        for run in network.runs.values():
            if not {"removal_consensus", "removal_control"} <= set(run.methods):
                continue
            for label, asked in run.asked.items():
                sign = 1 if asked.measure.better == "higher" else -1
                values = sign * run.ranked_by(label)
                places = [run.methods.index(m) for m in ("removal_consensus", "removal_control")]
                pair = compare(values[:, places[0]], values[:, places[1]])
                cells[label] = _bold(f"{pair.difference.mean:+.3g} (p {pair.p:.2g})", pair.p < ALPHA)
        rows.append([title, *(cells.get(label, "") for label in FAITHFULNESS)])
    return table(["better with patterns by", *(f"`{label}`" for label in FAITHFULNESS)], rows)


def worse_table(found: Sequence[Network]) -> str:
    rows = [
        [_named(worse.method), TITLES[network.results.network], f"`{worse.label}`", f"{worse.by:.3g}",
         f"{worse.p:.2g}"]
        for network in found for worse in network.worse_than_random
    ]  # fmt: skip
    return table(["method", "network", "measure", "behind random by", "p (Holm)"], sorted(rows)) if rows else "None."


def networks_table(found: Sequence[Network]) -> str:
    """Rank correlation of the methods that both have, measure by measure and of mean ranks."""
    rows = []
    for number, one in enumerate(found):
        for other in found[number + 1 :]:
            both = [m for m in one.ranking.methods if m in other.ranking.methods]
            told = []
            for label in FAITHFULNESS:
                cells = [
                    next((cell for cell in network.ranking.cells if cell.label == label), None)
                    for network in (one, other)
                ]
                if any(cell is None for cell in cells):
                    told.append("")
                    continue
                ranks = [
                    [float(cell.ranks[network.ranking.methods.index(m)]) for m in both]
                    for cell, network in zip(cells, (one, other), strict=True) if cell is not None
                ]  # fmt: skip
                told.append(f"{rank_correlation(*ranks):.2f}")
            mean = [[network.ranking.mean_ranks[m].mean for m in both] for network in (one, other)]
            names = f"{TITLES[one.results.network]} and {TITLES[other.results.network]}"
            rows.append([names, *told, f"{rank_correlation(*mean):.2f}"])
    return table(["networks", *(f"`{label}`" for label in FAITHFULNESS), "mean rank"], rows)


def paper_table(found: Sequence[Network]) -> str:
    """The paper's methods by `morf`, and how far their order is the paper's."""
    rows = []
    for network in found:
        results = network.results
        methods = [m for m in results.methods if m in _PAPER]
        run = results.run(["morf"], methods)
        order = ", ".join(_named(m) for m in run.best_first("morf"))
        rows.append([TITLES[results.network], len(run.images), order, f"{paper_agreement(results):.2f}"])
    return table(["network", "images", "best first", "rank correlation with the paper's order"], rows)


_PAPER = (
    "random", "gradient", "gradient_x_input", "integrated_gradients", "vargrad", "smoothgrad_squared",
    "expected_gradients", "guided_backprop", "pattern_attribution", "pgig",
)  # fmt: skip


def fills_table(found: Sequence[Network], methods: Sequence[str]) -> str:
    """Places among all methods under every fill and the released code's protocol, on the few."""
    labels = ["morf", *(label for label in FURTHER if label.startswith("morf"))]
    rows = []
    for network in found:
        run = network.results.run([*labels], list(network.ranking.methods))
        for method in methods:
            if method in run.methods:
                places = [run.best_first(label).index(method) + 1 for label in labels]
                rows.append([TITLES[network.results.network], _named(method), *places, len(run.methods)])
    return table(["network", "method", *(f"`{label}`" for label in labels), "of"], rows)


def slow_table(found: Sequence[Network]) -> str:
    """smoothgrad_ig and igos beside the rest: their places on the same images."""
    rows = []
    for network in found:
        slow = [m for m in ("smoothgrad_ig", "igos") if network.results.count(m, "morf")]
        if not slow:
            continue
        methods = [*network.ranking.methods, *slow]
        run = network.results.run(list(FAITHFULNESS), methods)
        for method in slow:
            places = [run.best_first(label).index(method) + 1 for label in FAITHFULNESS]
            rows.append([TITLES[network.results.network], _named(method), *places, len(methods), len(run.images)])
    return table(["network", "method", *(f"`{label}`" for label in FAITHFULNESS), "of", "images"], rows)


def stability_table(found: Sequence[Network]) -> str:
    rows: dict[str, list[object]] = {}
    shown = [n for n in found if n.results.count("pgig", "max_sensitivity")]
    for network in shown:
        run = network.results.run(STABILITY)
        for method, values in zip(run.methods, run.ranked_by(STABILITY[0]).T, strict=True):
            rows.setdefault(method, []).append(interval(values))
    head = [f"{TITLES[n.results.network]}, {len(n.results.run(STABILITY).images)}" for n in shown]
    return table(["largest change", *head], [[_named(m), *of] for m, of in rows.items()])


def survivors_table(tables: Path, networks: Sequence[str]) -> tuple[str, dict[str, list[str]]]:
    """Rank correlation of sizes with the classifier alone random, and with all stages; those that survive the last."""
    rows: dict[str, list[object]] = {}
    head: list[str] = []
    survivors: dict[str, list[str]] = {}
    for network in networks:
        of = randomised(tables, network)
        if not of:
            continue
        stages = sorted({stage for stage, _ in of})
        head += [f"{TITLES[network]}: classifier", f"{TITLES[network]}: all {stages[-1]} layers"]
        for method in dict.fromkeys(method for _, method in of):
            first, last = (over_draws(of[stage, method]) for stage in (stages[0], stages[-1]))
            rows.setdefault(method, []).extend([first, last])
            for kind, found in (("classifier", first), ("everything", last)):
                if found.low > 0.5:
                    survivors.setdefault(f"{TITLES[network]}, {kind}", []).append(method)
    return table(["rank correlation of sizes", *head], [[_named(m), *of] for m, of in rows.items()]), survivors


def randomised(tables: Path, network: str) -> dict[tuple[int, str], list[list[float]]]:
    """(layers randomised, method) -> draw -> photograph -> rank correlation of sizes."""
    found: dict[tuple[int, str], list[list[float]]] = {}
    for path in sorted((tables / "randomised").glob(f"{network}-*.csv")):
        of_draw: dict[tuple[int, str], list[float]] = {}
        for row in read_rows(path):
            key = int(row["randomised"]), row["method"]
            of_draw.setdefault(key, []).append(float(row["spearman_absolute"]))
        for key, values in of_draw.items():
            found.setdefault(key, []).append(values)
    return found


def over_draws(values: Sequence[Sequence[float]], resamples: int = 2000) -> Interval:
    """The mean over draws of weights and photographs; both are drawn anew."""
    array = numpy.array(values)  # [draws, photographs]
    rng = numpy.random.default_rng(0)
    draws = rng.integers(0, len(array), (resamples, len(array)))
    photographs = rng.integers(0, array.shape[1], (resamples, array.shape[1]))
    means = array[draws[:, :, None], photographs[:, None, :]].mean((1, 2))
    low, high = numpy.quantile(means, [0.025, 0.975])
    return Interval(float(array.mean()), float(low), float(high))


def patterns_table(tables: Path, results: Mapping[str, Results]) -> str:
    """PGIG by what its patterns were estimated from: MoRF, place among the ten, likeness, the report's verdict."""
    rows = []
    for network, measured in results.items():
        path = tables / "patterns" / f"{network}.csv"
        if not path.is_file():
            continue
        verdicts = {row["patterns"]: row for row in read_rows(path.with_name(f"{network}-verdicts.csv"))}
        found: dict[tuple[str, str], list[tuple[str, float, float, bool]]] = {}
        for row in read_rows(path):
            key = row["patterns"], row["method"]
            entry = row["photograph"], float(row["morf"]), float(row["correlation"]), row["animal"] == "True"
            found.setdefault(key, []).append(entry)
        for name, verdict in verdicts.items():
            signed, sizes = found[name, "pgig"], found[name, "pgig+absolute"]
            place = _place(measured, {image: area for image, area, _, _ in signed})
            rows.append(
                [TITLES[network], name, interval([a for _, a, _, _ in signed]), place,
                 interval([a for _, a, _, _ in sizes]), interval([c for _, _, c, _ in sizes]),
                 f"{verdict['doubtful']}, {verdict['doubtful by rho too']} of {verdict['layers']}"]
            )  # fmt: skip
    return table(
        ["network", "patterns of", "MoRF of PGIG", "its place among the ten", "MoRF of its sizes",
         "rank correlation of sizes with 250's", "doubtful layers: without, with held-out images"], rows,
    )  # fmt: skip


def _place(measured: Results, areas: Mapping[str, float]) -> str:
    """Where PGIG with these areas stands among the paper's others, on the same photographs."""
    others = [m for m in _PAPER if m != "pgig"]
    run = measured.run(["morf"], others)
    places = [n for n, image in enumerate(run.images) if image in areas]
    if not places:
        return ""
    own = float(numpy.mean([areas[run.images[n]] for n in places]))
    return f"{1 + int((run.ranked_by('morf')[places].mean(0) < own).sum())} of {len(_PAPER)}, {len(places)}"


def _arrow(label: str) -> str:
    return f"{asked_measure(label, {}).measure.better} is better"


def _named(method: str) -> str:
    name, comma, patterns = method.partition(", ")
    return f"`{name}`{comma}{patterns}"


def _bold(text: str, wanted: bool) -> str:
    return f"**{text}**" if wanted else text
