"""Laws of pattern estimation."""

import copy
import json

import hypothesis.strategies as st
import numpy
import pytest
import torch
import torch.nn.functional as F
from convolutions import convolutions
from hypothesis import assume, given
from networks import NETWORKS, images, network
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

import pgig
from pgig.network.trace import trace
from pgig.network.unit_layout import Form
from pgig.patterns.estimator import Estimator
from pgig.synthetic.stress import stress_data, stress_model

EXACT = {"rtol": 1e-9, "atol": 1e-10}
MANY_UNHEALTHY = pytest.mark.filterwarnings("ignore:.*unreliable:pgig.PgigWarning")


def batches(count=4, size=16, dtype=torch.float64):
    return [images(size, dtype, seed=10 + i) for i in range(count)]


def slow_pattern(windows: Tensor, w: Tensor, b: Tensor | None, regime: str, centred: bool = False) -> Tensor:
    """The equation, unit by unit: windows [n, fan_in], w [units, fan_in]."""
    rows = []
    for unit, weight in enumerate(w):
        y = windows @ weight
        judged = y if b is None else y + b[unit]
        inside = {"positive": judged > 0, "negative": judged <= 0, "linear": torch.ones_like(judged, dtype=torch.bool)}
        x_in, y_in = windows[inside[regime]], y[inside[regime]]
        direction = (x_in * y_in[:, None]).mean(0) - x_in.mean(0) * (y_in if centred else y).mean()
        rows.append(direction / (weight @ direction))
    return torch.stack(rows)


