"""What a page and its files say of a ranking: tables, a heat map of agreement, a critical-difference diagram."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
from matplotlib.figure import Figure

from pgig.files import check_target
from pgig.records.tables import write_csv
from pgig.report.names import short_name
from pgig.report.page import PAGE, Size, publish, write_page
from pgig.report.ranking import Ranking
from pgig.report.run import Run
from pgig.report.verdict import verdict


def write_ranking(ranking: Ranking, runs: Mapping[str, Run], out: Path) -> Path:
    """A page of its own. Gives it."""
    check_target(out / "index.html")
    section = ranking_section(ranking, runs, out)
    for file, template in (("index.html", "ranking.html"), ("ranking.md", "ranking.md")):
        write_page(out / file, template, ranking=section)
    return out / "index.html"


def ranking_section(ranking: Ranking, runs: Mapping[str, Run], out: Path) -> dict[str, Any]:
    _write_tables(ranking, out)
    figures: dict[str, str | None] = {"places": None, "agreement": None}
    if len(ranking.cells) > 1:
        figures["places"] = publish(lambda size: critical_difference_figure(ranking, size), out / "ranking-places.png")
    if ranking.agreements:
        figures["agreement"] = publish(lambda size: agreement_figure(ranking, size), out / "ranking-agreement.png")
    places = {label: {m: int(place) if place == int(place) else place for m, place in of.items()}
              for label, of in ranking.without.items()}  # fmt: skip
    return {
        "verdict": verdict(ranking),
        "methods": list(ranking.mean_ranks),
        "mean_ranks": ranking.mean_ranks,
        "in_best_group": ranking.in_best_group,
        "wins": ranking.wins,
        "count": len(ranking.cells),
        "without": places,
        "span": {m: _span([of[m] for of in ranking.without.values()]) for m in ranking.methods},
        "left_out": ranking.left_out,
        "not_counted": ranking.not_counted,
        "runs": {name: run_facts(run) for name, run in runs.items()},
        "figures": figures,
        "cells": [
            {
                "id": f"cell-{number}", "run": cell.run, "label": cell.label, "images": cell.images,
                "rows": {
                    m: {
                        "rank": cell.interval(place), "mean": float(cell.means[place]), "p": float(cell.p[place]),
                        "best": bool(cell.best_group[place]),
                    }
                    for m in sorted(ranking.methods, key=lambda m: cell.ranks[ranking.methods.index(m)])
                    for place in [ranking.methods.index(m)]
                },
            }
            for number, cell in enumerate(ranking.cells)
        ],
    }  # fmt: skip


def run_facts(run: Run) -> dict[str, str]:
    """Which network, images and score a run's settings are of."""
    images, files = run.config["images"], run.config.get("files", {})
    return {
        "network": str(run.config["model"]["model"]),
        "images": f"{len(run.images)} of {images['count']}" + ("" if run.is_complete else ", not finished"),
        "from": str(files.get("images", "")),
        "size": f"{images['size']} x {images['size']}",
        "score": str(run.config["degradation"]["score"]),
    }


def _span(places: list[float]) -> str:
    low, high = (min(places), max(places)) if places else (0, 0)
    return "" if not places else f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _write_tables(ranking: Ranking, out: Path) -> None:
    write_csv(
        out / "ranking.csv",
        ["method", "mean rank", "low", "high", "best group in", "best in", "settings", "place without any one measure"],
        (
            [m, r.mean, r.low, r.high, ranking.in_best_group[m], ranking.wins[m], len(ranking.cells),
             _span([of[m] for of in ranking.without.values()])]
            for m, r in ranking.mean_ranks.items()
        ),
    )  # fmt: skip
    write_csv(
        out / "ranking-cells.csv",
        ["run", "measure", "method", "images", "mean", "rank", "low", "high", "best group", "p (Holm)"],
        (
            [c.run, c.label, m, c.images, c.means[n], c.ranks[n], c.interval(n).low, c.interval(n).high,
             bool(c.best_group[n]), c.p[n]]
            for c in ranking.cells for n, m in enumerate(ranking.methods)
        ),
    )  # fmt: skip
    write_csv(
        out / "ranking-agreement.csv", ["measure", "other", "rank correlation", "low", "high"],
        ([a.first, a.second, a.correlation.mean, a.correlation.low, a.correlation.high] for a in ranking.agreements),
    )  # fmt: skip
    write_csv(
        out / "ranking-without.csv", ["left out", *ranking.methods],
        ([label, *places.values()] for label, places in ranking.without.items()),
    )  # fmt: skip


