"""Laws of measures, over the whole table: ends of curves, mirror images, chance, oracles, scales, evaluators."""

import itertools
from functools import partial
from typing import Any

import numpy
import pytest
import torch
from networks import images, network
from torch import nn

import pgig
from pgig.degradation import DenseEvaluator, PatchGrid, scored_by
from pgig.degradation.dense import score_of
from pgig.degradation.fills import find_fill
from pgig.errors import PgigError
from pgig.incremental import IncrementalEvaluator, plan_of
from pgig.measures import JUDGES, Setting, judge, judge_of
from pgig.measures.complexity import entropy, gini
from pgig.measures.infidelity import Infidelity, errors, square
from pgig.measures.insertion import ByUnits
from pgig.measures.linear_imputation import imputed
from pgig.measures.localization import mass, pointing, rank
from pgig.measures.max_sensitivity import MaxSensitivity
from pgig.measures.road import Road
from pgig.measures.saco import SaCo, coefficient
from pgig.measures.sensitivity_n import SensitivityN
from pgig.measures.sets import correlation, drawn
from pgig.measures.superpixels import superpixels
from pgig.records.measures import MEASURES, asked_measure, asked_measures
from pgig.subject.subject import Subject
from pgig.synthetic import embedded
from pgig.synthetic.images import samples

SMALL = {"patch": 2, "steps": 12, "across": 4, "segments": 9, "groups": 4, "draws": 12, "side": 2, "sizes": 3}
UNITS = "patch", "pixel", "superpixel"
OF_AN_ORDER = "morf", "lerf", "lerf_minus_morf", "random_order", "deletion", "insertion", "road", "road_lerf"


def small(name):
    return asked_measure(name, SMALL)


def by_units(asked) -> ByUnits:
    judge = judge_of(asked)
    assert isinstance(judge, ByUnits)
    return judge


def _moved(attribution, x):
    return {"noise": attribution + 0.1 * x}


@pytest.fixture
def case():
    model, x, target = network("chain"), images(), torch.tensor([0, 1, 2])
    found = {m: pgig.attribute(m, model, x, target) for m in ("gradient_x_input", "integrated_gradients")}
    found["noise"] = torch.randn(x.shape, generator=torch.Generator().manual_seed(3))
    return model, x, target, found


def setting(model, target, given, **more):
    def explain(x):
        return {name: given[name] + 0.1 * x for name in given}

    masks = torch.rand(3, 8, 8, generator=torch.Generator().manual_seed(1)) > 0.5
    return Setting(masks=masks, explain=explain, explain_random=explain, ids=["a", "b", "c"], **more)


def records(name, case, given=None, **more):
    model, x, target, found = case
    given = given or found
    return judge_of(small(name))(Subject.of(model), x, target, given, setting(model, target, found, **more))


@pytest.mark.parametrize("name", MEASURES)
def test_records_are_as_long_as_the_table_says_and_finite(name, case):
    asked = small(name)
    for found in records(name, case).values():
        assert found.shape == (3, asked.length(8))
        assert numpy.isfinite(found).all()
        assert set(asked.columns_of(found)) <= {column.name for column in asked.measure.columns}
        assert asked.measure.ranks_by in asked.columns_of(found)


@pytest.mark.parametrize("name", MEASURES)
def test_constants_have_sources_and_reach_the_judge(name):
    for constant in MEASURES[name].constants:
        assert constant.about
        assert constant.source
    judged = judge_of(asked_measure(name, {}))
    for constant in MEASURES[name].constants:
        holder = getattr(judged, "protocol", judged)
        assert getattr(holder, constant.name) == constant.default
        assert getattr(getattr(JUDGES[name], "protocol", JUDGES[name]), constant.name) == constant.default