def unfolded(layer: nn.Module, x: Tensor) -> Tensor:
    """The windows of a convolution, [n, groups, fan_in], by looking at what each weight multiplies."""
    groups, kernel = layer.groups, layer.kernel_size
    if not layer.transposed and isinstance(layer.padding, str):
        total = [d * (k - 1) if layer.padding == "same" else 0 for d, k in zip(layer.dilation, kernel, strict=True)]
        x = F.pad(x, [cell for t in reversed(total) for cell in (t // 2, t - t // 2)])
        padding = (0,) * len(kernel)
    elif not layer.transposed and layer.padding_mode != "zeros":
        x = F.pad(x, layer._reversed_padding_repeated_twice, mode=layer.padding_mode)
        padding = (0,) * len(kernel)
    else:
        padding = layer.padding
    fan_in = x.shape[1] // groups * int(numpy.prod(kernel))
    each = torch.eye(fan_in, dtype=x.dtype).reshape(fan_in, x.shape[1] // groups, *kernel)  # type: ignore[misc]
    parts = []
    for part in x.chunk(groups, 1):
        if layer.transposed:
            function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[len(kernel) - 1]
            seen = function(
                part, each.transpose(0, 1), None, layer.stride, padding, layer.output_padding, 1, layer.dilation
            )
        else:
            function = (F.conv1d, F.conv2d, F.conv3d)[len(kernel) - 1]  # type: ignore[assignment]
            seen = function(part, each, None, layer.stride, padding, layer.dilation)
        parts.append(seen.flatten(2).transpose(1, 2).flatten(0, 1))
    return torch.stack(parts, 1)


@given(convolutions(), st.sampled_from(["positive", "negative", "linear", "centred"]))
def test_convolutions_of_every_geometry_equal_the_unfolded_equation(case, regime):
    layer, x = case
    with torch.no_grad():
        y = layer(x)
        if layer.bias is not None:  # keep both regimes populated
            layer.bias -= y.transpose(0, 1).flatten(1).median(1).values + 1e-6  # no sample on the edge
            y = layer(x)
    active = (y > 0).transpose(0, 1).flatten(1).sum(1)
    assume(active.min() >= 3 and (y[0, 0].numel() * 2 - active).min() >= 3)
    model = nn.Sequential(layer, nn.ReLU())
    found = pgig.estimate_moments(model, [x], regime).layers["0"]
    windows = unfolded(layer, x)
    units = y.shape[1] // layer.groups
    w = found.form.rows(layer.weight.detach())
    expected = torch.cat(
        [
            slow_pattern(
                windows[:, g],
                w[g * units : (g + 1) * units],
                None if layer.bias is None else layer.bias.detach()[g * units : (g + 1) * units],
                "positive" if regime == "centred" else regime,
                regime == "centred",
            )
            for g in range(layer.groups)
        ]
    )
    pattern, health = found.pattern()
    trusted = expected.abs().max(1).values < 100  # the others are weak, and handled
    rows = found.form.rows(pattern)
    assert health.error < 1e-9
    assume(health.weak == health.negative == health.dead == 0 and trusted.any())
    torch.testing.assert_close(rows[trusted], expected[trusted], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("regime", ["positive", "negative", "linear", "centred"])
def test_linear_layers_on_any_leading_shape(regime):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), nn.ReLU()).double()
    x = torch.randn(6, 3, 7, 5).double() + 0.3
    found = pgig.estimate_patterns(model, [x[:2], x[2:]], regime)
    w, b = model[0].weight.detach(), model[0].bias.detach()
    expected = slow_pattern(x.reshape(-1, 5), w, b, "positive" if regime == "centred" else regime, regime == "centred")
    torch.testing.assert_close(found["0"], expected, **EXACT)


@MANY_UNHEALTHY
@pytest.mark.parametrize("regime", ["auto", "positive", "negative", "linear", "centred"])
@pytest.mark.parametrize("net", NETWORKS)
def test_w_times_p_is_one_for_every_live_unit(net, regime):
    model = network(net)
    moments = pgig.estimate_moments(model, batches(), regime)
    norms = {name: layer.norm for name, layer in trace(model, images()).layers.items()}
    patterns = moments.patterns()
    for name, layer in moments.layers.items():
        w, p = layer.form.rows(layer.weight), layer.form.rows(patterns[name])
        if norms[name] is not None:
            w = w * norms[name].factor[:, None]
        alive = p.abs().sum(1) > 0
        assert int((~alive).sum()) == patterns.layers[name].dead
        torch.testing.assert_close((w * p).sum(1)[alive], torch.ones(int(alive.sum())).double())


@pytest.mark.parametrize("net", NETWORKS)
def test_splits_order_and_shards_do_not_matter(net):
    model, data = network(net), batches(6, 8)
    whole = pgig.estimate_moments(model, data)
    ways = {
        "one batch": pgig.estimate_moments(model, [torch.cat(data)]),
        "one by one": pgig.estimate_moments(model, torch.cat(data).split(1)),
        "backwards": pgig.estimate_moments(model, data[::-1]),
        "left": pgig.estimate_moments(model, data[:1]) + pgig.estimate_moments(model, data[1:]),
        "right": pgig.estimate_moments(model, data[5:])
        + (pgig.estimate_moments(model, data[:3]) + pgig.estimate_moments(model, data[3:5])),
    }
    expected = whole.patterns()
    for way, moments in ways.items():
        assert moments.samples == whole.samples == 48
        assert moments.fingerprint == whole.fingerprint, way
        for name, pattern in moments.patterns().items():
            torch.testing.assert_close(pattern, expected[name], rtol=1e-7, atol=1e-9, msg=f"{way}: {name}")
    other = pgig.estimate_moments(model, batches(6, 8)[:5])
    assert other.fingerprint != whole.fingerprint


def test_the_stress_model_gets_the_papers_pattern():
    _, x = stress_data()
    # the paper's equation on the published inputs, with the mask behind the bias and before it
    for mask, p1 in (("bias", [-1.01621, -0.01621]), ("no_bias", [-1.01770, -0.01770])):
        found = pgig.estimate_patterns(stress_model(), [x], mask=mask)
        torch.testing.assert_close(found["0"][0], torch.tensor(p1).double(), rtol=0, atol=5e-6)
        assert float(found["2"]) == pytest.approx(-1)


def test_a_known_signal_direction_is_recovered():
    generator = torch.Generator().manual_seed(0)
    signal, distractor = torch.tensor([1.0, 0.0]).double(), torch.tensor([1.0, 1.0]).double()
    z, eps = torch.randn(2, 200_000, 1, generator=generator).double()
    model = nn.Linear(2, 1).double()
    model.weight.data = torch.tensor([[1.0, -1.0]]).double()
    found = pgig.estimate_patterns(model, (z * signal + eps * distractor).split(1000))
    torch.testing.assert_close(found["weight"][0], signal, rtol=0, atol=0.01)


@pytest.mark.parametrize("size", [20, 64, 112])
@pytest.mark.parametrize(("padding", "tolerance"), [(0, 2e-6), (1, 5e-5)])
def test_large_means_do_not_cancel(padding, tolerance, size):
    """Data whose mean is 43 standard deviations, in float32, against float64 and against uncentred sums."""
    torch.manual_seed(0)
    layer = nn.Conv2d(4, 6, 3, padding=padding)
    model = nn.Sequential(layer, nn.ReLU()).eval()
    data = [43 + torch.randn(8, 4, size, size) for _ in range(2)]
    wide = nn.Sequential(layer, nn.ReLU()).double()
    precise = pgig.estimate_patterns(wide, [x.double() for x in data], "linear")["0"]
    layer.float()
    error = (pgig.estimate_patterns(model, data, "linear")["0"] - precise).abs().max() / precise.abs().max()
    uncentred = (_uncentred(layer, data) - precise).abs().max() / precise.abs().max()
    assert error < tolerance
    assert error < uncentred / 10


def _uncentred(layer: nn.Conv2d, data: list[Tensor]) -> Tensor:
    """The same sums in float32 without a shift, as older implementations have them."""
    n = sum_y = sum_x = sum_xy = 0
    for x in data:
        y = layer(x).detach().transpose(0, 1).flatten(1)
        windows = F.unfold(x, 3, padding=layer.padding).transpose(0, 1).flatten(1)
        n, sum_x, sum_y, sum_xy = n + y.shape[1], sum_x + windows.sum(1), sum_y + y.sum(1), sum_xy + y @ windows.T  # type: ignore[assignment]
    direction = sum_xy / n - (sum_x / n) * (sum_y / n)[:, None]
    return (direction / (layer.weight.detach().flatten(1) * direction).sum(1, keepdim=True)).reshape(layer.weight.shape)


def test_folding_batch_norm_by_hand_changes_nothing():
    model, folded = network("residual"), network("residual")
    factor = (folded.bn1.weight / (folded.bn1.running_var + folded.bn1.eps).sqrt()).detach()
    conv = nn.Conv2d(3, 6, 3, padding=1).double()
    conv.weight.data = folded.conv1.weight.data * factor.reshape(-1, 1, 1, 1)
    conv.bias.data = (folded.bn1.bias - folded.bn1.running_mean * factor).data
    folded.conv1, folded.bn1 = conv, nn.Identity()
    x = images()
    for name in ("pattern_attribution", "pgig"):
        results = [
            pgig.attribute(name, m, x, 1, patterns=pgig.estimate_patterns(m, batches())) for m in (model, folded.eval())
        ]
        torch.testing.assert_close(*results, **EXACT)


def test_a_channel_with_gamma_zero_has_a_zero_pattern():
    model = network("residual")
    model.bn1.weight.data[2] = 0
    found = pgig.estimate_patterns(model, batches())
    assert found["conv1"][2].abs().sum() == 0
    assert found.layers["conv1"].dead == 1


def test_rescaling_a_unit_and_undoing_it_changes_nothing():
    model, scaled = network("chain"), network("chain")
    with torch.no_grad():
        scaled[0].weight[1] *= 7
        scaled[0].bias[1] *= 7
        scaled[2].weight[:4, 1] /= 7  # groups=2: the first half of the units reads the first half of the channels
    x = images()
    torch.testing.assert_close(model(x), scaled(x))
    for name in ("pattern_attribution", "pgig"):
        results = [
            pgig.attribute(name, m, x, 1, patterns=pgig.estimate_patterns(m, batches())) for m in (model, scaled)
        ]
        torch.testing.assert_close(*results, **EXACT)


def test_a_layer_used_twice_pools_its_moments():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4).double()

        def forward(self, x):
            return self.layer(self.layer(x).relu()).relu()

    torch.manual_seed(0)
    model, x = Twice().eval(), torch.randn(500, 4).double()
    found = pgig.estimate_patterns(model, [x])
    first = model.layer(x).relu().detach()
    w, b = model.layer.weight.detach(), model.layer.bias.detach()
    torch.testing.assert_close(found["layer"], slow_pattern(torch.cat([x, first]), w, b, "positive"), **EXACT)
    assert found.layers["layer"].samples == 1000


def test_regimes_per_layer():
    model = network("chain")
    found = pgig.estimate_patterns(model, batches(), {"0": "linear", "[26]": "centred"})
    assert [layer.regime for layer in found.layers.values()] == ["linear", "positive, centred", "linear, centred"]
    auto = pgig.estimate_patterns(model, batches())
    assert [layer.regime for layer in auto.layers.values()] == ["positive", "positive", "linear"]
    torch.testing.assert_close(found["6"], auto["6"])  # where all samples count, centred is no different
    for bad, match in [({"classifier.*": "linear"}, "no layer matches"), ("relu", "unknown regime")]:
        with pytest.raises(pgig.PgigError, match=match):
            pgig.estimate_patterns(model, batches(), bad)


# -- units that cannot be trusted -----------------------------------------------------------------------------------


def test_dead_weak_and_negative_units_are_handled_and_shown():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU()).double()
    x = torch.randn(4000, 3).double() + torch.tensor([3.0, 0.0, 0.0])
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0, 0, 0], [1, 0, 0], [-1, 0.05, 0.05], [0, 1, 1]]))
        model[0].bias.copy_(torch.tensor([-100.0, 0.0, 3.0, 0.0]))
    with pytest.warns(pgig.PgigWarning, match="of 4 units"):
        found = pgig.estimate_patterns(model, [x])
    health = found.layers["0"]
    assert health.dead == 1
    assert found["0"][0].abs().sum() == 0
    # unit 2 reads -x1, is active where x1 is small, and E+[x1] is positive: its denominator can turn negative
    along = (model[0].weight * found["0"]).sum(1)
    torch.testing.assert_close(along[1:], torch.ones(3).double())
    assert found["0"].isfinite().all()
    assert "dead" in str(found.health())
    few = nn.Sequential(nn.Linear(3, 8), nn.ReLU()).double()
    few[0].bias.data.fill_(-50)
    with pytest.warns(pgig.PgigWarning, match="8 of 8 units"):
        pgig.estimate_patterns(few, [x])


