"""The laws of image degradation."""

import hypothesis.strategies as st
import numpy
import pytest
import torch
from hypothesis import given
from torch import Tensor, nn

import pgig
from pgig.degradation import DenseEvaluator, PatchGrid, Protocol, degrade, ranking, scored_by
from pgig.degradation.fills import find_fill
from pgig.degradation.imputation import NOISE, imputed
from pgig.statistics import aopc, auc, score_at


def linear_model(size: int = 12, classes: int = 3) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * size * size, classes)).double().eval()


def images(n: int = 3, size: int = 12) -> Tensor:
    return torch.randn(n, 3, size, size, generator=torch.Generator().manual_seed(1)).double()


def slow_curve(
    model: nn.Module, x: Tensor, filled: Tensor, order: list[int], target: int, grid: PatchGrid
) -> list[float]:
    """One image, one step after the other, written as the paper says it."""
    now, scores = x.clone(), []
    with torch.no_grad():
        scores.append(float(model(now[None]).softmax(1)[0, target]))
        for patch in order:
            down, across = grid.place(patch)
            now[:, down, across] = filled[:, down, across]
            scores.append(float(model(now[None]).softmax(1)[0, target]))
    return scores


@pytest.mark.parametrize("batch_size", [1, 4, 100])
@pytest.mark.parametrize("size", [12, 14])
def test_curves_are_those_of_the_slow_way(batch_size, size):
    model, x, protocol = linear_model(size), images(3, size), Protocol(patch=4, steps=5)
    grid = protocol.grid(x)
    targets = torch.tensor([0, 2, 1])
    sums = {name: torch.randn(3, len(grid)) for name in ("one", "two")}
    found = degrade(DenseEvaluator(scored_by(model, "probability"), batch_size), x, targets, sums, protocol, range(3))
    filled = protocol.filled(x, grid)
    for name, of in sums.items():
        for i in range(3):
            order = of[i].argsort(descending=True)[:5].tolist()
            slow = slow_curve(model, x[i], filled[i], order, int(targets[i]), grid)
            torch.testing.assert_close(found[name][i], torch.tensor(slow, dtype=torch.float64), rtol=0, atol=1e-12)


def test_step_0_is_intact_and_step_1_replaced_the_top_patch():
    model, x = linear_model(), images(1)
    seen: list[Tensor] = []

    def scored(now: Tensor, targets: Tensor) -> Tensor:
        seen.append(now.clone())
        return scored_by(model, "logit")(now, targets)

    protocol = Protocol(patch=4, steps=9)
    sums = torch.arange(9.0)[None]
    degrade(DenseEvaluator(scored), x, torch.tensor([0]), {"m": sums}, protocol, [0])
    assert torch.equal(seen[0], x)
    top = (seen[1] != x).any(1)[0]
    assert top[8:, 8:].all()
    assert int(top.sum()) == 16
    # after all patches, the image is the image of patch means
    torch.testing.assert_close(seen[-1], protocol.grid(x).means(x))


def test_a_model_that_writes_to_its_input_does_no_harm():
    model, x, protocol = linear_model(), images(2), Protocol(patch=4, steps=5)
    sums, targets = {"m": torch.randn(2, 9)}, torch.tensor([0, 1])

    def rude(now: Tensor) -> Tensor:
        output = model(now)
        now.mul_(0)
        return output

    right, found = (
        degrade(DenseEvaluator(scored_by(f, "logit")), x, targets, sums, protocol, range(2))["m"] for f in (model, rude)
    )
    assert torch.equal(right, found)


def test_each_patch_is_replaced_exactly_once():
    orders = ranking(torch.randn(5, 30), "descending", range(5))
    assert all(sorted(order.tolist()) == list(range(30)) for order in orders)
    random = ranking(torch.zeros(5, 30), "random", range(5), seed=3)
    assert all(sorted(order.tolist()) == list(range(30)) for order in random)
    assert torch.equal(random, ranking(torch.randn(5, 30), "random", range(5), seed=3))
    assert torch.equal(random[2:4], ranking(torch.zeros(2, 30), "random", [2, 3], seed=3))  # by id, not by place
    assert not torch.equal(random, ranking(torch.zeros(5, 30), "random", range(5), seed=4))


