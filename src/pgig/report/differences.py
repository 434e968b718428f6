"""The figure of paired differences to the best method: bands of curves overlap where a paired test decides."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from pgig.report.names import short_name
from pgig.report.page import PAGE, Size
from pgig.statistics import Comparison


def to_the_best(pairs: Mapping[tuple[str, str], Comparison]) -> dict[str, Comparison]:
    """Every other method against the best, which comes first in all its pairs."""
    best = next(iter(pairs))[0]
    return {two: pair for (one, two), pair in pairs.items() if one == best}


def differences_figure(
    best: str, pairs: Mapping[str, Comparison], column: str, title: str, size: Size = PAGE
) -> Figure:
    """How far each method is behind the best, image by image: mean and 95 % interval, filled where told apart."""
    height = (0.34 if size is PAGE else 0.16) * (len(pairs) + 4)
    figure = Figure(figsize=(size.width, height), layout="constrained")
    ax = figure.subplots()
    names = list(pairs)[::-1]
    for place, name in enumerate(names):
        found, told = pairs[name].difference, pairs[name].p < 0.05
        ax.plot([found.low, found.high], [place, place], color="#0072b2", linewidth=2 * size.line)
        ax.plot(
            found.mean, place, "o", color="#0072b2", markerfacecolor="#0072b2" if told else "white",
            markersize=7 * size.line,
        )  # fmt: skip
    ax.axvline(0, color="0.3", linewidth=0.8, linestyle=":")
    ax.set_yticks(range(len(names)), [short_name(name) for name in names], fontsize=size.label, parse_math=False)
    ax.set_ylim(-0.7, len(names) - 0.3)
    ax.tick_params(axis="x", labelsize=size.text)
    between = " " if size is PAGE else "\n"
    ax.set_xlabel(
        f"behind {short_name(best)}, in {column}\n"
        f"95 % intervals, not corrected;{between}filled: told apart (paired, Holm)",
        fontsize=size.label, parse_math=False,
    )  # fmt: skip
    ax.set_title(title, fontsize=size.title, parse_math=False)
    ax.spines[["top", "right"]].set_visible(False)
    return figure