def test_a_negative_denominator_falls_back_to_the_covariance():
    """y = -x with x around 1: active where x < 0.2, so E+[x](E+[y] - E[y]) outweighs the covariance within."""
    x = torch.linspace(0.05, 2, 1000).double()[:, None]
    model = nn.Sequential(nn.Linear(1, 1), nn.ReLU()).double()
    model[0].weight.data.fill_(-1)
    model[0].bias.data.fill_(0.2)
    moments = pgig.estimate_moments(model, [x])
    with pytest.warns(pgig.PgigWarning):
        found = moments.patterns()
    assert found.layers["0"].negative == 1
    torch.testing.assert_close(found["0"], torch.tensor([[-1.0]]).double())


# -- files and models --------------------------------------------------------------------------------------------


def test_patterns_and_moments_survive_files_bit_for_bit(tmp_path):
    for net in NETWORKS:
        model = network(net)
        moments = pgig.estimate_moments(model, batches(), preprocessing={"size": 8})
        moments.save(tmp_path / "m.safetensors")
        again = pgig.Moments.load(tmp_path / "m.safetensors")
        patterns = moments.patterns()
        patterns.save(tmp_path / "p.safetensors")
        loaded = pgig.Patterns.load(tmp_path / "p.safetensors")
        for other in (again.patterns(), loaded):
            assert list(other) == sorted(patterns) or set(other) == set(patterns)
            assert all(torch.equal(other[name], patterns[name]) for name in patterns)
            assert other.digest == patterns.digest
            assert other.facts == patterns.facts
            assert other.layers == patterns.layers
            other.check(model)
        more = pgig.estimate_moments(model, [images(5)], preprocessing={"size": 8})
        torch.testing.assert_close((again + more).patterns(), (moments + more).patterns())