@pytest.mark.parametrize("name", MEASURES)
def test_company_changes_nothing(name, case):
    """Neither other images in the batch nor other methods beside."""
    model, x, target, given = case
    whole = records(name, case)
    each = judge_of(small(name))
    for row, identity in enumerate("abc"):
        own = Setting(
            ids=[identity], masks=setting(model, target, given).masks[row : row + 1],
            explain=partial(_moved, given["noise"][row : row + 1]),
            explain_random=partial(_moved, given["noise"][row : row + 1]),
        )  # fmt: skip
        alone = each(
            Subject.of(model), x[row : row + 1], target[row : row + 1], {"noise": given["noise"][row : row + 1]}, own
        )
        numpy.testing.assert_allclose(alone["noise"][0], whole["noise"][row], atol=1e-6)


@pytest.mark.parametrize("name", MEASURES)
def test_scaling_changes_no_ranking_column(name, case):
    if MEASURES[name].needs == "methods":
        pytest.skip("it asks the methods themselves")
    given = case[3]
    asked = small(name)
    before, after = records(name, case), records(name, case, {m: 8 * a for m, a in given.items()})
    for method in given:
        column = asked.measure.ranks_by
        numpy.testing.assert_allclose(
            asked.columns_of(after[method])[column], asked.columns_of(before[method])[column], atol=1e-9
        )


@pytest.mark.parametrize("name", [n for n, m in MEASURES.items() if m.needs in ("patches", "pixels")])
@pytest.mark.parametrize("unit", UNITS)
def test_the_evaluator_changes_nothing(name, unit, case):
    if unit != "patch" and name not in ("insertion", "deletion"):
        pytest.skip("it has no units")
    model, x, _, given = case
    label = f"{name}+unit={unit}" if unit != "patch" else name
    dense = DenseEvaluator(scored_by(model, "probability"), 2)
    wanted = records(label, case, evaluator=dense)
    for whole in (None, dense):
        windows = IncrementalEvaluator(
            plan_of(model, x[:1]), lambda out, of: score_of(out, of, "probability"), 5, whole
        )
        found = records(label, case, evaluator=windows)
        for method in given:
            numpy.testing.assert_allclose(found[method], wanted[method], atol=1e-5)


def test_whole_passes_take_over_where_windows_cost_more():
    """One patch of many is a window; patches all over the image are not."""
    model, x = (
        nn.Sequential(*(nn.Conv2d(3, 3, 3, padding=1) for _ in range(6)), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        torch.randn(1, 3, 224, 224),
    )
    asked: list[int] = []

    class Counted(DenseEvaluator):
        def curves(self, x, filled, rankings, targets, grid):
            asked.append(rankings.shape[3])
            return super().curves(x, filled, rankings, targets, grid)

    whole = Counted(scored_by(model, "logit"))
    windows = IncrementalEvaluator(plan_of(model, x), lambda out, of: score_of(out, of, "logit"), 4, whole)
    grid = PatchGrid(224, 224, 8)
    for size in (1, 400):
        sets = torch.randperm(len(grid))[:size].reshape(1, 1, 1, size)
        found = windows.curves(x, torch.zeros_like(x), sets, torch.tensor([0]), grid)
        wanted = DenseEvaluator(scored_by(model, "logit")).curves(x, torch.zeros_like(x), sets, torch.tensor([0]), grid)
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)
    assert asked == [400]


@pytest.mark.parametrize("unit", UNITS)
def test_insertion_ends_at_the_image_and_deletion_at_the_filled_one(unit, case):
    model, x, target, given = case
    constants = {"unit": unit, "across": 4, "segments": 9}
    for name in ("insertion", "deletion"):
        asked = asked_measure(name, constants)
        curves = judge_of(asked)(Subject.of(model), x, target, given, Setting())
        grid = by_units(asked).grid(x)
        filled = find_fill(str(asked.constants["fill"]))(x, grid)
        with torch.no_grad():
            intact, gone = (model(z).softmax(1).gather(1, target[:, None])[:, 0].double().numpy() for z in (x, filled))
        first, last = (gone, intact) if name == "insertion" else (intact, gone)
        for curve in curves.values():
            numpy.testing.assert_allclose(curve[:, 0], first, atol=1e-6)
            numpy.testing.assert_allclose(curve[:, -1], last, atol=1e-6)