def agreement_figure(ranking: Ranking, size: Size = PAGE) -> Figure:
    """Rank correlations between measures: blue where they agree, red where they contradict each other."""
    labels = ranking.labels
    matrix = numpy.full((len(labels), len(labels)), numpy.nan)
    for agreement in ranking.agreements:
        places = labels.index(agreement.first), labels.index(agreement.second)
        matrix[places] = matrix[places[::-1]] = agreement.correlation.mean
    figure = Figure(figsize=(size.width, size.width * 0.86), layout="constrained")
    ax = figure.subplots()
    shown = ax.imshow(matrix, cmap="RdBu", vmin=-1, vmax=1)
    intervals = {(a.first, a.second): a.correlation for a in ranking.agreements}
    for (one, two), found in intervals.items():
        for row, column in ((labels.index(one), labels.index(two)), (labels.index(two), labels.index(one))):
            told = f"{found.mean:.2f}" if row < column else f"{found.low:.2f}\n{found.high:.2f}"
            ax.text(
                column, row, told, ha="center", va="center", fontsize=size.label * (0.9 if size is PAGE else 0.75),
                color="white" if abs(found.mean) > 0.6 else "black",
            )  # fmt: skip
    ax.set_xticks(range(len(labels)), labels, rotation=45, ha="right", fontsize=size.label, parse_math=False)
    ax.set_yticks(range(len(labels)), labels, fontsize=size.label, parse_math=False)
    bar = figure.colorbar(shown, shrink=0.7)
    bar.set_label("rank correlation of methods", fontsize=size.label)
    bar.ax.tick_params(labelsize=size.label)
    ax.set_title("Upper right: the value; lower left: the ends of its 95 % interval", fontsize=size.title)
    return figure


def critical_difference_figure(ranking: Ranking, size: Size = PAGE, *, joined: bool = True) -> Figure:
    """Mean ranks on a line with their intervals; bars join what Nemenyi's test does not tell apart.

    joined: without bars, which tell little where the settings are few.
    """
    names = list(ranking.mean_ranks)
    ranks = [ranking.mean_ranks[name].mean for name in names]
    groups = _groups(ranks, ranking.critical_difference) if joined else []
    line = 0.3 if size is PAGE else 0.15
    figure = Figure(figsize=(size.width, line * (len(names) + 1.2 * len(groups) + 4.5)), layout="constrained")
    ax = figure.subplots()
    for place, name in enumerate(names):
        found = ranking.mean_ranks[name]
        ax.plot([found.low, found.high], [place, place], color="#0072b2", linewidth=2 * size.line)
        ax.plot(found.mean, place, "o", color="#0072b2", markersize=7 * size.line)
    for number, (first, last) in enumerate(groups):
        below = len(names) + 0.2 + number * 0.8
        ax.plot([ranks[first] - 0.04, ranks[last] + 0.04], [below, below], color="0.2", linewidth=4 * size.line,
                solid_capstyle="butt")  # fmt: skip
    ax.set_yticks(range(len(names)), [short_name(name) for name in names], fontsize=size.label, parse_math=False)
    ax.set_ylim(len(names) + 0.8 * len(groups) + 0.3, -0.7)
    ax.set_xlim(0.8, len(names) + 0.2)
    ax.tick_params(axis="x", labelsize=size.text)
    told = f"mean rank over {len(ranking.cells)} settings, 1 is best"
    if joined:
        told += f"\nbars join what is within the critical difference of {ranking.critical_difference:.2f}"
    ax.set_xlabel(told, fontsize=size.label)
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def _groups(ranks: list[float], difference: float) -> list[tuple[int, int]]:
    """Stretches of methods, the first and the last of each within the difference; none inside another."""
    found: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = max(n for n in range(first, len(ranks)) if ranks[n] - ranks[first] < difference)
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found
