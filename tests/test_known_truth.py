"""Images with known truth, their metrics, and the test made of them."""

import hypothesis.strategies as st
import numpy
import pytest
import torch
from captum.attr import Saliency
from hypothesis import assume, given
from scipy.optimize import linprog
from torch import nn

import pgig
from pgig.measures.localization import rank
from pgig.statistics import compare, holm, interval
from pgig.synthetic import embedded, truth_test
from pgig.synthetic.images import CLASSES, SETTINGS, pixels, samples, stream
from pgig.synthetic.metrics import COLUMNS, chance, truth_scores
from pgig.synthetic.transport import earth_movers_distance


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_sample_depends_on_its_number_alone(setting):
    whole = samples(setting, 7, seed=5)
    part = samples(setting, 3, seed=5, first=2)
    batches = stream(setting, 2, seed=5, first=2)
    for parts in (part, next(batches)):
        for mine, its in zip(parts, whole, strict=True):
            assert torch.equal(mine, its[2 : 2 + len(mine)])
    assert next(batches).x.shape == (2, 3, 64, 64)
    assert not torch.equal(samples(setting, 7, seed=6).x, whole.x)


def test_objects_are_whole_and_equally_large_in_all_classes():
    drawn = samples("white", 600, seed=1)
    areas = drawn.mask.flatten(1).sum(1)
    borders = drawn.mask[:, [0, -1]].any() | drawn.mask[:, :, [0, -1]].any()
    assert not borders
    means = torch.stack([areas[drawn.label == label].float().mean() for label in range(len(CLASSES))])
    assert len(CLASSES) >= 4
    assert (means / means.mean() - 1).abs().max() < 0.1  # size does not tell the class
    assert (drawn.label.bincount() > 60).all()


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_class_is_in_the_mask_alone(setting):
    """Without its object, an image is noise: its pixels outside the mask have the same mean for every class."""
    drawn = samples(setting, 600, seed=2)
    outside = torch.where(drawn.mask[:, None], torch.nan, drawn.x).flatten(1).nanmean(1)
    inside = torch.where(drawn.mask[:, None], drawn.x, torch.nan).flatten(1).nanmean(1)
    assert (inside - outside).mean() > 0.5
    for label in range(len(CLASSES)):
        of_class = outside[drawn.label == label]
        assert of_class.mean().abs() < 4 * of_class.std() / len(of_class) ** 0.5


def test_the_network_needs_the_suppressor():
    """With other streaks outside the object than over it, the network is lost: it reads them off to subtract them."""
    drawn, others = samples("suppressor", 200, seed=6), samples("suppressor", 200, seed=7)
    swapped = torch.where(drawn.mask[:, None], drawn.x, others.x)
    with torch.no_grad():
        known = embedded()(drawn.x).argmax(1) == drawn.label
        lost = embedded()(swapped).argmax(1) == drawn.label
    assert known.float().mean() > 0.95
    assert lost.float().mean() < 0.7


def test_samples_for_different_purposes_differ():
    found = [
        samples("white", 4, seed=1, purpose=p).x for p in ("drawn", "training", "testing", "patterns", "references")
    ]
    for i, one in enumerate(found):
        assert not any(torch.equal(one, other) for other in found[i + 1 :])


def test_the_suppressor_is_seen_above_and_below_the_object():
    drawn = samples("suppressor", 50, seed=3)
    column = torch.corrcoef(torch.stack([drawn.x[:, 0, 0].flatten(), drawn.x[:, 0, -1].flatten()]))[0, 1]
    row = torch.corrcoef(torch.stack([drawn.x[:, 0, :, 0].flatten(), drawn.x[:, 0, :, -1].flatten()]))[0, 1]
    assert column > 0.9
    assert row.abs() < 0.2


def test_sizes_and_bad_wishes():
    assert samples("correlated", 1, size=32).x.shape == (1, 3, 32, 32)
    assert 0 <= pixels(samples("white", 2).x).min() < pixels(samples("white", 2).x).max() <= 1
    for wrong in (
        {"setting": "grey", "number": 1},
        {"setting": "white", "number": 0},
        {"setting": "white", "number": 2.5},
        {"setting": "white", "number": 1, "seed": 1.5},
    ):
        with pytest.raises(pgig.PgigError):
            samples(**wrong)