@pytest.mark.parametrize("unit", UNITS)
def test_insertion_is_deletion_of_the_reverse_order_seen_from_the_other_end(unit, case):
    model, x, target, given = case
    up, down = (ByUnits(inserted=i, fill="blur=2", unit=unit, across=4, segments=14) for i in (True, False))
    if unit == "superpixel":  # fewer than were asked for, in some
        assert {int(superpixels(image.numpy(), 14).max()) + 1 for image in x} - {14}
    one = up(Subject.of(model), x, target, {"it": given["noise"]}, Setting())["it"]
    other = down(Subject.of(model), x, target, {"it": -given["noise"]}, Setting())["it"]
    numpy.testing.assert_allclose(one, other[:, ::-1], atol=1e-6)


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)))

    def forward(self, x):
        return torch.einsum("kchw,nchw->nk", self.weight, x)


ADDITIVE = "morf", "lerf", "lerf_minus_morf", "deletion", "insertion", "sensitivity_n", "saco", "infidelity"


@pytest.mark.parametrize("name", ADDITIVE)
def test_on_a_linear_model_the_oracle_is_best(name):
    """What each pixel adds over the measure's own fill is all that there is to know."""
    model, x = Linear().double(), images().double()
    target = torch.tensor([0, 1, 0])
    asked = small(name)
    judged = judge_of(asked)
    grid = by_units(asked).grid(x) if name in ("deletion", "insertion") else PatchGrid(8, 8, 2)
    oracle = model.weight[target].detach() * (x - find_fill(str(asked.constants["fill"]))(x, grid))
    rng = torch.Generator().manual_seed(5)
    rivals = {str(n): oracle + 0.7 * oracle.std() * torch.randn(x.shape, generator=rng).double() for n in range(12)}
    found = judged(Subject.of(model), x, target, {"oracle": oracle, **rivals}, Setting(score="logit"))
    values = {m: asked.columns_of(f)[asked.measure.ranks_by] for m, f in found.items()}
    sign = 1 if asked.measure.better == "lower" else -1
    for rival in rivals:
        assert (sign * values["oracle"] <= sign * values[rival] + 1e-5).all()
    assert any(abs(values["oracle"] - values[rival]).max() > 1e-3 for rival in rivals)
    exact = {"sensitivity_n": 1, "saco": 1, "infidelity": 0}
    if name in exact:
        numpy.testing.assert_allclose(values["oracle"], exact[name], atol=1e-3)


@pytest.mark.parametrize("name", [*OF_AN_ORDER, "sensitivity_n", "saco"])
def test_a_random_attribution_comes_out_at_chance(name):
    """Of an order: the mean over all orders, which reversing an order leaves as it is; of a correlation: zero."""
    model, x, target = network("chain"), images()[:1], torch.tensor([1])
    rng = torch.Generator().manual_seed(7)
    given: dict[str, torch.Tensor] = {}
    for n in range(60):
        noise = torch.randn(x.shape, generator=rng)
        given |= {f"{n}": noise, f"-{n}": -noise}
    asked = small(name)
    if name == "random_order":  # one order for all methods: others are other images
        found: Any = {n: _records_of(asked, model, x, target, n) for n in range(60)}
    else:
        found = judge_of(asked)(Subject.of(model), x, target, given, Setting(ids=["a"]))
    values = numpy.array([asked.columns_of(f)[asked.measure.ranks_by][0] for f in found.values()])
    spread = values.std() / len(values) ** 0.5 + 1e-9
    if name in ("sensitivity_n", "saco", "lerf_minus_morf"):
        assert abs(values.mean()) < 4 * spread
        return
    chance = numpy.array([_of_a_random_order(name, asked, model, x, target, seed) for seed in range(120)])
    assert abs(values.mean() - chance.mean()) < 4 * (spread + chance.std() / len(chance) ** 0.5)


def _records_of(asked, model, x, target, identity):
    return judge_of(asked)(Subject.of(model), x, target, {"it": x}, Setting(ids=[f"image {identity}"]))["it"]


