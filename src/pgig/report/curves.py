"""The figure of degradation curves."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pgig.report.names import short_name
from pgig.statistics import band

# Okabe and Ito's colours, which colour-blind readers can tell apart; beyond eight, with another dash
_COLOURS = "#000000", "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#cc79a7", "#8c8c00"
_DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)))


def curves_figure(
    curves: Mapping[str, NDArray[numpy.float64]],
    title: str,
    axis: str = "mean probability of the class",
    patches_per_step: int = 1,
) -> Figure:
    """All mean curves [n, steps + 1] with bands of 95 %, labelled at their ends."""
    figure = Figure(figsize=(9.5, 5.8), layout="constrained")
    ax = figure.subplots()
    look = looks(list(curves))
    draw_curves(ax, curves, look, patches_per_step)
    order = sorted(curves, key=lambda method: -float(curves[method][:, -1].mean()))
    ends = [(method, float(curves[method][:, -1].mean()), look[method]["color"]) for method in order]
    _label_ends(ax, ends, ax.get_xlim()[1], *ax.get_ylim())
    ax.set_xlabel("patches replaced")
    ax.set_ylabel(axis)
    ax.set_title(title, fontsize=11, parse_math=False)
    return figure


def looks(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour, dash and width of every method's line."""
    return {
        method: {
            "color": _COLOURS[number % len(_COLOURS)],
            "linestyle": _DASHES[number // len(_COLOURS) % len(_DASHES)],
            "linewidth": 2.6 if method == "pgig" else 1.4,
        }
        for number, method in enumerate(methods)
    }


def draw_curves(
    ax: Any,
    curves: Mapping[str, NDArray[numpy.float64]],
    look: Mapping[str, Mapping[str, Any]],
    patches_per_step: int = 1,
) -> None:
    """Means and bands."""
    steps = patches_per_step * numpy.arange(next(iter(curves.values())).shape[1])
    for method, of_images in curves.items():
        mean, low, high = band(of_images)
        ax.fill_between(steps, low, high, color=look[method]["color"], alpha=0.08, linewidth=0)
        ax.plot(steps, mean, label=method, **look[method])
    ax.set_xlim(0, steps[-1])
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.spines[["top", "right"]].set_visible(False)


def _label_ends(ax: Any, ends: list[tuple[str, float, str]], right: float, bottom: float, top: float) -> None:
    """Names beside the ends of the lines, moved apart where they would overlap."""
    gap = (top - bottom) / 24
    places: list[float] = []
    for _, value, _ in ends:  # from the top down
        places.append(value if not places else min(value, places[-1] - gap))
    lift = max(0.0, bottom - places[-1]) if places else 0.0
    for (method, value, colour), place in zip(ends, places, strict=True):
        ax.annotate(
            short_name(method), (right, value), (right * 1.03, place + lift), color=colour, fontsize=9,
            va="center", annotation_clip=False, weight="bold" if method == "pgig" else "normal",
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5},
        )  # fmt: skip