def test_patterns_of_other_weights_are_refused(tmp_path):
    model, x = network("chain"), images()
    patterns = pgig.estimate_patterns(model, batches())
    other = network("chain")
    other[0].weight.data[0, 0, 0, 0] += 1e-6
    patterns.check(model)
    with pytest.raises(pgig.PgigError, match=r"other weights than this model's: '0\.weight' differs"):
        patterns.check(other)
    patterns.check(model)
    model[6].weight.data.add_(1)  # behind autograd's back
    with pytest.raises(pgig.PgigError, match=r"'6\.weight' differs"):
        patterns.check(model)
    model[6].weight.data.sub_(1)
    with pytest.raises(pgig.PgigError, match="other weights"):
        pgig.attribute("pgig", other, x, patterns=patterns)
    assert pgig.attribute("pgig", other, x, patterns=dict(patterns)).isfinite().all()
    with pytest.raises(pgig.PgigError, match="different weights"):
        pgig.estimate_moments(model, [x]) + pgig.estimate_moments(other, [x])
    with pytest.raises(pgig.PgigError, match="different regimes"):
        pgig.estimate_moments(model, [x]) + pgig.estimate_moments(model, [x], "linear")
    (tmp_path / "bad.safetensors").write_bytes(b"nothing")
    for load in (pgig.Patterns.load, pgig.Moments.load):
        with pytest.raises(pgig.PgigError, match="cannot read"):
            load(tmp_path / "bad.safetensors")