def test_the_truth_itself_is_perfect_and_the_opposite_is_worst():
    mask = samples("white", 3, seed=4).mask
    perfect = truth_scores(mask[:, None].double(), mask)
    wrong = truth_scores((~mask)[:, None].double(), mask)
    for column in COLUMNS:
        numpy.testing.assert_allclose(perfect[column], 1, atol=1e-9)
        assert (wrong[column] < chance(mask)[column]).all()
    numpy.testing.assert_allclose(chance(mask)["mass, |a|"], mask.flatten(1).double().mean(1))
    nothing = truth_scores(torch.zeros(3, 1, 64, 64), mask)
    for column in COLUMNS:
        numpy.testing.assert_allclose(nothing[column], chance(mask)[column])


def test_signs_tell_the_readings_apart():
    mask = torch.zeros(1, 4, 4, dtype=torch.bool)
    mask[0, 0, :2] = True
    a = torch.zeros(1, 1, 4, 4)
    a[0, 0, 0, 0], a[0, 0, 3, 3] = 1, -3
    found = truth_scores(a, mask)
    assert found["mass, |a|"] == 0.25
    assert found["mass, a+"] == 1
    # the second place of two is shared by 14 (|a|) or 15 (a+) zeros, one of which is in the mask
    assert found["precision, |a|"] == pytest.approx((1 + 0) / 2)
    assert found["precision, a+"] == pytest.approx((1 + 1 / 15) / 2)


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(2, 6))
def test_the_distance_is_that_of_the_linear_programme(seed, height, width):
    rng = torch.Generator().manual_seed(seed)
    one, other = torch.rand(2, height, width, generator=rng).double().clamp(min=0.3) - 0.3
    assume(one.any() and other.any())
    places = torch.cartesian_prod(torch.arange(height), torch.arange(width)).double()
    cost = torch.cdist(places, places) / (height**2 + width**2) ** 0.5
    n = height * width
    rows = torch.eye(n).repeat_interleave(n, 1)
    columns = torch.eye(n).repeat(1, n)
    supply = torch.cat([(one / one.sum()).flatten(), (other / other.sum()).flatten()])
    slow = linprog(cost.flatten().numpy(), A_eq=torch.cat([rows, columns]).numpy(), b_eq=supply.numpy()).fun
    assert earth_movers_distance(one, other) == pytest.approx(slow, abs=1e-6)


def test_a_shift_costs_its_length():
    one, other = torch.zeros(64, 64), torch.zeros(64, 64)
    one[8:12, 8:12], other[8:12, 24:28] = 1, 1
    assert earth_movers_distance(one, other) == pytest.approx(16 / 64 / 2**0.5)
    for size in (17, 24, 40):  # blocks of different sizes: the distance is that of their centres
        one, other = torch.zeros(size, size), torch.zeros(size, size)
        one[0, 0], other[-1, 0] = 1, 1
        assert earth_movers_distance(one, other) == pytest.approx((size - 1) / size / 2**0.5, abs=0.04)


@given(st.integers(0, 1000))
def test_precision_is_the_mean_over_orders_of_ties(seed):
    rng = torch.Generator().manual_seed(seed)
    weights = torch.randint(0, 3, (4, 4), generator=rng).double()
    mask = torch.rand(4, 4, generator=rng) < 0.4
    assume(mask.any())
    n = int(mask.sum())
    shares = []
    for _ in range(3000):
        order = torch.argsort(weights.flatten() + 0.5 * torch.rand(16, generator=rng).double(), descending=True)[:n]
        shares.append(float(mask.flatten()[order].float().mean()))
    assert rank(weights, mask) == pytest.approx(sum(shares) / len(shares), abs=0.03)


