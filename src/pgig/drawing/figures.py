"""The small helper that draws: images and heat maps side by side."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgig.drawing.heatmaps import as_pixels, heatmap
from pgig.errors import PgigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CELL = 2.0  # inches
_GAP = 0.2  # of a cell, for a title of up to two lines and the space between


def show(
    attributions: Any,
    image: Any = None,
    *,
    titles: Sequence[str] | None = None,
    overlay: bool = False,
    columns: int = 6,
    ax: "Axes | None" = None,
    path: str | Path | None = None,
) -> "Figure":
    """A grid of the image and any number of attributions with titles.

    attributions: one, several, or a mapping of titles to attributions (what `attribute_all` returns for one input).
    overlay: lay each heat map over the image in grey.
    ax: a matplotlib axis to draw on; a new figure without.
    path: where to write the figure, its format by the ending.
    """
    cells = _cells(attributions, image, titles, overlay)
    if not cells or columns < 1:
        raise PgigError("nothing to show: give at least one attribution or image, and at least one column")
    columns = min(columns, len(cells))
    rows = -(-len(cells) // columns)
    figure_ax = _new_axis(columns, rows) if ax is None else ax
    figure_ax.set_axis_off()
    for number, (title, pixels) in enumerate(cells):
        row, column = divmod(number, columns)
        width, height = 1 / columns, 1 / rows
        corner = column * width, 1 - (row + 1) * height
        cell = figure_ax.inset_axes((*corner, width * (1 - _GAP / 2), height * (1 - _GAP)))
        cell.imshow(pixels, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        cell.set_title(title, fontsize=9, pad=3)
        cell.set_xticks([])
        cell.set_yticks([])
        for edge in cell.spines.values():
            edge.set_color("0.8")
    figure: Figure = figure_ax.get_figure(root=True)  # type: ignore[assignment]
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _cells(attributions: Any, image: Any, titles: Sequence[str] | None, overlay: bool) -> list[tuple[str, Any]]:
    if isinstance(attributions, Mapping):
        named = {str(name): value for name, value in attributions.items()}
    else:
        several = list(attributions) if isinstance(attributions, list | tuple) else [attributions]
        named = dict(zip(titles or [f"attribution {i + 1}" for i in range(len(several))], several, strict=False))
        if len(named) != len(several):
            raise PgigError(f"{len(titles or ())} titles for {len(several)} attributions: give one each, all different")
    if overlay and image is None:
        raise PgigError("overlay=True needs an image")
    cells = [] if image is None else [("image", as_pixels(image))]
    return cells + [(name, heatmap(value, image if overlay else None)) for name, value in named.items()]


def _new_axis(columns: int, rows: int) -> "Axes":
    from matplotlib.figure import Figure

    margin = 0.1
    size = columns * _CELL + 2 * margin, rows * _CELL * (1 + _GAP) + 2 * margin
    figure = Figure(figsize=size)
    x, y = margin / size[0], margin / size[1]
    axis: Axes = figure.add_axes((x, y, 1 - 2 * x, 1 - 2 * y))
    return axis
