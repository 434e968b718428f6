"""The page's figures."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from analysis import Network
from aside_tables import FromData, drawn, from_data, over_draws, randomised
from matplotlib.figure import Figure
from study_tables import TITLES

from pgig.report.curves import curves_figure, looks
from pgig.report.page import write_figure
from pgig.report.ranking import Ranking
from pgig.report.ranking_report import agreement_figure, critical_difference_figure
from pgig.report.streamed import Band
from pgig.statistics import interval

SHOWN = (
    "pgig", "random", "gradient", "integrated_gradients", "expected_gradients", "smoothgrad_squared",
    "guided_backprop", "pattern_attribution", "integrated_pattern_attribution", "pgig+absolute", "occlusion",
    "removal_control",
)  # fmt: skip
SHORT = {"integrated_pattern_attribution": "IPA", "integrated_gradients": "IG"}


def write_figures(
    found: Sequence[Network], everywhere: Ranking, shared: Mapping[str, Ranking], chosen: str, tables: Path,
    folder: Path,
) -> None:  # fmt: skip
    """everywhere: all real networks. shared: by network, on the few that all measures share, to compare measures."""
    write_figure(critical_difference_figure(_short(everywhere)), folder / "places.png")
    for name, ranking in shared.items():
        write_figure(agreement_figure(ranking), folder / f"agreement-{name}.png")
    for network in found:
        name = network.results.network
        write_figure(critical_difference_figure(_short(network.ranking), joined=False), folder / f"places-{name}.png")
        shown = [*SHOWN, *([] if chosen in SHOWN else [chosen])]
        title = f"{TITLES[name]}, {len(network.results.run(['morf'], ['random']).images)} images"
        write_figure(curves_figure(bands(network, shown), title), folder / f"curves-{name}.png")
    alive = {n.results.network: randomised(tables, n.results.network) for n in found}
    if any(alive.values()):
        drawn = {network: of for network, of in alive.items() if of}
        write_figure(randomised_figure(drawn), folder / "randomised.png")
    counted = {n.results.network: from_data(tables, n.results.network) for n in found}
    if any(counted.values()):
        write_figure(counts_figure({network: of for network, of in counted.items() if of}), folder / "counts.png")


def _short(ranking: Ranking) -> Ranking:
    return replace(ranking, methods=tuple(shortened(method) for method in ranking.methods))


def shortened(method: str) -> str:
    """`IPA`, `IG` and their like, so that labels are whole."""
    for name, short in SHORT.items():
        method = method.replace(name, short)
    return method


def counts_figure(found: Mapping[str, Sequence[FromData]]) -> Figure:
    """MoRF of PGIG, with its sign and by sizes, by how many photographs are behind its patterns."""
    figure = Figure(figsize=(9.5, 3.8), layout="constrained")
    axes = figure.subplots(1, len(found), squeeze=False, sharey=True)[0]
    for ax, (network, every) in zip(axes, found.items(), strict=True):
        kinds = [of for of in every if "photographs" in of.name]
        for method, colour in (("pgig", "#000000"), ("pgig+absolute", "#0072b2")):
            told = [interval(list(of.areas[method].values())) for of in kinds]
            x = [of.images for of in kinds]
            ax.fill_between(x, [t.low for t in told], [t.high for t in told], color=colour, alpha=0.1, linewidth=0)
            ax.plot(x, [t.mean for t in told], "o-", color=colour, label=method)
        ax.set_xscale("log")
        ax.set_xticks(x, x)
        ax.minorticks_off()
        ax.set_xlabel("photographs behind the patterns")
        ax.set_title(f"{TITLES[network]}, {len(kinds[0].areas['pgig'])} images", fontsize=11)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("MoRF, lower is better")
    axes[0].legend(frameon=False)
    return figure


def bands(network: Network, methods: Sequence[str]) -> dict[str, Band]:
    """Mean curves of MoRF; without bands, which published means do not give."""
    curves = {m: network.results.curves["morf", m] for m in methods if ("morf", m) in network.results.curves}
    return {shortened(method): Band(curve, curve, curve) for method, curve in curves.items()}


def randomised_figure(found: Mapping[str, Mapping[tuple[int, str], list[list[float]]]]) -> Figure:
    """How alike sizes stay, by how many layers are random; bands over draws and photographs."""
    figure = Figure(figsize=(9.5, 4.6), layout="constrained")
    axes = figure.subplots(1, len(found), squeeze=False, sharey=True)[0]
    methods = list(dict.fromkeys(method for of in found.values() for _, method in of))
    look = looks(methods)
    for ax, (network, of) in zip(axes, found.items(), strict=True):
        stages = sorted({stage for stage, _ in of})
        for method in methods:
            told = [over_draws(of[stage, method]) for stage in stages]
            places = range(len(stages))
            ax.fill_between(places, [t.low for t in told], [t.high for t in told], color=look[method]["color"],
                            alpha=0.08, linewidth=0)  # fmt: skip
            ax.plot(places, [t.mean for t in told], label=shortened(method).replace("_", " "), **look[method])
        ax.axhline(0.5, color="0.6", linewidth=0.8, zorder=0)
        ax.set_xticks(range(len(stages)), stages)
        ax.set_xlabel("layers with random weights, from the top")
        draws, photographs = len(of[stages[0], methods[0]]), len(of[stages[0], methods[0]][0])
        ax.set_title(f"{TITLES[network]}, {photographs} images, {drawn(draws)}", fontsize=11)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("rank correlation of sizes with the trained network's")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    return figure
