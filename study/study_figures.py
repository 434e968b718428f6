"""The page's figures."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from analysis import Network
from matplotlib.figure import Figure
from study_tables import TITLES, over_draws, randomised

from pgig.report.curves import curves_figure, looks
from pgig.report.page import write_figure
from pgig.report.ranking import Ranking
from pgig.report.ranking_report import agreement_figure, critical_difference_figure
from pgig.report.streamed import Band

SHOWN = (
    "pgig", "random", "gradient", "integrated_gradients", "expected_gradients", "smoothgrad_squared",
    "guided_backprop", "pattern_attribution", "integrated_pattern_attribution", "pgig+absolute", "occlusion",
)  # fmt: skip


def write_figures(
    found: Sequence[Network], rankings: tuple[Ranking, Ranking], chosen: str, tables: Path, folder: Path
) -> None:
    """rankings: on all photographs of each measure, and on the few that all measures share, to compare measures."""
    everywhere, shared = rankings
    write_figure(critical_difference_figure(everywhere), folder / "places.png")
    write_figure(agreement_figure(shared), folder / "agreement.png")
    for network in found:
        name = network.results.network
        write_figure(critical_difference_figure(network.ranking), folder / f"places-{name}.png")
        shown = [*SHOWN, *([] if chosen in SHOWN else [chosen])]
        title = f"{TITLES[name]}, {len(network.results.run(['morf'], ['random']).images)} images"
        write_figure(curves_figure(bands(network, shown), title), folder / f"curves-{name}.png")
    alive = {n.results.network: randomised(tables, n.results.network) for n in found}
    if any(alive.values()):
        drawn = {network: of for network, of in alive.items() if of}
        write_figure(randomised_figure(drawn), folder / "randomised.png")


def bands(network: Network, methods: Sequence[str]) -> dict[str, Band]:
    """Mean curves of MoRF; without bands, which published means do not give."""
    curves = {m: network.results.curves["morf", m] for m in methods if ("morf", m) in network.results.curves}
    return {method: Band(curve, curve, curve) for method, curve in curves.items()}


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
            ax.plot(places, [t.mean for t in told], label=method.replace("_", " "), **look[method])
        ax.axhline(0.5, color="0.6", linewidth=0.8, zorder=0)
        ax.set_xticks(range(len(stages)), stages)
        ax.set_xlabel("layers with random weights, from the top")
        ax.set_title(TITLES[network], fontsize=11)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("rank correlation of sizes with the trained network's")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    return figure
