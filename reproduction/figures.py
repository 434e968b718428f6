"""The page's figures."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from results import Network
from tables import ranked

from pgig.statistics import interval

_OWN, _OTHER = "#d55e00", "#0072b2"
_COLOURS = "#d55e00", "#0072b2", "#009e73", "#000000", "#cc79a7"
_MARKS = "o", "s", "^", "D", "v"


def ablations_figure(networks: Sequence[Network]) -> Figure:
    """Mean areas with intervals of all variants, a panel for each network, best at the top of the first."""
    names = list(reversed(ranked(networks[0].variants["paper"])))
    figure = Figure(figsize=(11, 0.3 * len(names) + 1.2), layout="constrained")
    panels = figure.subplots(1, len(networks), sharey=True)
    for ax, network in zip(panels, networks, strict=True):
        areas = network.variants["paper"]
        for place, name in enumerate(names):
            if name in areas:
                found = interval(areas[name])
                ends = [[found.mean - found.low], [found.high - found.mean]]
                ax.errorbar(found.mean, place, xerr=ends, fmt="o", color=_OWN if name.startswith("pgig") else _OTHER)
        ax.axvline(float(areas["pgig"].mean()), color=_OWN, linewidth=0.8, linestyle=":")
        ax.set_title(network.name, fontsize=10)
        ax.grid(axis="y", linewidth=0.3)
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
    panels[0].set_yticks(range(len(names)), names, fontsize=8)
    figure.supxlabel("area under the curve, mean with 95 % interval: lower is better", fontsize=9)
    return figure


def protocols_figure(networks: Sequence[Network], names: Sequence[str]) -> Figure:
    """The same few methods under every protocol, on every network."""
    figure = Figure(figsize=(11, 3.9), layout="constrained")
    panels = figure.subplots(1, len(networks))
    for ax, network in zip(panels, networks, strict=True):
        protocols = list(network.variants)
        for number, name in enumerate(names):
            found = [interval(network.variants[protocol][name]) for protocol in protocols]
            shift = 0.12 * (number - (len(names) - 1) / 2)
            ax.errorbar(
                [place + shift for place in range(len(protocols))], [f.mean for f in found],
                yerr=[[f.mean - f.low for f in found], [f.high - f.mean for f in found]],
                fmt=_MARKS[number], color=_COLOURS[number], markersize=4.5, label=name,
            )  # fmt: skip
        ax.set_xticks(range(len(protocols)), [p.replace("_", "\n") for p in protocols], fontsize=8)
        ax.set_ylim(0)
        ax.set_title(network.name, fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("area under the curve: lower is better", fontsize=9)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(names), fontsize=8, frameon=False)
    return figure