def test_ascending_is_descending_reversed_and_ties_are_settled():
    sums = torch.tensor([[1.0, 3.0, 1.0, 3.0, 2.0]])
    descending = ranking(sums, "descending", [0])
    assert descending.tolist() == [[1, 3, 4, 0, 2]]
    assert torch.equal(ranking(sums, "ascending", [0]), descending.flip(1))
    with pytest.raises(pgig.PgigError, match="finite"):
        ranking(torch.tensor([[float("nan"), 1.0]]), "descending", [0])


@given(st.integers(1, 9), st.integers(9, 23), st.integers(9, 23))
def test_the_grid_covers_all_but_the_border(patch, height, width):
    grid = PatchGrid(height, width, patch)
    covered = torch.zeros(height, width)
    for index in range(len(grid)):
        covered[grid.place(index)] += 1
    rows, columns = grid.rows * patch, grid.columns * patch
    assert (covered[:rows, :columns] == 1).all()
    assert covered.sum() == rows * columns
    assert grid.border == (height - rows, width - columns)
    a = torch.randn(2, 3, height, width).double()
    slow = torch.tensor([[float(a[i, :, p[0], p[1]].sum()) for p in map(grid.place, range(len(grid)))] for i in (0, 1)])
    torch.testing.assert_close(grid.sums(a), slow.double(), rtol=0, atol=1e-5)
    means = grid.means(a)
    for index in range(len(grid)):
        place = (slice(None), slice(None), *grid.place(index))
        torch.testing.assert_close(means[place], a[place].mean((2, 3), keepdim=True).expand_as(means[place]))
    assert torch.equal(means[:, :, rows:], a[:, :, rows:])
    torch.testing.assert_close(grid.means(means), means)  # idempotent, to rounding
    assert torch.equal(grid.mask(torch.ones(1, len(grid), dtype=torch.bool))[0, 0].float(), covered)


@pytest.mark.parametrize("fill", ["mean", "image_mean", "blur", "road", "0", "-1.5"])
def test_fills_change_patches_and_keep_their_shape(fill):
    x = images(2, 18)
    grid = PatchGrid(18, 18, 6)
    filled = find_fill(fill)(x, grid)
    assert filled.shape == x.shape
    assert filled.isfinite().all()
    assert not torch.equal(filled, x)
    if fill == "image_mean":
        torch.testing.assert_close(filled[:, :, 0, 0], x.mean((2, 3)))
    if fill == "-1.5":
        assert (filled == -1.5).all()
    if fill == "blur":
        flat = torch.full_like(x, 2.0)
        torch.testing.assert_close(find_fill(fill)(flat, grid), flat)
        assert filled.var() < x.var() / 10
    for wrong in ("grey", "nan"):
        with pytest.raises(pgig.PgigError, match="fill"):
            find_fill(wrong)


def test_imputation_follows_the_surroundings():
    grid = PatchGrid(20, 20, 6)
    down, across = torch.meshgrid(torch.arange(20.0), torch.arange(20.0), indexing="ij")
    plane = (2 * down - across)[None, None].double()
    middle = (slice(None), slice(None), slice(6, 12), slice(6, 12))
    # a plane is its own mean everywhere
    torch.testing.assert_close(imputed(plane, grid)[middle], plane[middle], rtol=0, atol=6 * NOISE)
    flat = torch.full((2, 3, 20, 20), 5.0).double()
    assert (imputed(flat, grid) - flat).abs().max() < 6 * NOISE
    x = torch.randn(1, 1, 20, 20).double()
    found = imputed(x, grid) - imputed(torch.zeros_like(x), grid)  # without the noise
    changed = x.clone()
    changed[middle] = 100
    again = imputed(changed, grid) - imputed(torch.zeros_like(x), grid)
    torch.testing.assert_close(found[middle], again[middle])  # what stood in the patch does not matter
    # every pixel is the weighted mean of its neighbours, imputed or given
    around = x.clone()
    around[middle] = found[middle]
    kernel = torch.tensor([[1, 2, 1], [2, 0, 2], [1, 2, 1]], dtype=torch.float64)[None, None] / 12
    torch.testing.assert_close(nn.functional.conv2d(around, kernel, padding=1)[middle], found[middle])