def _of_a_random_order(name, asked, model, x, target, seed):
    """The same measure of patches (or pixels) in an order that no attribution gave."""
    order = torch.rand(x[:, :1].shape, generator=torch.Generator().manual_seed(100 + seed)).to(x)
    if name in ("morf", "lerf", "random_order"):
        found = judge_of(small("random_order"))(Subject.of(model), x, target, {"it": x}, Setting(ids=[seed]))["it"]
    elif name in ("deletion", "insertion"):
        judged = by_units(asked)
        grid = judged.grid(x)
        filled = find_fill(judged.fill)(x, grid)
        before, after = (filled, x) if name == "insertion" else (x, filled)
        ranking = torch.randperm(len(grid), generator=torch.Generator().manual_seed(seed))[None, None, :, None]
        found = (
            DenseEvaluator(scored_by(model, "probability")).curves(before, after, ranking, target, grid)[:, 0].numpy()
        )
    else:
        found = judge_of(asked)(Subject.of(model), x, target, {"it": order.expand_as(x)}, Setting(ids=["a"]))["it"]
    return asked.columns_of(found)[asked.measure.ranks_by][0]


def test_sensitivity_is_its_definition(case):
    model, x, target, given = case
    judged = SensitivityN(patch=2, sizes=2, draws=20)
    assert judged.set_sizes(16) == [1, 13]
    found = judged(Subject.of(model), x, target, given, Setting(ids=["a", "b", "c"]))
    grid = PatchGrid(8, 8, 2)
    filled = grid.means(x)
    for number, size in enumerate((1, 13)):
        sets = drawn(
            lambda size, rng: torch.randperm(16, generator=rng)[:size], size, 20, ["a", "b", "c"], 0, "sensitivity_n"
        )
        for row, (method, attribution) in itertools.product(range(3), given.items()):
            said, fell = [], []
            for chosen in sets[row]:
                now = x[row : row + 1].clone()
                total = 0.0
                for patch in chosen.tolist():
                    down, across = grid.place(patch)
                    now[:, :, down, across] = filled[row : row + 1, :, down, across]
                    total += float(attribution[row, :, down, across].double().sum())
                with torch.no_grad():
                    both = model(torch.cat([x[row : row + 1], now])).double().softmax(1)[:, target[row]]
                said.append(total)
                fell.append(float(both[0] - both[1]))
            assert found[method][row, 1 + number] == pytest.approx(numpy.corrcoef(said, fell)[0, 1], abs=1e-4)


def test_the_coefficient_of_groups_is_its_definition():
    rng = numpy.random.default_rng(0)
    said, weighed = -numpy.sort(-rng.normal(size=(4, 6))), rng.normal(size=(4, 6))
    for row in range(4):
        total = weight = 0.0
        for i in range(6):
            for j in range(i + 1, 6):
                gap = said[row, i] - said[row, j]
                total += gap if weighed[row, i] >= weighed[row, j] else -gap
                weight += abs(gap)
        found = coefficient(torch.from_numpy(said), torch.from_numpy(weighed))[row]
        assert float(found) == pytest.approx(total / weight)
    assert float(coefficient(torch.ones(1, 3), torch.rand(1, 3))) == 0


def test_infidelity_scales_as_suits_best():
    predicted, fallen = torch.randn(2, 50).double(), torch.randn(2, 50).double()
    found = errors(predicted, fallen)
    for row in range(2):
        tried = [float(((f * predicted[row] - fallen[row]) ** 2).mean()) for f in numpy.linspace(0, 3, 6001)]
        assert float(found[row, 0]) == pytest.approx(min(tried), abs=1e-5)
        assert float(found[row, 1]) == pytest.approx(float(((predicted[row] - fallen[row]) ** 2).mean()))
    assert float(errors(torch.zeros(1, 5).double(), torch.ones(1, 5).double())[0, 0]) == 1
    with pytest.raises(PgigError, match="unknown product"):
        Infidelity(product="sum")


