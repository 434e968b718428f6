"""Figure 2 of the paper: target, data, model and attributions."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pgig.report.names import short_name

_SIGNAL, _DISTRACTOR, _OUTPUT = "#0072b2", "#d55e00", "#333333"


def stress_figure(columns: Mapping[str, Any], methods: Sequence[str]) -> Figure:
    """The four columns; attributions stand three above each other, as many times as needed."""
    rows = min(3, len(methods))
    across = -(-len(methods) // rows)
    figure = Figure(figsize=(7.2 + 3.3 * across, 5.6), layout="constrained")
    grid = figure.add_gridspec(1, 4, width_ratios=[1, 1, 1, 1.4 * across])
    z = columns["z"]
    target, model = figure.add_subplot(grid[0]), figure.add_subplot(grid[2])
    target.plot(z, columns["target"], color=_OUTPUT)
    _dress(target, "target", "signal z", "y of the signal alone")
    model.plot(z, columns["y"], ".", color=_OUTPUT, markersize=2)
    _dress(model, "model", "signal z", "y = 1 - ReLU(1 - (x1 - x2))")
    data = grid[1].subgridspec(2, 1)
    for place, (name, colour) in enumerate((("x1", _SIGNAL), ("x2", _DISTRACTOR))):
        ax = figure.add_subplot(data[place])
        ax.plot(z, columns[name], ".", color=colour, markersize=2)
        _dress(ax, "data" if place == 0 else "", "signal z" if place else "", name, plateau=False)
    axes = grid[3].subgridspec(rows, across).subplots(sharex=True, sharey=True, squeeze=False)
    highest = max(1.7, *(float(abs(columns[f"{m}_x{i}"]).max()) * 1.05 for m in methods for i in (1, 2)))
    for number, ax in enumerate(axes.T.flatten()):
        if number >= len(methods):
            ax.set_visible(False)
            continue
        method = methods[number]
        ax.plot(z, columns[f"{method}_x2"], ".", color=_DISTRACTOR, markersize=2, label="of x2, the distractor")
        ax.plot(z, columns[f"{method}_x1"], ".", color=_SIGNAL, markersize=2, label="of x1, the signal")
        ax.plot(z, columns["y"], color=_OUTPUT, linewidth=0.6, alpha=0.7, label="model output y")
        _dress(ax, "attributions" if number == 0 else "", "signal z" if (number + 1) % rows == 0 else "", "")
        ax.set_ylim(-highest, 1.25 * highest)
        ax.text(0.02, 0.97, short_name(method), transform=ax.transAxes, va="top", fontsize=9, weight="bold")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(
        handles[::-1], labels[::-1], loc="outside lower right", ncols=3, frameon=False, markerscale=4, fontsize=9
    )
    return figure


def _dress(ax: Axes, title: str, below: str, beside: str, plateau: bool = True) -> None:
    if plateau:
        ax.axvspan(1, 2, color="0.93", zorder=0)
    ax.set_title(title, fontsize=12)
    ax.set_xlabel(below)
    ax.set_ylabel(beside)
    ax.set_xlim(-2, 2)
    ax.spines[["top", "right"]].set_visible(False)
