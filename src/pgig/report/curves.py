"""The figure of degradation curves."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pgig.report.names import short_name
from pgig.report.page import PAGE, Size
from pgig.report.streamed import Band
from pgig.statistics import band

# Okabe and Ito's colours, which colour-blind readers can tell apart; beyond eight, with another dash
COLOURS = "#000000", "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#cc79a7", "#8c8c00"
_DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)))


def bands_of(curves: Mapping[str, NDArray[numpy.float64]]) -> dict[str, Band]:  # [n, steps + 1] each
    return {method: Band(*band(of_images)) for method, of_images in curves.items()}


def curves_figure(
    bands: Mapping[str, Band],
    title: str,
    axis: str = "mean probability of the class",
    patches_per_step: int = 1,
    steps: str = "patches replaced",
    size: Size = PAGE,
) -> Figure:
    """All mean curves with bands of 95 %, labelled at their ends."""
    figure = Figure(
        figsize=(size.width, 0.61 * size.width if size is PAGE else 0.82 * size.width), layout="constrained"
    )
    ax = figure.subplots()
    look = looks(list(bands))
    draw_curves(ax, bands, look, patches_per_step, size)
    order = sorted(bands, key=lambda method: (-round(float(bands[method].mean[-1]), 2), -bands[method].mean.mean()))
    ends = [(method, float(bands[method].mean[-1]), look[method]["color"]) for method in order]
    _label_ends(ax, ends, ax.get_xlim()[1], *ax.get_ylim(), size)
    ax.set_xlabel(steps, fontsize=size.text)
    ax.set_ylabel(axis, fontsize=size.text)
    ax.tick_params(labelsize=size.text)
    ax.set_title(title, fontsize=size.title, parse_math=False)
    return figure


def looks(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour, dash and width of every method's line."""
    return {
        method: {
            "color": COLOURS[number % len(COLOURS)],
            "linestyle": _DASHES[number // len(COLOURS) % len(_DASHES)],
            "linewidth": 2.6 if method == "pgig" else 1.4,
        }
        for number, method in enumerate(methods)
    }


def draw_curves(
    ax: Any,
    bands: Mapping[str, Band],
    look: Mapping[str, Mapping[str, Any]],
    patches_per_step: int = 1,
    size: Size = PAGE,
) -> None:
    """Means and bands."""
    steps = patches_per_step * numpy.arange(len(next(iter(bands.values())).mean))
    for method, found in bands.items():
        ax.fill_between(steps, found.low, found.high, color=look[method]["color"], alpha=0.08, linewidth=0)
        ax.plot(steps, found.mean, gid=method, **{**look[method], "linewidth": look[method]["linewidth"] * size.line})
    ax.set_xlim(0, steps[-1])
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.spines[["top", "right"]].set_visible(False)


def _label_ends(
    ax: Any, ends: list[tuple[str, float, str]], right: float, bottom: float, top: float, size: Size
) -> None:
    """Names beside the ends of the lines, moved apart where they would overlap."""
    gap = (top - bottom) / (24 if size is PAGE else 21)
    places: list[float] = []
    for _, value, _ in ends:  # from the top down
        places.append(value if not places else min(value, places[-1] - gap))
    lift = max(0.0, bottom - places[-1]) if places else 0.0
    beside = right * (1.03 if size is PAGE else 1.06)
    for (method, value, colour), place in zip(ends, places, strict=True):
        ax.annotate(
            short_name(method), (right, value), (beside, place + lift), parse_math=False, color=colour,
            fontsize=size.label,
            va="center", annotation_clip=False, weight="bold" if method == "pgig" else "normal",
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5, "relpos": (0, 0.5), "shrinkA": 0},
        )  # fmt: skip
