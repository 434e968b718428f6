"""Figures of the known-truth test."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy
from matplotlib.figure import Figure

from pgig.drawing.heatmaps import as_pixels, heatmap
from pgig.report.names import short_name
from pgig.statistics import Interval


def truth_sheet(
    pixels: Sequence[Any],
    masks: Sequence[Any] | None,
    attributions: Mapping[str, Sequence[Any]],
    titles: Sequence[str],
    magnitudes: Collection[str] = (),
) -> Figure:
    """One row per image: the image, the mask if there are any, and a heat map per method, of some by magnitude."""
    heads = ["image", *(["truth"] if masks is not None else []), *attributions]
    cell = 1.15
    figure = Figure(figsize=(cell * len(heads) + 0.3, cell * len(pixels) + 0.75), layout="constrained")
    axes = figure.subplots(len(pixels), len(heads), squeeze=False)
    for row, image in enumerate(pixels):
        cells = [as_pixels(image), *([] if masks is None else [numpy.asarray(masks[row], dtype=float)])]
        cells += [heatmap(found[row], signed=name not in magnitudes) for name, found in attributions.items()]
        for column, (ax, shown) in enumerate(zip(axes[row], cells, strict=True)):
            ax.imshow(shown, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            ax.set_xticks([])
            ax.set_yticks([])
            for edge in ax.spines.values():
                edge.set_color("0.8")
            if row == 0:
                ax.set_title(short_name(heads[column]).replace(" ", "\n"), fontsize=8, parse_math=False)
        axes[row][0].set_ylabel(titles[row], fontsize=8, parse_math=False)
    return figure


def truth_bars(tables: Mapping[str, Mapping[str, Mapping[str, Interval]]], column: str) -> Figure:
    """One panel per setting: the methods by their mean, with intervals, and chance as a line."""
    figure = Figure(figsize=(3.7 * len(tables) + 1.3, 4), layout="constrained")
    axes = figure.subplots(1, len(tables), sharex=True, squeeze=False)[0]
    for ax, (setting, table) in zip(axes, tables.items(), strict=True):
        names = sorted((n for n in table if n != "chance"), key=lambda n: table[n][column].mean)
        found = [table[name][column] for name in names]
        means = numpy.array([f.mean for f in found])
        errors = [means - [f.low for f in found], [f.high for f in found] - means]
        colours = ["#d55e00" if name == "pgig" else "#0072b2" for name in names]
        ax.barh([short_name(n) for n in names], means, xerr=errors, color=colours, ecolor="0.35", height=0.7)
        ax.axvline(table["chance"][column].mean, color="0.2", linestyle=":", linewidth=1)
        ax.set_title(setting, fontsize=12)
        ax.tick_params(labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)
    figure.supxlabel(f"{column}: mean with 95 % interval; the dotted line is chance", fontsize=9)
    return figure