@pytest.mark.parametrize("variant", ["plain", "bn"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_embedded_networks_know_what_they_see(setting, variant):
    drawn = samples(setting, 300, seed=11)
    with torch.no_grad():
        right = embedded(variant)(drawn.x).argmax(1) == drawn.label
    assert right.float().mean() > 0.95
    assert any(isinstance(m, nn.BatchNorm2d) for m in embedded(variant).modules()) == (variant == "bn")


def test_the_embedded_networks_are_small_and_can_be_trained_anew():
    from importlib.resources import files

    from pgig.synthetic.networks import SmallVGG
    from pgig.synthetic.train import train

    for variant in ("plain", "bn"):
        assert len((files("pgig.synthetic") / f"{variant}.safetensors").read_bytes()) < 2 * 2**20
    one, two = (train(SmallVGG, "plain", steps=2, seed=3, batch_size=2).state_dict() for _ in range(2))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_the_test_compares_methods_captum_and_the_users_own():
    def cheat(model, x, target):
        return known[: len(x), None].expand_as(x).float()

    model = embedded()
    drawn = samples("white", 6, seed=0)
    with torch.no_grad():
        right = model(drawn.x).argmax(1) == drawn.label
    known = drawn.mask[right]
    methods = {"cheat": cheat, "captum": Saliency(model), "class": Saliency, "gradient": "gradient", "random": "random"}
    test = truth_test("white", methods, model=model, images=6, examples=2)
    assert list(test.scores) == [*methods, "chance"]
    assert len(test.ids) == int(right.sum())
    table = test.table()
    assert table["cheat"]["precision, |a|"].mean == 1
    assert table["captum"] == table["class"]
    assert table["gradient"]["precision, |a|"].mean > table["chance"]["precision, |a|"].mean
    assert test.example_attributions["captum"].shape == (2, 3, 64, 64)
    pair = test.against("cheat")["random"]["mass, |a|"]
    assert pair.difference.low > 0
    assert pair.wins == 1
    assert "chance" in test.against("cheat")
    with pytest.raises(pgig.PgigError, match="no method 'pgig'"):
        test.against("pgig")
    with pytest.raises(pgig.PgigError, match="another name"):
        truth_test("white", {"chance": cheat})


def test_explainers_cannot_disturb_each_other():
    def rude(model, x, target):
        model.train()
        target.zero_()
        return x.mul_(0) + 1

    def polite(model, x, target):
        assert not model.training
        return torch.autograd.grad(model(x.requires_grad_()).gather(1, target[:, None]).sum(), x)[0].numpy()[::1]

    alone = truth_test("white", {"polite": polite}, model="bn", images=4)
    after = truth_test("white", {"rude": rude, "polite": polite}, model="bn", images=4)
    for column in COLUMNS:
        numpy.testing.assert_array_equal(alone.scores["polite"][column], after.scores["polite"][column])


@pytest.mark.parametrize(
    ("explainer", "match"),
    [
        (lambda model, x, target: None, "mine failed"),
        (lambda model, x, target: 1 / 0, "mine failed: ZeroDivisionError"),
        (lambda model, x: x, "mine failed: TypeError"),
        (lambda model, x, target: x + 1j, "complex"),
        (lambda model, x, target: x[0], "shape"),
    ],
)
def test_what_goes_wrong_in_an_explainer_is_named(explainer, match):
    with pytest.raises(pgig.PgigError, match=match):
        truth_test("white", {"mine": explainer}, images=2)


def test_a_model_in_training_mode_is_refused_untouched():
    model = embedded("bn").train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(pgig.PgigError, match="training mode"):
        truth_test("white", {"mine": lambda model, x, target: x}, model=model, images=2)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_what_is_drawn_does_not_depend_on_the_number_of_images():
    short, long = (truth_test("suppressor", ["vargrad", "random"], images=n, examples=1) for n in (3, 20))
    for name in ("vargrad", "random"):
        for column in COLUMNS:
            numpy.testing.assert_allclose(
                short.scores[name][column], long.scores[name][column][: len(short.ids)], atol=1e-3
            )


def test_an_interval_covers_the_mean_about_as_often_as_it_says():
    rng = numpy.random.default_rng(0)
    inside = 0
    for _ in range(200):
        found = interval(rng.normal(3, 1, 40), resamples=500)
        inside += found.low <= 3 <= found.high
    assert 0.88 <= inside / 200 <= 0.99


@pytest.mark.parametrize("n", [1, 7, 250, 255])
def test_an_interval_of_equal_values_is_their_value(n):
    found = interval([0.123456] * n)
    assert found.low <= found.mean <= found.high
    assert found.high - found.low < 1e-12


def test_a_comparison_finds_what_is_there_and_nothing_else():
    rng = numpy.random.default_rng(1)
    base = rng.normal(0, 5, 100)
    better = compare(base + 0.3 + rng.normal(0, 0.5, 100), base)
    assert better.p < 0.01  # pairing finds a small difference in large noise
    assert better.difference.low > 0
    assert better.wins > 0.6
    same = compare(base, base)
    assert same.p == 1
    assert same.sign == 1
    assert compare([1.0] * 9 + [-1.0], [0.0] * 10).sign == pytest.approx(2 * (1 + 10) / 2**10)
    assert same.wins == 0.5
    assert compare(base, base[::-1].copy()).p > 0.05
    with pytest.raises(pgig.PgigError, match="paired"):
        compare(base, base[:-1])
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == {"a": 0.03, "b": 0.06, "c": 0.06}