def test_bad_data_is_refused():
    model = network("chain")
    for data, match in [
        ([], "no data"), ([images(2)[:0]], "empty"),
        ([images(2) * float("nan")], "NaN"), ([[1, 2]], "must be a tensor"),
    ]:  # fmt: skip
        with pytest.raises(pgig.PgigError, match=match):
            pgig.estimate_patterns(model, data)
    with pytest.raises(pgig.PgigError, match="training mode"):
        pgig.estimate_patterns(nn.Sequential(nn.BatchNorm2d(3), model).train().double(), batches())
    with pytest.raises(pgig.PgigError, match="plain callable"):
        pgig.estimate_patterns(lambda x: x, batches())


def test_estimation_leaves_no_trace_and_reports_progress():
    model = network("residual", torch.float32)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state, seen = torch.get_rng_state(), []
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(images(20, torch.float32), torch.arange(20)),
        batch_size=8,
        generator=torch.Generator(),
    )
    pgig.estimate_patterns(model, loader, progress=lambda *now: seen.append(now))
    assert seen == [(8, 20), (16, 20), (20, 20)]
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in before.items())
    assert all(p.grad is None for p in model.parameters())


def test_forms_find_their_way_back():
    weight = torch.arange(24.0).reshape(4, 6)
    for form in (Form("rows"), Form("columns")):
        assert torch.equal(form.parameter(form.rows(weight), weight.shape), weight)
    up = torch.randn(6, 4, 3, 3)
    form = Form("transposed", 2)
    assert form.rows(up).shape == (8, 27)
    assert torch.equal(form.parameter(form.rows(up), up.shape), up)


def test_all_that_a_model_has_learnt_counts_for_the_digest():
    """Biases and norms decide which samples are in the regime: patterns for others are refused."""
    for change in ("conv2.bias", "bn1.weight", "bn1.running_mean"):
        model = network("residual")
        patterns, moments = (make(model, batches()) for make in (pgig.estimate_patterns, pgig.estimate_moments))
        patterns.check(model)
        state = model.state_dict()
        state[change][0] += 1
        with pytest.raises(pgig.PgigError, match=f"'{change}' differs"):
            patterns.check(model)
        with pytest.raises(pgig.PgigError, match="different weights"):
            moments + pgig.estimate_moments(model, batches())


def test_moments_do_not_follow_the_model_or_the_estimator():
    model = network("chain")
    estimator = Estimator(model)
    data = batches()
    estimator.update(data[0])
    before = estimator.moments()
    kept = {name: layer.sums.xy_active.clone() for name, layer in before.layers.items()}
    patterns = before.patterns()
    estimator.update(data[1])
    estimator.moments()
    with torch.no_grad():
        model[0].weight.add_(1)
    for name, layer in before.layers.items():
        assert torch.equal(layer.sums.xy_active, kept[name])
        assert torch.equal(before.patterns()[name], patterns[name])


def test_moments_of_different_masks_are_not_added():
    model = network("chain")
    with pytest.raises(pgig.PgigError, match="masks"):
        pgig.estimate_moments(model, batches()) + pgig.estimate_moments(model, batches(), mask="no_bias")


