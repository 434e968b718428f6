"""The figure of degradation curves."""

from collections.abc import Mapping
from typing import Any

import numpy
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pgig.report.names import short_name
from pgig.statistics import band

# Okabe and Ito's colours, which colour-blind readers can tell apart; beyond eight, with another dash
_COLOURS = "#000000", "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#cc79a7", "#8c8c00"
_DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)))


def curves_figure(curves: Mapping[str, NDArray[numpy.float64]], title: str, score: str = "probability") -> Figure:
    """All mean curves [n, steps + 1] with bands of 95 %, labelled at their ends."""
    figure = Figure(figsize=(9.5, 5.8), layout="constrained")
    ax = figure.subplots()
    last = next(iter(curves.values())).shape[1] - 1
    steps = numpy.arange(last + 1)
    order = sorted(curves, key=lambda method: -float(curves[method][:, -1].mean()))
    ends = []
    for number, method in enumerate(curves):
        mean, low, high = band(curves[method])
        colour, dash = _COLOURS[number % len(_COLOURS)], _DASHES[number // len(_COLOURS) % len(_DASHES)]
        width = 2.6 if method == "pgig" else 1.4
        ax.fill_between(steps, low, high, color=colour, alpha=0.08, linewidth=0)
        ax.plot(steps, mean, color=colour, linestyle=dash, linewidth=width, label=method)
        ends.append((order.index(method), method, float(mean[-1]), colour))
    bottom, top = ax.get_ylim()
    _label_ends(ax, sorted(ends), last, bottom, top)
    ax.set_xlim(0, last)
    ax.set_xlabel("patches replaced")
    ax.set_ylabel(f"mean {score} of the class")
    ax.set_title(title, fontsize=11, parse_math=False)
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def _label_ends(ax: Any, ends: list[tuple[int, str, float, str]], steps: int, bottom: float, top: float) -> None:
    """Names beside the ends of the lines, moved apart where they would overlap."""
    gap = (top - bottom) / 24
    places: list[float] = []
    for _, _, value, _ in ends:  # from the top down
        places.append(value if not places else min(value, places[-1] - gap))
    lift = max(0.0, bottom - places[-1]) if places else 0.0
    for (_, method, value, colour), place in zip(ends, places, strict=True):
        ax.annotate(
            short_name(method), (steps, value), (steps * 1.03, place + lift), color=colour, fontsize=9,
            va="center", annotation_clip=False, weight="bold" if method == "pgig" else "normal",
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5},
        )  # fmt: skip
