"""Laws of the methods, most of them over the whole table."""

import numpy
import pytest
import torch
from networks import NETWORKS, images, network, patterns_of_ones, random_patterns
from torch import nn

import pgig

EXACT = {"rtol": 0, "atol": 1e-12}
PLAIN = {"score": "logit", "start": "one"}
ALL = list(pgig.METHODS)


def everything(model, x, **options):
    """The arguments with which every method of the table works."""
    return {"references": images(4, x.dtype, seed=9), "patterns": random_patterns(model), **options}


@pytest.mark.parametrize("name", ALL)
def test_an_attribution_is_shaped_like_its_input(name):
    model, x = network("chain", torch.float32), images(dtype=torch.float32)
    attribution = pgig.attribute(name, model, x, **everything(model, x))
    assert attribution.shape == x.shape
    assert attribution.dtype == x.dtype
    assert attribution.isfinite().all()
    assert attribution.abs().sum() > 0


@pytest.mark.parametrize("net", NETWORKS)
def test_fused_methods_equal_separate_calls(net):
    model, x = network(net), images()
    fused = pgig.attribute_all(ALL, model, x, [0, 1, 2], **everything(model, x))
    assert list(fused) == ALL
    for name, attribution in fused.items():
        alone = pgig.attribute(name, model, x, [0, 1, 2], **everything(model, x))
        torch.testing.assert_close(attribution, alone, **EXACT)


@pytest.mark.parametrize("name", ALL)
def test_batch_size_and_order_do_not_matter(name):
    model, x = network("concatenating"), images(4)
    options = everything(model, x, steps=7, samples=5) if name == "smoothgrad_ig" else everything(model, x)
    whole = pgig.attribute(name, model, x, ids=list("abcd"), **options)
    for batch_size in (1, 3, 1000):
        torch.testing.assert_close(
            pgig.attribute(name, model, x, ids=list("abcd"), batch_size=batch_size, **options), whole, **EXACT
        )
    backwards = pgig.attribute(name, model, x.flip(0), ids=list("dcba"), **options)
    torch.testing.assert_close(backwards.flip(0), whole, **EXACT)
    alone = pgig.attribute(name, model, x[2:3], ids=["c"], **options)
    torch.testing.assert_close(alone, whole[2:3], **EXACT)


@pytest.mark.parametrize("name", ALL)
def test_the_same_seed_gives_the_same_bits(name):
    model, x = network("chain", torch.float32), images(dtype=torch.float32)
    first, second = (pgig.attribute(name, model, x, seed=5, **everything(model, x)) for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize("name", ["random", "vargrad", "smoothgrad", "smoothgrad_ig", "expected_gradients"])
def test_another_seed_or_id_gives_other_draws(name):
    model, x = network("chain"), images(1)
    options = everything(model, x)
    first = pgig.attribute(name, model, x, seed=5, **options)
    assert not torch.equal(first, pgig.attribute(name, model, x, seed=6, **options))
    assert not torch.equal(first, pgig.attribute(name, model, x, seed=5, ids=[1], **options))


@pytest.mark.parametrize("name", ALL)
def test_float32_follows_float64(name):
    model, x = network("residual"), images()
    precise = pgig.attribute(name, model, x, 1, **everything(model, x))
    single = network("residual", torch.float32), x.float()
    rough = pgig.attribute(name, *single, 1, **everything(*single))
    torch.testing.assert_close(rough.double(), precise, rtol=1e-3, atol=1e-5 * float(precise.abs().max()))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_works(name, dtype):
    model, x = network("chain", dtype), images(dtype=dtype)
    attribution = pgig.attribute(name, model, x, 1, **everything(model, x))
    assert attribution.dtype == dtype
    assert attribution.shape == x.shape
    wide, wide_x = network("chain"), images()
    precise = pgig.attribute(name, wide, wide_x, 1, **everything(wide, wide_x))
    assert (attribution - precise).norm() < 0.3 * precise.norm()


@pytest.mark.parametrize("name", ALL)
def test_a_tuple_of_inputs_gives_a_tuple(name):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 5).double(), nn.Linear(6, 5).double()
            self.out = nn.Linear(5, 3).double()

        def forward(self, x, y, factor):
            return self.out(torch.relu(self.a(x) * factor + self.b(y.flatten(1))))

    torch.manual_seed(0)
    model, x, y = Two().eval(), torch.randn(5, 4).double(), torch.randn(5, 2, 3).double()
    factor = torch.rand(5, 1).double()
    options = {
        "references": (torch.randn(3, 4).double(), torch.randn(3, 2, 3).double()),
        "patterns": random_patterns(model),
        "forward_args": (factor,),
    }
    both = pgig.attribute(name, model, (x, y), 1, **options)
    assert [a.shape for a in both] == [x.shape, y.shape]
    row = pgig.attribute(name, model, (x[3:4], y[3:4]), 1, ids=[3], **options | {"forward_args": (factor[3:4],)})
    for together, alone in zip(both, row, strict=True):
        torch.testing.assert_close(together[3:4], alone, **EXACT)