def test_sum_adds_shards_up():
    model, data = network("chain"), batches()
    together = sum(pgig.estimate_moments(model, [batch]) for batch in data)
    assert together.samples == sum(len(batch) for batch in data)
    assert repr(together).startswith("Moments of 3 layers")
    with pytest.raises(TypeError):
        together + 1


class Functional(nn.Module):
    """Weights with a side of one, a bias added by hand, a weight of which a part is used."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.w = nn.Parameter(torch.randn(5, 5 if kind == "tied" else 1 if kind == "column" else 4).double())
        self.b = nn.Parameter(torch.randn(4).double())

    def forward(self, x):
        match self.kind:
            case "column":
                return x @ self.w
            case "added bias":
                return torch.relu(x @ self.w + self.b)
            case "part":
                return F.linear(torch.relu(F.linear(x, self.w.t()[:3])), self.w[:, :3])
            case _:
                return F.linear(torch.relu(F.linear(x, self.w)), self.w.t())


def test_a_weight_with_a_side_of_one():
    torch.manual_seed(0)
    model, x = Functional("column"), torch.randn(300, 5).double()
    found = pgig.estimate_patterns(model, [x])["w"]
    torch.testing.assert_close(found.T, slow_pattern(x, model.w.detach().T, torch.zeros(1), "linear"), **EXACT)


def test_a_bias_that_is_added_by_hand_is_a_bias():
    torch.manual_seed(0)
    model, x = Functional("added bias"), torch.randn(300, 5).double()
    patterns = pgig.estimate_patterns(model, [x])
    assert patterns.layers["w"].regime == "positive"
    expected = slow_pattern(x, model.w.detach().T, model.b.detach(), "positive")
    torch.testing.assert_close(patterns["w"].T, expected, **EXACT)


@pytest.mark.parametrize("kind", ["part", "tied"])
def test_weights_used_in_part_or_in_two_ways_keep_their_plain_gradient(kind):
    torch.manual_seed(0)
    hidden = Functional(kind)
    model = nn.Sequential(nn.Linear(6, 5).double(), nn.ReLU(), hidden).eval()
    x = torch.randn(300, 6).double()
    patterns = pgig.estimate_patterns(model, [x])
    assert patterns.unsupported == ("2.w",)
    assert set(patterns) == {"0"}
    report = pgig.check(model, x[:1])
    assert report.ok, str(report)
    assert report.unsupported == ("2.w",)
    assert "unsupported" in str(report)
    with pytest.warns(pgig.PgigWarning, match=r"left these alone.*2\.w"):
        found = pgig.attribute("pattern_attribution", model, x[:3], 0, patterns=patterns)
    assert found.any()


def test_a_norm_over_another_axis_is_not_the_layers():
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(6).double()
    norm.running_mean.copy_(torch.randn(6))
    model, x = nn.Sequential(nn.Linear(4, 6).double(), norm, nn.ReLU()).eval(), torch.randn(50, 6, 4).double()
    patterns = pgig.estimate_patterns(model, [x])
    assert patterns.layers["0"].regime == "linear"
    w = model[0].weight.detach()
    torch.testing.assert_close(patterns["0"], slow_pattern(x.flatten(0, 1), w, torch.zeros(6), "linear"), **EXACT)


def test_two_norms_behind_one_layer_make_it_linear():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.one, self.two = nn.BatchNorm1d(4), nn.BatchNorm1d(4)

        def forward(self, x):
            return self.one(self.layer(x)).relu() + self.two(self.layer(x)).relu()

    model = Two().eval()
    assert pgig.estimate_patterns(model, [torch.randn(100, 4)]).layers["layer"].regime == "linear"
    assert not any("norm" in row.treatment for row in pgig.check(model, torch.randn(1, 4)).rows)


def test_batch_statistics_are_refused():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, track_running_stats=False), nn.ReLU()).eval()
    with pytest.raises(pgig.PgigError, match="statistics of the batch"):
        pgig.estimate_patterns(model, [torch.randn(8, 4)])


def test_one_norm_behind_two_layers_can_be_saved(tmp_path):
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two, self.norm = nn.Linear(4, 3), nn.Linear(4, 3), nn.BatchNorm1d(3)

        def forward(self, x):
            return self.norm(self.one(x)).relu() + self.norm(self.two(x)).relu()

    moments = pgig.estimate_moments(Shared().eval(), [torch.randn(100, 4)])
    moments.save(tmp_path / "moments.safetensors")
    assert pgig.Moments.load(tmp_path / "moments.safetensors").samples == 100
    with pytest.raises(pgig.PgigError, match="holds moments"):
        pgig.Patterns.load(tmp_path / "moments.safetensors")


def test_a_model_that_writes_through_views_is_read_as_it_is():
    class Views(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.out = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 2, 1)

        def forward(self, x):
            y = self.conv(x)
            y.view(len(x), -1).relu_()
            return self.out(y)

    torch.manual_seed(0)
    model, x = Views().eval(), torch.randn(20, 3, 8, 8)
    found = pgig.estimate_patterns(model, [x], "linear")
    precise = pgig.estimate_patterns(model.double(), [x.double()], "linear")
    torch.testing.assert_close(found["out"].double(), precise["out"], rtol=1e-4, atol=1e-5)


def test_half_precision_does_not_overflow():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).half().eval(), 1 + 2 * torch.randn(2, 3, 224, 224)
    found = pgig.estimate_patterns(model, [x.half()])
    assert found.layers["0"].dead == 0


def test_a_layer_on_a_parameter_is_a_constant():
    class Vector(nn.Module):
        def __init__(self):
            super().__init__()
            self.start, self.layer, self.out = nn.Parameter(torch.randn(4)), nn.Linear(4, 3), nn.Linear(3, 2)

        def forward(self, x):
            return self.out(x + self.layer(self.start))

    patterns = pgig.estimate_patterns(Vector().eval(), [torch.randn(40, 3)])
    assert set(patterns) == {"out"}  # what it gives is always the same: it needs no pattern


def test_units_seen_few_times_are_counted():
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU()).eval()
    model[0].weight.data = torch.tensor([[1.0, 0, 0], [1.0, 0, 0]])
    model[0].bias.data = torch.tensor([0.0, -100.0])
    x = torch.randn(1000, 3)
    x[:4, 0] += 200
    with pytest.warns(pgig.PgigWarning, match="1 of 2 units"):
        health = pgig.estimate_patterns(model, [x]).layers["0"]
    assert (health.few, health.dead) == (1, 0)


@pytest.mark.parametrize(
    ("batches", "match"),
    [
        (torch.randn(8, 4), "an iterable of batches"),
        (None, "an iterable of batches"),
        ([()], "a batch must be a tensor"),
        ([torch.randn(8, 5)], r"failed on a batch of shape \(8, 5\)"),
        ([torch.randn(8, 4), torch.randn(8, 5)], r"failed on a batch of shape \(8, 5\)"),
        ([torch.randn(8, 4).double()], "failed on a batch of shape .* torch.float64"),
    ],
)
def test_bad_batches_get_a_clear_error(batches, match):
    with pytest.raises(pgig.PgigError, match=match):
        pgig.estimate_patterns(nn.Sequential(nn.Linear(4, 3)).eval(), batches)


def test_a_model_with_nan_weights_is_refused():
    model = nn.Sequential(nn.Linear(4, 3)).eval()
    model[0].bias.data[1] = float("nan")
    with pytest.raises(pgig.PgigError, match=r"NaN or infinite weights \('0.bias'\)"):
        pgig.estimate_patterns(model, [torch.randn(8, 4)])


class Masked(nn.Module):
    """Pools over the tokens that a mask lets through."""

    def __init__(self):
        super().__init__()
        self.embedding, self.layer, self.out = nn.Embedding(20, 6), nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, ids, mask=None):
        y = self.layer(self.embedding(ids)).relu()
        mask = torch.ones_like(ids) if mask is None else mask
        return self.out((y * mask[..., None]).sum(1) / mask.sum(1, keepdim=True))


def test_masks_and_mappings_reach_the_model():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Masked().double().eval()
    ids = torch.randint(20, (64, 7), generator=torch.Generator().manual_seed(1))
    mask = (torch.rand(64, 7, generator=torch.Generator().manual_seed(2)) > 0.4).long()
    mask[:, 0] = 1
    pairs = [(ids[n : n + 16], mask[n : n + 16]) for n in range(0, 64, 16)]
    by_args = pgig.estimate_patterns(model, pairs, forward_args=lambda batch: (batch[1],), held_out=pairs)
    by_kwargs = pgig.estimate_patterns(model, pairs, forward_kwargs=lambda batch: {"mask": batch[1]})
    named = pgig.estimate_patterns(
        model, [{"ids": a, "mask": b} for a, b in pairs], held_out=[{"ids": ids, "mask": mask}]
    )
    without = pgig.estimate_patterns(model, pairs)
    for name in ("layer", "out"):
        torch.testing.assert_close(by_args[name], by_kwargs[name], **EXACT)
        torch.testing.assert_close(by_args[name], named[name], **EXACT)
    assert float((without["out"] - named["out"]).abs().max()) > 1e-6  # the mask counts
    fixed = pgig.estimate_patterns(model, [ids], forward_args=(mask,))
    torch.testing.assert_close(fixed["out"], named["out"], **EXACT)
    for wrong in ([{}], [{"ids": "text"}], [{"ids": ids[:0]}]):  # type: ignore[var-annotated]
        with pytest.raises(pgig.PgigError, match="a batch"):
            pgig.estimate_patterns(model, wrong)
    with pytest.raises(pgig.PgigError, match="forward_kwargs must be a mapping"):
        pgig.estimate_patterns(model, pairs, forward_kwargs=lambda batch: 3)


def test_sealed_files_are_read_and_those_of_earlier_versions_noted(tmp_path):
    moments = pgig.estimate_moments(network("chain"), batches())
    patterns = moments.patterns()
    for kind, thing in (("moments", moments), ("patterns", patterns)):
        path = tmp_path / f"{kind}.safetensors"
        thing.save(path)
        type(thing).load(path)
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
            about = json.loads(file.metadata()[f"pgig {kind}"])
        del about["seal"]
        save_file(tensors, path, {f"pgig {kind}": json.dumps(about)})
        with pytest.warns(pgig.PgigWarning, match=f"the {kind} in .* are of an earlier version"):
            type(thing).load(path)
        about["seal"] = "gone"
        save_file(tensors, path, {f"pgig {kind}": json.dumps(about)})
        with pytest.raises(pgig.PgigError, match="is damaged"):
            type(thing).load(path)
    save_file(dict(patterns), tmp_path / "theirs.safetensors")
    assert set(pgig.Patterns.load(tmp_path / "theirs.safetensors")) == set(patterns)  # not ours: no note


class Wrapped(nn.Module):
    """A model inside another, with something of its own."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.body = nn.ModuleDict({"net": inner})
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"logits": self.body["net"](x) * self.scale, "input": x}