def test_the_released_codes_departures_one_by_one():
    x = torch.cat([-torch.ones(1, 1, 8, 8), torch.ones(1, 2, 8, 8)], 1) + 0.1 * torch.randn(1, 3, 8, 8)
    grid = PatchGrid(8, 8, 4)
    sums = torch.tensor([[4.0, 3.0, 2.0, 1.0]])
    orders = {name: Protocol(4, 3, departure=name).ranking(sums, [0], 0)[..., 0].tolist() for name in
              ("paper", "released", "skip_top", "positive_channels")}  # fmt: skip
    assert orders["paper"] == orders["positive_channels"] == [[0, 1, 2]]
    assert orders["released"] == orders["skip_top"] == [[1, 2, 3]]
    mean = grid.means(x)
    for name in orders:
        filled = Protocol(4, 3, departure=name).filled(x, grid)
        torch.testing.assert_close(filled[:, 1:], mean[:, 1:])
        negative = x if name in ("released", "positive_channels") else mean  # negative means count in the paper
        torch.testing.assert_close(filled[:, :1], negative[:, :1])


def test_an_oracle_on_a_linear_model_gives_the_lowest_curve():
    """Each patch's share of the logit's fall is known exactly: no order falls faster at any step."""
    model, x = linear_model(), images(1)
    protocol = Protocol(patch=4, steps=9)
    grid = protocol.grid(x)
    filled = protocol.filled(x, grid)
    weight = model[1].weight.detach()[0].reshape(1, 3, 12, 12)
    oracle = grid.sums(weight * (x - filled))
    sums = {"oracle": oracle} | {str(i): torch.randn(1, 9) for i in range(50)}
    found = degrade(DenseEvaluator(scored_by(model, "logit")), x, torch.tensor([0]), sums, protocol, [0])
    for name, curve in found.items():
        assert (found["oracle"] <= curve + 1e-9).all(), name


def test_areas_of_the_mean_are_means_of_the_areas():
    curves = numpy.random.default_rng(0).random((10, 6))
    whole = curves.mean(0)
    numpy.testing.assert_allclose(auc(whole), auc(curves).mean())
    numpy.testing.assert_allclose(aopc(curves), curves[:, 0] - auc(curves))
    numpy.testing.assert_allclose(score_at(curves, 5), curves[:, 5])


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"order": "upwards"}, "unknown order"),
        ({"departure": "other"}, "unknown protocol"),
        ({"steps": 0}, "at least 1"),
        ({"patch": 50}, "do not fit"),
        ({"patch": 4, "steps": 10}, "10 patches to replace on images of 9"),
        ({"patch": 4, "steps": 9, "departure": "skip_top"}, "9 patches to replace on images of 9"),
        ({"fill": "grey"}, "unknown fill"),
        ({"order": "ascending", "departure": "released"}, "skips the top patch"),
    ],
)
def test_bad_protocols_are_refused(wrong, match):
    with pytest.raises(pgig.PgigError, match=match):
        Protocol(**wrong).grid(images(1))


@pytest.mark.slow
def test_curves_do_not_depend_on_the_batch_size_on_a_real_network(shared):
    from pgig.vision import Preprocess, load_model

    model = load_model("squeezenet1_0", str(shared / "models" / "squeezenet1_0_imagenet.safetensors"))
    files = sorted((shared / "imagenet-sample" / "images").iterdir())[:2]
    x = torch.stack([Preprocess().normalise(Preprocess().pixels(path)) for path in files])
    protocol = Protocol(steps=12)
    sums = {"a": torch.randn(2, len(protocol.grid(x))), "b": torch.randn(2, len(protocol.grid(x)))}
    with torch.no_grad():
        targets = model(x).argmax(1)
    found = [
        degrade(DenseEvaluator(scored_by(model, "probability"), n), x, targets, sums, protocol, range(2))
        for n in (1, 3, 16)
    ]
    for name in sums:
        for other in found[1:]:
            torch.testing.assert_close(found[0][name], other[name], rtol=0, atol=1e-5)