@pytest.mark.parametrize("shape", [(4,), (3, 10), (2, 6, 6), (2, 4, 4, 4)])
def test_inputs_of_any_shape(shape):
    torch.manual_seed(0)
    axes = len(shape) - 1
    first = nn.Linear(4, 3) if axes == 0 else (nn.Conv1d, nn.Conv2d, nn.Conv3d)[axes - 1](shape[0], 3, 3)
    model = nn.Sequential(first, nn.ReLU(), nn.Flatten(), nn.LazyLinear(4)).double().eval()
    x = torch.randn(2, *shape, dtype=torch.float64)
    model(x)
    ones = {name: torch.ones_like(p) for name, p in (("0", model[0].weight), ("3", model[3].weight))}
    methods = ["integrated_gradients", "pgig", "guided_backprop"]
    results = pgig.attribute_all(methods, model, x, 1, patterns=ones, **PLAIN)
    torch.testing.assert_close(results["pgig"], results["integrated_gradients"], **EXACT)
    assert results["guided_backprop"].shape == x.shape


# -- the laws of single methods -----------------------------------------------------------------------------------


@pytest.mark.parametrize("net", NETWORKS)
def test_integrated_gradients_are_complete_and_steps_help(net):
    model, x = network(net), images()
    residuals = []
    for steps in (10, 100, 1000):
        a = pgig.attribute("integrated_gradients", model, x, 1, score="logit", steps=steps, baseline=0.1)
        residuals.append(float(pgig.completeness(a, model, x, 1, score="logit", baseline=0.1).abs().max()))
    assert residuals[2] < residuals[1] < residuals[0]
    assert residuals[2] < 5e-3


@pytest.mark.parametrize("quadrature", ["right", "left", "midpoint", "trapezoid", "gauss-legendre"])
@pytest.mark.parametrize("steps", [2, 25])
def test_on_a_linear_model_any_number_of_steps_is_exact(quadrature, steps):
    torch.manual_seed(0)
    model, x, x0 = nn.Linear(6, 3).double(), torch.randn(4, 6).double(), torch.randn(6).double()
    p = {"weight": torch.randn(3, 6).double()}
    options = {"steps": steps, "quadrature": quadrature, "baseline": x0, **PLAIN}
    ig = pgig.attribute("integrated_gradients", model, x, 2, **options)
    torch.testing.assert_close(ig, model.weight[2] * (x - x0), **EXACT)
    guided = pgig.attribute("pgig", model, x, 2, patterns=p, **options)
    torch.testing.assert_close(guided, p["weight"][2] * ig, **EXACT)


@pytest.mark.parametrize("net", NETWORKS)
def test_patterns_of_ones_are_autograd(net):
    model, x = network(net), images()
    ones = patterns_of_ones(model)
    names = ["integrated_gradients", "pgig", "gradient", "pattern_attribution"]
    a = pgig.attribute_all(names, model, x, 1, patterns=ones, **PLAIN)
    torch.testing.assert_close(a["pgig"], a["integrated_gradients"], **EXACT)
    torch.testing.assert_close(a["pattern_attribution"], a["gradient"], **EXACT)
    scores = model(x)[:, 1].detach().reshape(-1, 1, 1, 1)
    from_score = pgig.attribute("pattern_attribution", model, x, 1, patterns=ones, score="logit")
    torch.testing.assert_close(from_score, scores * a["gradient"], **EXACT)


def test_zero_variance_is_no_noise():
    model, x = network("residual"), images()
    gradient, ig = (pgig.attribute(name, model, x, 1, **PLAIN) for name in ("gradient", "integrated_gradients"))
    still = {"variance": 0.0, **PLAIN}
    torch.testing.assert_close(pgig.attribute("smoothgrad", model, x, 1, **still), gradient, **EXACT)
    torch.testing.assert_close(pgig.attribute("vargrad", model, x, 1, **still), 0 * gradient, **EXACT)
    torch.testing.assert_close(pgig.attribute("smoothgrad_ig", model, x, 1, **still), ig, **EXACT)
    torch.testing.assert_close(pgig.attribute("smooth_taylor", model, x, 1, **still), 0 * gradient, **EXACT)