def test_patterns_fit_a_wrapper_around_their_model():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 3)
    )
    model, x = model.double().eval(), torch.randn(50, 2, 6, 6).double()
    wrapper = Wrapped(model).double().eval()
    patterns = pgig.estimate_patterns(model, [x])
    wanted = pgig.attribute("pgig", model, x[:3], 1, patterns=patterns)
    torch.testing.assert_close(pgig.attribute("pgig", wrapper, x[:3], 1, patterns=patterns), wanted, **EXACT)
    copied = copy.deepcopy(wrapper)
    torch.testing.assert_close(pgig.attribute("pgig", copied, x[:3], 1, patterns=patterns), wanted, **EXACT)
    subject = pgig.Subject(wrapper, patterns)
    subject.check_patterns()
    assert set(subject.patterns) == {"body.net.0", "body.net.4", "body.net.6"}
    of_wrapper = pgig.estimate_patterns(Plainly(model), [x])
    torch.testing.assert_close(pgig.attribute("pgig", model, x[:3], 1, patterns=of_wrapper), wanted, **EXACT)
    with torch.no_grad():
        copied.body["net"][1].running_mean += 1  # a norm is part of what they were estimated for
    with pytest.raises(pgig.PgigError, match="estimated for other weights"):
        pgig.attribute("pgig", copied, x[:3], 1, patterns=patterns)


class Plainly(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)
