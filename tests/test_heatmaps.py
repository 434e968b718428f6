import numpy
import pytest
import torch
from matplotlib.figure import Figure

import pgig
from pgig.drawing.heatmaps import PERCENTILE


def test_red_is_positive_blue_negative_white_zero():
    a = torch.zeros(3, 2, 2)
    a[:, 0, 0], a[:, 0, 1] = 1.0, -1.0
    pixels = pgig.heatmap(a)
    assert pixels.shape == (2, 2, 3)
    assert pixels.dtype == numpy.uint8
    red, blue = pixels[0, 0].astype(int), pixels[0, 1].astype(int)
    assert red[0] > red[2] + 100
    assert blue[2] > blue[0] + 100
    assert (pixels[1] == 255).all()


def test_channels_are_summed_and_the_scale_is_symmetric():
    a = torch.randn(3, 20, 20, generator=torch.Generator().manual_seed(0))
    assert (pgig.heatmap(a) == pgig.heatmap(a.sum(0))).all()
    assert (pgig.heatmap(a) == pgig.heatmap(1000 * a)).all()
    assert (pgig.heatmap(a[None]) == pgig.heatmap(a.numpy())).all()
    swapped = pgig.heatmap(-a)
    strength = 765 - pgig.heatmap(a).astype(int).sum(-1), 765 - swapped.astype(int).sum(-1)
    assert numpy.corrcoef(strength[0].ravel(), strength[1].ravel())[0, 1] > 0.95


def test_a_few_extreme_pixels_do_not_wash_out_the_rest():
    a = numpy.ones((100, 100))
    a[0, :10] = 1e6
    assert PERCENTILE == 99.5
    assert (pgig.heatmap(a)[50, 50] == pgig.heatmap(numpy.ones((5, 5)))[0, 0]).all()


def test_the_image_shines_through():
    image = numpy.linspace(0, 1, 16).reshape(1, 4, 4)
    grey = pgig.heatmap(torch.zeros(3, 4, 4), image)
    assert (numpy.diff(grey[..., 0].astype(int).ravel()) > 0).all()
    assert (grey[..., 0] == grey[..., 2]).all()


@pytest.mark.parametrize(
    ("attribution", "image", "match"),
    [
        (torch.zeros(5), None, "got shape"),
        (torch.full((3, 2, 2), float("nan")), None, "NaN"),
        (torch.zeros(3, 4, 4), torch.zeros(3, 5, 5), "under an attribution"),
        (torch.zeros(3, 4, 4), torch.zeros(7, 4, 4), "1 or 3 channels"),
    ],
)
def test_what_cannot_be_shown_is_refused(attribution, image, match):
    with pytest.raises(pgig.PgigError, match=match):
        pgig.heatmap(attribution, image)


def test_show_draws_a_grid_with_titles(tmp_path):
    found = {name: torch.randn(3, 8, 8) for name in ("one", "two", "three")}
    drawing = pgig.show(found, torch.rand(3, 8, 8), columns=2, path=tmp_path / "sheet.png")
    cells = drawing.axes[0].child_axes
    assert [cell.get_title() for cell in cells] == ["image", "one", "two", "three"]  # type: ignore[attr-defined]
    assert (tmp_path / "sheet.png").stat().st_size > 1000


def test_show_draws_on_an_axis_of_the_caller():
    drawing = Figure()
    left, _ = drawing.subplots(1, 2)
    assert pgig.show([torch.randn(4, 4)], titles=["mine"], ax=left) is drawing
    assert [cell.get_title() for cell in left.child_axes] == ["mine"]
    assert len(pgig.show(torch.randn(3, 4, 4)).axes[0].child_axes) == 1
    pgig.show(torch.randn(3, 4, 4), torch.rand(3, 4, 4), overlay=True)
    with pytest.raises(pgig.PgigError, match="needs an image"):
        pgig.show(torch.randn(3, 4, 4), overlay=True)
    with pytest.raises(pgig.PgigError, match="1 titles for 2"):
        pgig.show([torch.randn(4, 4)] * 2, titles=["mine"])