def test_vargrad_is_the_spread_of_smoothgrad():
    model, x = network("chain"), images()
    a = pgig.attribute_all(["smoothgrad", "smoothgrad_squared", "vargrad"], model, x, 1, **PLAIN)
    torch.testing.assert_close(a["vargrad"], a["smoothgrad_squared"] - a["smoothgrad"] ** 2, **EXACT)


def test_vargrad_does_not_cancel():
    """A spread of 1 around gradients of 1e4, in float32: the difference of squares would have no digit left."""
    x = torch.zeros(1, 50)
    options = {"score": lambda y: y, "samples": 200, "variance": 1.0}
    spread = pgig.attribute("vargrad", lambda x: (1e4 * x + x**2 / 2).sum(1), x, **options)
    around_zero = pgig.attribute("vargrad", lambda x: (x**2 / 2).sum(1), x, **options)
    torch.testing.assert_close(spread, around_zero, rtol=1e-2, atol=0)


def test_expected_gradients_with_one_reference_converge_to_integrated_gradients():
    model, x = network("chain"), images(2)
    reference = images(1, seed=7)
    ig = pgig.attribute(
        "integrated_gradients", model, x, 1, baseline=reference, steps=2000, quadrature="midpoint", **PLAIN
    )
    errors = []
    for samples in (50, 5000):
        eg = pgig.attribute("expected_gradients", model, x, 1, references=reference, samples=samples, **PLAIN)
        errors.append(float((eg - ig).norm() / ig.norm()))
    assert errors[1] < 0.03 < errors[0]


def test_without_the_factor_pgig_is_integrated_pattern_attribution():
    model, x = network("chain"), images()
    p = random_patterns(model)
    bare = pgig.attribute("pgig", model, x, patterns=p, multiply_by_input=False)
    torch.testing.assert_close(bare, pgig.attribute("integrated_pattern_attribution", model, x, patterns=p), **EXACT)
    full = pgig.attribute("pgig", model, x, patterns=p, baseline=0.3)
    bare = pgig.attribute("pgig", model, x, patterns=p, baseline=0.3, multiply_by_input=False)
    torch.testing.assert_close(full, (x - 0.3) * bare, **EXACT)


def test_smooth_taylor_sums_taylor_terms_from_the_noisy_roots():
    """For f = x'x / 2 the gradient at a root z is z, so a term is (x - z) z; its mean is minus the noise's variance."""
    x = torch.full((1, 2000), 0.7, dtype=torch.float64)
    a = pgig.attribute("smooth_taylor", lambda z: (z**2).sum(1) / 2, x, score=lambda y: y, samples=50)
    assert abs(float(a.mean()) + 0.15) < 0.01


def test_paths_end_at_the_input_and_start_at_the_baseline():
    seen = []

    def model(x):
        seen.append(x.detach().clone())
        return x.sum(1)

    x, x0 = torch.tensor([[0.1, 0.7]]), torch.tensor([[0.3, -0.2]])
    options = {"score": lambda y: y, "baseline": x0, "steps": 5}
    for quadrature, first, last in [("right", None, x), ("trapezoid", x0, x), ("left", x0, None)]:
        seen.clear()
        pgig.attribute("integrated_gradients", model, x, quadrature=quadrature, batch_size=1, **options)
        assert len(seen) == 5
        assert first is None or torch.equal(seen[0], first)
        assert last is None or torch.equal(seen[-1], last)


def test_shared_points_are_evaluated_once():
    calls = []

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = network("chain")

        def forward(self, x):
            calls.append(len(x))
            return self.net(x)

    model, x = Counting(), images(1)
    p = {f"net.{name}": value for name, value in random_patterns(model.net).items()}
    for names, points in [
        (["gradient", "gradient_x_input", "guided_backprop", "pattern_attribution"], 1),
        (["integrated_gradients", "pgig"], 25),
        (["smoothgrad", "smoothgrad_squared", "vargrad"], 25),
    ]:
        pgig.attribute_all(names, model, x, 1, patterns=p)  # the first call also looks at what the model does
        calls.clear()
        pgig.attribute_all(names, model, x, 1, patterns=p)
        assert sum(calls) == points


