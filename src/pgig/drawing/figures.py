"""The small helper that draws: images and heat maps side by side, with what they are of and what colours mean."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from pgig.drawing.heatmaps import PERCENTILE, as_pixels, heatmap, scale_colours
from pgig.errors import PgigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CELL = 2.0  # inches
_GAP = 0.2  # of a cell, for a title of up to two lines and the space between
_TITLE, _LEGEND = 0.25, 0.62  # inches: a line of the title, the legend
_LETTER = 0.1  # inches, of a title
_TOLD = {True: ("against", "for"), False: ("nothing", "much")}


def show(
    attributions: Any,
    image: Any = None,
    *,
    titles: Sequence[str] | None = None,
    overlay: bool = False,
    columns: int = 6,
    ax: "Axes | None" = None,
    path: str | Path | None = None,
    title: str | None = None,
    magnitudes: bool | Collection[str] = False,
    legend: bool = True,
) -> "Figure":
    """A grid of the image and any number of attributions with titles.

    attributions: one, several, or a mapping of titles to them: arrays, or what `pgig.explain` gives for one input.
    overlay: lay each heat map over the image in grey.
    ax: a matplotlib axis to draw on; a new figure without.
    path: where to write the figure, its format by the ending: png, svg, pdf.
    title: above all: what is explained.
    magnitudes: draw how much, and nothing about for or against; of all, or of those with these titles.
    legend: below, what the colours mean. A figure on an axis of yours has none.

    Gives a matplotlib figure. Raises PgigError where there is nothing to show, or sizes do not fit.

    columns: maps in a row.

    >>> figure = pgig.show({"one": torch.randn(3, 8, 8), "other": torch.randn(3, 8, 8)})
    >>> len(figure.axes[0].child_axes)
    2
    """
    cells = _cells(attributions, image, titles, overlay, magnitudes)
    if not cells or columns < 1:
        raise PgigError("nothing to show: give at least one attribution or image, and at least one column")
    columns = min(columns, len(cells))
    rows = -(-len(cells) // columns)
    kinds = sorted({signed for _, _, signed in cells if signed is not None}, reverse=True) if legend else []
    figure_ax = _new_axis(columns, rows, title, kinds) if ax is None else ax
    figure_ax.set_axis_off()
    for number, (name, pixels, _) in enumerate(cells):
        row, column = divmod(number, columns)
        width, height = 1 / columns, 1 / rows
        corner = column * width, 1 - (row + 1) * height
        cell = figure_ax.inset_axes((*corner, width * (1 - _GAP / 2), height * (1 - _GAP)))
        cell.imshow(pixels, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        cell.set_title(name, fontsize=9, pad=3, parse_math=False)
        cell.set_xticks([])
        cell.set_yticks([])
        for edge in cell.spines.values():
            edge.set_color("0.8")
    figure: Figure = figure_ax.get_figure(root=True)  # type: ignore[assignment]
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


Cell = tuple[str, Any, bool | None]  # title, pixels, and for a heat map, whether its colours have two sides


def _cells(
    attributions: Any, image: Any, titles: Sequence[str] | None, overlay: bool, magnitudes: bool | Collection[str]
) -> list[Cell]:
    if isinstance(attributions, Mapping):
        named = {str(name): value for name, value in attributions.items()}
    else:
        several = list(attributions) if isinstance(attributions, list | tuple) else [attributions]
        named = dict(zip(titles or [f"attribution {i + 1}" for i in range(len(several))], several, strict=False))
        if len(named) != len(several):
            raise PgigError(f"{len(titles or ())} titles for {len(several)} attributions: give one each, all different")
    if overlay and image is None:
        raise PgigError("overlay=True needs an image")
    cells: list[Cell] = [] if image is None else [("image", as_pixels(image), None)]
    for name, value in named.items():
        attribution, two_sided, nothing = _read(value)
        signed = two_sided and not (magnitudes if isinstance(magnitudes, bool) else name in magnitudes)
        cells.append((name, heatmap(attribution, image if overlay else None, signed=signed, nothing=nothing), signed))
    return cells


def _read(value: Any) -> tuple[Any, bool, float]:
    """What to draw, whether it has two sides, and what is nothing: as an `Explanation` of one input says of itself."""
    if not hasattr(value, "attribution"):
        return value, True, 0.0
    if isinstance(value.attribution, tuple) or len(value.attribution) != 1:
        raise PgigError("an explanation of several inputs cannot be one picture: give explanation[i]")
    return value.attribution[0], bool(getattr(value, "signed", True)), float(getattr(value, "nothing", 0.0))


def _new_axis(columns: int, rows: int, title: str | None, kinds: Sequence[bool]) -> "Axes":
    from matplotlib.figure import Figure

    margin = 0.1
    width = columns * _CELL + 2 * margin
    lines = wrap(title, max(12, int(width / _LETTER))) if title else []
    above, below = _TITLE * len(lines), (_LEGEND if kinds else 0)
    height = rows * _CELL * (1 + _GAP) + 2 * margin + above + below
    figure = Figure(figsize=(width, height))
    if title:
        figure.text(
            margin / width, 1 - margin / height, "\n".join(lines), fontsize=11, fontweight="bold", va="top",
            parse_math=False,
        )  # fmt: skip
    inside = height - 2 * margin - above - below
    axis: Axes = figure.add_axes(
        (margin / width, (margin + below) / height, 1 - 2 * margin / width, inside / height)
    )  # fmt: skip
    for number, signed in enumerate(kinds):
        _draw_scale(figure, signed, (margin + number * min(3.2, width / len(kinds))) / width, width, height)
    return axis


def _draw_scale(figure: "Figure", signed: bool, left: float, width: float, height: float) -> None:
    """A strip of the colours with what its ends mean."""
    strip = figure.add_axes((left, 0.36 / height, min(1.6, width * 0.7) / width, 0.12 / height))
    strip.imshow(scale_colours(signed)[None], aspect="auto", extent=(0, 1, 0, 1))
    strip.set_xticks([0, 0.5, 1] if signed else [0, 1])
    low, high = _TOLD[signed]
    labels = strip.set_xticklabels([low, "0", high] if signed else [low, high], fontsize=7)
    labels[0].set_horizontalalignment("left")
    labels[-1].set_horizontalalignment("right")
    strip.set_yticks([])
    strip.tick_params(length=2, pad=1)
    strip.set_title(f"ends at the {PERCENTILE}th percentile", fontsize=6, color="0.4", pad=2, loc="left")