@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_imputation_is_its_equations(share):
    """Every removed pixel is the weighted mean of its neighbours, solved densely."""
    rng = numpy.random.default_rng(1)
    image, removed = rng.normal(size=(2, 7, 9)), rng.random((7, 9)) < share
    found = imputed(image, removed)
    numpy.testing.assert_array_equal(found[:, ~removed], image[:, ~removed])
    assert removed.any()
    for row, column in zip(*removed.nonzero(), strict=True):
        total, weights = numpy.zeros(2), 0.0
        for down, across in itertools.product((-1, 0, 1), repeat=2):
            y, x = row + down, column + across
            if (down or across) and 0 <= y < 7 and 0 <= x < 9:
                weight = 1 / 12 if down and across else 1 / 6
                total += weight * found[:, y, x]
                weights += weight
        numpy.testing.assert_allclose(found[:, row, column], total / weights, atol=1e-9)


def test_complexity_is_its_definition():
    sizes = torch.rand(3, 20).double()
    shares = sizes / sizes.sum(1, keepdim=True)
    torch.testing.assert_close(entropy(sizes), -(shares * shares.log()).sum(1))
    apart = (sizes[:, :, None] - sizes[:, None]).abs().mean((1, 2)) / (2 * sizes.mean(1))
    torch.testing.assert_close(gini(sizes), apart)
    one = torch.eye(4).double()
    assert entropy(one).abs().max() < 1e-12
    torch.testing.assert_close(gini(torch.zeros(1, 5).double()), torch.zeros(1).double())