def test_the_score_may_be_anything():
    model, x = network("chain"), images()
    logit = pgig.attribute("integrated_gradients", model, x, 2, score="logit")
    picked = pgig.attribute("integrated_gradients", model, x, score=lambda y: y[:, 2])
    torch.testing.assert_close(logit, picked, **EXACT)
    as_dict = pgig.attribute("integrated_gradients", lambda x: {"out": model(x)}, x, score=lambda y: y["out"][:, 2])
    torch.testing.assert_close(logit, as_dict, **EXACT)
    probability = pgig.attribute("gradient", model, x, 2)
    torch.testing.assert_close(probability, pgig.attribute("gradient", model, x, score=lambda y: y.softmax(1)[:, 2]))


def test_targets_of_every_form():
    model, x = network("chain"), images()
    predicted = model(x).argmax(1)
    free = pgig.attribute("integrated_gradients", model, x)
    for target in (predicted, predicted.tolist(), predicted.numpy(), [(int(i),) for i in predicted]):
        torch.testing.assert_close(pgig.attribute("integrated_gradients", model, x, target), free, **EXACT)

    def grid(x):  # [n, classes, height, width]
        return x @ torch.ones(8, 3, dtype=x.dtype)

    one = pgig.attribute("gradient", grid, x, (1, 4, 2), score="logit")
    assert one[:, 1, 4].eq(1).all()
    assert one.count_nonzero() == 3 * 8
    several = pgig.attribute("gradient", grid, x, [(0, 0, 0), (1, 1, 1), (2, 7, 2)], score="logit")
    assert several[2, 2, 7].eq(1).all()


def test_a_users_own_method_is_one_line():
    from pgig.methods.points import Line
    from pgig.methods.rules import guided

    model, x = network("chain"), images()
    own = pgig.Method(Line(10), guided, multiply_by_input=True)
    a = pgig.attribute_all({"guided_ig": own, "ig": pgig.METHODS["integrated_gradients"]}, model, x, 1)
    assert list(a) == ["guided_ig", "ig"]
    torch.testing.assert_close(pgig.attribute(own, model, x, 1), a["guided_ig"], **EXACT)


def test_progress_counts_points():
    seen = []
    model, x = network("chain"), images(2)
    pgig.attribute_all(
        ["gradient", "integrated_gradients"], model, x, progress=lambda *now: seen.append(now), batch_size=7
    )
    assert seen[-1] == (52, 52)
    assert seen == sorted(seen)


def test_draws_depend_on_values_not_on_how_they_print():
    model, x = network("chain"), images(2)
    usual = pgig.attribute("vargrad", model, x, 1, seed=1, variance=1.0, samples=3, ids=["a", 5])
    other = pgig.attribute(
        "vargrad",
        model,
        x,
        1,
        seed=numpy.int64(1),
        variance=1,
        samples=numpy.int64(3),
        ids=[numpy.str_("a"), numpy.int64(5)],
    )
    assert torch.equal(usual, other)


def test_random_is_uniform_around_zero():
    a = pgig.attribute("random", lambda x: x, torch.zeros(1, 20_000), 0)
    assert -1 <= a.min() < -0.99
    assert 0.99 < a.max() <= 1
    assert abs(float(a.mean())) < 0.02
    assert float(a.var()) == pytest.approx(1 / 3, rel=0.05)


def test_members_of_one_number_each():
    def model(x, y):
        return torch.stack([x * y, x + y], 1)

    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    a = pgig.attribute("integrated_gradients", model, (x, y), 0, score="logit", quadrature="midpoint")
    torch.testing.assert_close(a, (x * y / 2, x * y / 2))
    torch.testing.assert_close(pgig.completeness(a, model, (x, y), 0, score="logit"), torch.zeros(2))
    alone = pgig.attribute("gradient", lambda x: 3 * x, x, 0, score="logit")
    assert alone.tolist() == [3, 3]


def test_a_sure_prediction_keeps_its_gradient_in_float32():
    """Logits so far apart that float32 calls the probability 1."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 4)).eval()
    x = torch.randn(3, 6)
    with torch.no_grad():
        model[2].bias[1] += 22
    assert (model(x).softmax(1)[:, 1] == 1).all()
    single = pgig.attribute_all(["gradient", "guided_backprop"], model, x, 1)
    double = pgig.attribute_all(["gradient", "guided_backprop"], model.double(), x.double(), 1)
    for name, precise in double.items():
        assert precise.abs().max() > 0
        torch.testing.assert_close(single[name].double(), precise, rtol=1e-3, atol=1e-4 * float(precise.abs().max()))
