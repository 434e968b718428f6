"""docs/reproduction.md, with its figures and tables, from the runs: a pure function of them."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import copyfile
from typing import Any

import numpy
from claims import CLAIMS, Areas, Verdict, compared, order_agreement, rank_correlation, verdicts
from embedded import NETWORKS
from matplotlib.figure import Figure
from plan import PROTOCOLS

from pgig.curves import auc
from pgig.methods import PAPER_METHODS
from pgig.report.curves import curves_figure
from pgig.report.page import write_figure
from pgig.report.run import Run
from pgig.report.tables import write_csv
from pgig.statistics import Comparison, comparisons, corrected, interval
from pgig.synthetic import stress_test
from pgig.synthetic.images import SETTINGS

HERE = Path(__file__).parent
TRUTH = "precision, |a|"


def areas_of(run: Run, images: Sequence[str] | None = None) -> Areas:
    places = [run.images.index(image) for image in images] if images is not None else slice(None)
    return {method: auc(curves)[places] for method, curves in run.curves.items()}


def embedded_tables(folder: Path, network: str) -> tuple[Areas, Areas]:
    """Areas under the curve and agreement with the truth, method -> [images of all settings]."""
    areas: dict[str, list[float]] = {}
    truth: dict[str, list[float]] = {}
    for setting in SETTINGS:
        with (folder / f"{network}-{setting}.csv").open(newline="") as file:
            for row in csv.DictReader(file):
                areas.setdefault(row["method"], []).append(float(row["AUC"]))
                truth.setdefault(row["method"], []).append(float(row[TRUTH]))
    return ({m: numpy.array(v) for m, v in areas.items()}, {m: numpy.array(v) for m, v in truth.items()})


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def ranked(areas: Areas) -> list[str]:
    return sorted(areas, key=lambda method: float(areas[method].mean()))


def areas_table(networks: Mapping[str, Areas], methods: Sequence[str]) -> str:
    """Mean areas with intervals, and ranks among these methods, network by network."""
    some = {name: {m: areas[m] for m in methods} for name, areas in networks.items()}
    rows = []
    for method in ranked(next(iter(some.values()))):
        cells = [f"{interval(areas[method])} ({ranked(areas).index(method) + 1})" for areas in some.values()]
        rows.append([f"`{method}`", *cells])
    return table(["AUC (rank)", *some], rows)


def claims_table(found: Mapping[str, Sequence[Verdict]]) -> str:
    rows = []
    for number, claim in enumerate(CLAIMS):
        cells = [_shown(of_network[number]) for of_network in found.values()]
        rows.append([number + 1, claim.text, *cells])
    return table(["", "claim", *found], rows)


def _shown(verdict: Verdict) -> str:
    if verdict.holds:
        return "**holds**"
    most = "; ".join(verdict.failed[:3]) + (f"; and {len(verdict.failed) - 3} more" if len(verdict.failed) > 3 else "")
    return f"**does not hold**: {most}"


def against(areas: Areas, names: Sequence[str], references: Sequence[str]) -> str:
    """Every variant against plain PGIG and pattern attribution: by how much the variant is better."""
    pairs = [(name, reference) for name in names for reference in references if name != reference]
    found = comparisons(numpy.stack([areas[reference] - areas[name] for name, reference in pairs], 1))
    mended = corrected({f"{a}|{b}": each for (a, b), each in zip(pairs, found, strict=True)})
    cells: dict[tuple[str, str], Comparison] = dict(zip(pairs, mended.values(), strict=True))
    rows = []
    for name in sorted(names, key=lambda each: float(areas[each].mean())):
        each = [cells.get((name, reference)) for reference in references]
        shown = ["" if c is None else f"{c.difference} (p {c.p:.2g})" for c in each]
        rows.append([f"`{name}`", str(interval(areas[name])), *shown])
    return table(["variant", "AUC", *(f"better than `{reference}` by" for reference in references)], rows)


def agreement(networks: Mapping[str, tuple[Areas, Areas]], methods: Sequence[str]) -> str:
    rows = []
    for name, (areas, truth) in networks.items():
        negative = {method: -values for method, values in truth.items()}  # lower is better, as for areas
        for which, some in (("all", list(methods)), ("without random", [m for m in methods if m != "random"])):
            mean, low, high = rank_correlation(areas, negative, some)
            rows.append([name, which, f"{mean:+.2f} [{low:+.2f}, {high:+.2f}]"])
    return table(["network", "methods", "rank correlation"], rows)


def between(networks: Mapping[str, Areas], methods: Sequence[str]) -> str:
    """Rank correlations of mean areas between networks: different images, so no pairing and no interval."""
    names = list(networks)
    means = {name: numpy.array([networks[name][m].mean() for m in methods]) for name in names}
    rows = [[one, *(f"{order_agreement(means[one], means[other]):+.2f}" for other in names)] for one in names]
    return table(["", *names], rows)


def protocols_table(runs: Mapping[str, Run]) -> str:
    columns = {name: areas_of(run) for name, run in runs.items()}
    rows = [
        [
            f"`{method}`",
            *(f"{areas[method].mean():.3f} ({ranked(areas).index(method) + 1})" for areas in columns.values()),
        ]
        for method in ranked(columns["paper"])
    ]
    return table(["AUC (rank)", *columns], rows)


def ablations_figure(areas: Areas, names: Sequence[str]) -> Figure:
    figure = Figure(figsize=(8, 0.32 * len(names) + 1), layout="constrained")
    ax = figure.subplots()
    for place, name in enumerate(sorted(names, key=lambda each: -float(areas[each].mean()))):
        found = interval(areas[name])
        colour = "#d55e00" if name.startswith("pgig") else "#0072b2"
        ax.errorbar(
            found.mean, place, xerr=[[found.mean - found.low], [found.high - found.mean]], fmt="o", color=colour
        )
        ax.text(-0.01, place, name, ha="right", va="center", fontsize=8, transform=ax.get_yaxis_transform())
    ax.set_yticks([])
    ax.set_xlabel("area under the curve, mean with 95 % interval: lower is better")
    ax.spines[["top", "right", "left"]].set_visible(False)
    return figure


def main(runs: Path, docs: Path) -> None:
    folder = docs / "reproduction"
    main_run, ablations, centred = (Run.read(runs / name) for name in ("main", "ablations", "centred"))
    embedded = {network: embedded_tables(runs / "embedded", network) for network in NETWORKS}
    squeezenet = areas_of(main_run)
    networks = {"SqueezeNet 1.0": squeezenet, **{f"embedded, {n}": areas for n, (areas, _) in embedded.items()}}
    paper = {name: {m: areas[m] for m in PAPER_METHODS} for name, areas in networks.items()}
    tested = areas_of(ablations, centred.images)
    tested = {**tested, **{f"{m}, centred patterns": a for m, a in areas_of(centred).items()}}
    protocols = {"paper": main_run, **{name: Run.read(runs / name) for name in PROTOCOLS}}
    stress = stress_test()
    write_figure(
        curves_figure(main_run.curves, f"SqueezeNet 1.0, {len(main_run.images)} photographs"), folder / "curves.png"
    )
    write_figure(ablations_figure(tested, list(tested)), folder / "ablations.png")
    copyfile(runs / "randomized" / "randomization.png", folder / "randomization.png")
    copyfile(runs / "randomized" / "table.csv", folder / "randomization.csv")
    for name, run in {**protocols, "ablations": ablations, "centred": centred}.items():
        rows = [[image, m, float(auc(c[n]))] for m, c in run.curves.items() for n, image in enumerate(run.images)]
        write_csv(folder / f"areas-{name}.csv", ["image", "method", "AUC"], rows)
    pairs = compared(paper["SqueezeNet 1.0"])
    write_csv(
        folder / "pairs.csv", ["one", "other", "one better by", "low", "high", "wins", "p (Holm)"],
        ([a, b, c.difference.mean, c.difference.low, c.difference.high, c.wins, c.p] for (a, b), c in pairs.items()),
    )  # fmt: skip
    names = ("pgig", "pattern_attribution")
    content = {
        "images": len(main_run.images),
        "areas": areas_table(paper, PAPER_METHODS),
        "claims": claims_table({name: verdicts(areas) for name, areas in paper.items()}),
        "stress": table(["method", "follows y on x1", "leaves x2 alone"], _stress_rows(stress)),
        "ablations": against(tested, list(tested), names),
        "embedded_ablations": areas_table(
            {n: a for n, a in networks.items() if n != "SqueezeNet 1.0"},
            [m for m in tested if m in embedded["plain"][0]],
        ),
        "protocols": protocols_table(protocols),
        "agreement": agreement({f"embedded, {n}": found for n, found in embedded.items()}, PAPER_METHODS),
        "between": between(paper, PAPER_METHODS),
    }  # fmt: skip
    text = (HERE / "questions.md").read_text() + "\n" + (HERE / "findings.md").read_text()
    for name, block in content.items():
        text = text.replace(f"<<{name}>>", str(block))
    (docs / "reproduction.md").write_text(text)


def _stress_rows(stress: Any) -> list[list[str]]:
    from pgig.report.synthetic import verdict_rows

    return [[str(cell) for cell in row] for row in verdict_rows(stress)]