@pytest.mark.parametrize("unit", UNITS)
def test_deletion_is_its_definition(unit, case):
    """Unit by unit, the most relevant first, whole forward passes of images that are painted over in a loop."""
    model, x, target, given = case
    judged = ByUnits(inserted=False, fill="0.5", unit=unit, across=4, segments=9)
    found = judged(Subject.of(model), x, target, given, Setting())
    for (method, attribution), row in itertools.product(given.items(), range(3)):
        flat = attribution[row].double().sum(0).flatten()
        if unit == "patch":
            labels = (torch.arange(8)[:, None] // 2 * 4 + torch.arange(8) // 2).flatten()
        elif unit == "pixel":
            labels = torch.empty(64, dtype=torch.long)
            labels[flat.argsort(descending=True)] = torch.arange(64) // 8  # a row's worth at a step
        else:
            labels = torch.from_numpy(superpixels(x[row].numpy(), 9)).flatten()
        means = torch.stack([flat[labels == label].mean() for label in range(int(labels.max()) + 1)])
        now = x[row].clone().flatten(1)
        scores = [_score(model, x[row], target[row])]
        for label in means.argsort(descending=True):
            now[:, labels == label] = 0.5
            scores.append(_score(model, now.reshape(x[row].shape), target[row]))
        curve = found[method][row]
        wanted = numpy.interp(numpy.linspace(0, 1, len(curve)), numpy.linspace(0, 1, len(scores)), scores)
        numpy.testing.assert_allclose(curve, wanted, atol=1e-6)


def _score(model, image, target) -> float:
    with torch.no_grad():
        return float(model(image[None]).double().softmax(1)[0, target])


@pytest.mark.parametrize("product", ["set", "input"])
def test_infidelity_is_its_definition(product, case):
    model, x, target, given = case
    judged = Infidelity(patch=2, fill="0", side=2, draws=7, product=product)
    found = judged(Subject.of(model), x, target, given, Setting(ids=["a", "b", "c"]))
    grid = PatchGrid(8, 8, 2)
    for (method, attribution), (row, name) in itertools.product(given.items(), enumerate("abc")):
        said, fell = [], []
        for side, count in ((1, 3), (2, 4)):
            for chosen in drawn(partial(square, grid), side, count, [name], 0, "infidelity")[0]:
                assert len(chosen) == side**2
                now, total = x[row].clone(), 0.0
                for patch in chosen.tolist():
                    place = (slice(None), *grid.place(patch))
                    change = x[row][place] if product == "input" else torch.ones(())
                    total += float((attribution[row][place] * change).double().sum())
                    now[place] = 0
                said.append(total)
                fell.append(_score(model, x[row], target[row]) - _score(model, now, target[row]))
        assert found[method][row, 1] == pytest.approx(numpy.mean((numpy.array(said) - fell) ** 2), rel=1e-3)


def test_saco_is_its_definition(case):
    """Groups of patches by rank, each removed alone; every two count by how far apart they are."""
    model, x, target, given = case
    found = SaCo(patch=2, fill="0", groups=4)(Subject.of(model), x, target, given, Setting())
    grid = PatchGrid(8, 8, 2)
    for (method, attribution), row in itertools.product(given.items(), range(3)):
        sums = grid.sums(attribution[row : row + 1])[0]
        groups = sums.argsort(descending=True, stable=True).reshape(4, 4)
        said = [float(sums[group].sum()) for group in groups]
        fell = []
        for group in groups:
            now = x[row].clone()
            for patch in group.tolist():
                now[(slice(None), *grid.place(patch))] = 0
            fell.append(_score(model, x[row], target[row]) - _score(model, now, target[row]))
        pairs = list(itertools.combinations(range(4), 2))
        total = sum((said[i] - said[j]) * (1 if fell[i] >= fell[j] else -1) for i, j in pairs)
        assert found[method][row, 0] == pytest.approx(total / sum(said[i] - said[j] for i, j in pairs), abs=1e-5)


def test_randomisation_is_its_definition(case):
    model, x, target, given = case
    other = {"noise": given["noise"] * x}
    found = judge_of(small("randomization"))(
        Subject.of(model), x, target, {"noise": given["noise"]}, Setting(explain_random=lambda _: other)
    )
    for row in range(3):
        maps = (one[row].double().sum(0).abs().flatten() for one in (given["noise"], other["noise"]))
        ranks = [one.argsort().argsort().double() for one in maps]
        assert found["noise"][row, 0] == pytest.approx(numpy.corrcoef(*ranks)[0, 1])


def test_rises_blur_is_rises():
    """SciPy's filter of one point in 11 x 11 pixels, which reflects at its edges, as its authors' code has it."""
    from scipy.ndimage import gaussian_filter

    point = numpy.zeros((11, 11))
    point[5, 5] = 1
    kernel = torch.from_numpy(gaussian_filter(point, 5))
    x = torch.randn(2, 3, 20, 17, dtype=torch.float64)
    wanted = nn.functional.conv2d(x.flatten(0, 1)[:, None], kernel[None, None], padding=5).reshape(x.shape)
    torch.testing.assert_close(find_fill("rise")(x, PatchGrid(20, 17, 1)), wanted)


def test_localisation_is_its_definition():
    weights, mask = torch.arange(9.0).reshape(3, 3), torch.zeros(3, 3, dtype=torch.bool)
    mask[2, 1:] = mask[0, 0] = True  # 7, 8 and 0
    assert mass(weights, mask) == pytest.approx(15 / 36)
    assert rank(weights, mask) == pytest.approx(2 / 3)
    assert pointing(weights, mask) == 1
    assert pointing(torch.ones(3, 3), mask) == pytest.approx(3 / 9)  # chance


def test_correlation_of_what_is_constant_is_zero():
    assert float(correlation(torch.full((1, 4), 0.1).double(), torch.rand(1, 4).double())) == 0
    assert float(correlation(torch.arange(4.0)[None], 2 * torch.arange(4.0)[None])) == pytest.approx(1)


def test_bad_measures(case):
    model, x, target, given = case
    for text, match in (
        ("loudness", "unknown measure 'loudness'; known: morf"),
        ("morf+colour=red", "morf takes no 'colour=red': its constants are patch, steps"),
        ("complexity+draws=3", "it has no constants"),
        ("morf+steps=many", "steps of morf must be a whole number, got 'many'"),
        ("road+noise=loud", "noise of road must be a number"),
    ):
        with pytest.raises(PgigError, match=match.replace("+", r"\+")):
            asked_measures(text, {})
    for text, match in (
        ("insertion+unit=word", "unknown unit"),
        ("deletion+unit=pixel+fill=mean", "by themselves"),
        ("lerf_minus_morf+departure=released", "skips the top patch"),
        ("morf+fill=sand", "unknown fill 'sand'"),
        ("saco+groups=1", "at least two groups"),
        ("road+shares=10/all", "percentages between 0 and 100"),
        ("road+shares=0/50", "percentages between 0 and 100"),
        ("max_sensitivity", "explains anew"),
        ("localization", "needs masks"),
        ("randomization", "explains a random model"),
    ):
        with pytest.raises(PgigError, match=match):
            judge(text, model, x, target, given)
    assert "localization" not in asked_measures("all", {})
    assert "localization" in asked_measures("all", {}, masks=True)


def test_judges_called_twice_with_one_setting_judge_what_they_are_given(case):
    model, x, target, given = case
    shared = Setting()
    one = judge("morf+patch=2+steps=8", model, x, target, {"it": given["noise"]}, shared)["it"]["AUC"]
    two = judge("morf+patch=2+steps=8", model, x, target, {"it": -given["noise"]}, shared)["it"]["AUC"]
    assert not numpy.allclose(one, two)


def test_road_is_its_definition(case):
    """The first pixels in order are imputed together, with noise; what counts is whether the class stays the first."""
    model, x, target, given = case
    judged = Road("descending", noise=0.0, shares="25/50")
    found = judged(Subject.of(model), x, target, given, Setting(ids=["a", "b", "c"]))
    lost = 0
    for (method, attribution), row in itertools.product(given.items(), range(3)):
        order = attribution[row].double().sum(0).flatten().argsort(descending=True, stable=True)
        shown = [x[row]]
        for count in (16, 32):  # of 64
            removed = numpy.zeros(64, bool)
            removed[order[:count].numpy()] = True
            shown.append(torch.from_numpy(imputed(x[row].numpy(), removed.reshape(8, 8))).to(x))
        with torch.no_grad():
            output = model(torch.stack(shown))
        stayed = (output[1:].argmax(1) == target[row]).double()
        wanted = torch.cat([output.double().softmax(1)[:, target[row]], stayed])
        numpy.testing.assert_allclose(found[method][row], wanted, atol=1e-5)
        lost += int((stayed == 0).sum())
    assert lost
    assert asked_measure("road+shares=25/50", {}).length(8) == found["noise"].shape[1] == 5


def test_max_sensitivity_is_its_definition(case):
    model, x, target, given = case
    asked: list[torch.Tensor] = []

    def explain(noisy):
        asked.append(noisy - x)
        return {"it": given["noise"] + len(asked) * noisy}

    found = MaxSensitivity(radius=0.1, draws=4)(
        Subject.of(model), x, target, {"it": given["noise"]}, Setting(explain=explain)
    )
    assert len(asked) == 4
    assert all(0 < float(noise.abs().max()) <= 0.1 + 1e-6 for noise in asked)
    moved = [(number * (x + noise)).flatten(1).norm(dim=1) for number, noise in enumerate(asked, 1)]
    wanted = torch.stack(moved).amax(0) / given["noise"].flatten(1).norm(dim=1)
    numpy.testing.assert_allclose(found["it"][:, 0], wanted, rtol=1e-5)


def test_localisation_on_images_whose_truth_is_known():
    """The truth itself has all of its mass, its rank and its point on the truth; noise has about the mask's share."""
    drawn_images = samples("white", 4)
    masks = drawn_images.mask.bool()
    truth = masks[:, None].expand_as(drawn_images.x).to(drawn_images.x)
    noise = torch.rand(drawn_images.x.shape, generator=torch.Generator().manual_seed(0))
    found = judge(
        "localization", embedded("plain"), drawn_images.x, drawn_images.label.tolist(),
        {"truth": truth, "noise": noise}, Setting(masks=masks),
    )  # fmt: skip
    assert all((column == 1).all() for column in found["truth"].values())
    shares = masks.flatten(1).float().mean(1).numpy()
    numpy.testing.assert_allclose(found["noise"]["mass"], shares, rtol=0.3)
