"""Weights that no layer's call shows: inside attention and recurrent modules, or computed at each call."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pgig
from pgig.network.layer_mode import LayerMode
from pgig.network.layers import Layers
from pgig.network.trace import trace

EXACT = {"rtol": 0, "atol": 1e-12}


def first(y: Tensor) -> Tensor:
    return y[:, 0, 0]


class LookingOn(LayerMode):
    def __init__(self, model: nn.Module) -> None:
        super().__init__(Layers(model, None, channels_last=False))
        self.layers: list[str] = []

    def _layer(self, func, call):
        self.layers.append(call.layer.name)
        return call.as_given(call.run(call.x))

    def _other(self, func, args, kwargs):
        assert func is not F.multi_head_attention_forward
        return func(*args, **kwargs)


CAUSAL = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
PADDED = torch.zeros(3, 5, dtype=torch.bool).index_fill(1, torch.tensor([4]), True)
ATTENTIONS = {
    "plain": ({}, {}),
    "without biases": ({"bias": False}, {}),
    "length first": ({"batch_first": False}, {}),
    "without its weights": ({}, {"need_weights": False}),
    "weights of every head": ({}, {"average_attn_weights": False}),
    "causal": ({}, {"attn_mask": CAUSAL, "is_causal": True}),
    "causal without its weights": ({}, {"attn_mask": CAUSAL, "is_causal": True, "need_weights": False}),
    "a mask of numbers": ({}, {"attn_mask": torch.linspace(-1, 1, 25).reshape(5, 5).double()}),
    "a mask for each head": ({}, {"attn_mask": CAUSAL.expand(6, 5, 5)}),
    "padded": ({}, {"key_padding_mask": PADDED}),
    "padded without its weights": ({}, {"key_padding_mask": PADDED, "need_weights": False}),
    "padded and causal": ({}, {"key_padding_mask": PADDED, "attn_mask": CAUSAL, "need_weights": False}),
}


@pytest.mark.parametrize(("made", "called"), ATTENTIONS.values(), ids=ATTENTIONS)
@pytest.mark.parametrize("kind", ["self", "cross", "three"])
def test_attention_by_its_parts_is_what_torch_computes(made, called, kind):
    torch.manual_seed(0)
    model = nn.MultiheadAttention(8, 2, **{"batch_first": True, **made}).double().eval()
    shape = (3, 5, 8) if made.get("batch_first", True) else (5, 3, 8)
    q, k, v = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for _ in range(3))
    given = {"self": (q, q, q), "cross": (q, k, k), "three": (q, k, v)}[kind]
    wanted, wanted_weights = model(*given, **called)
    with LookingOn(model) as mode:
        found, weights = model(*given, **called)
    torch.testing.assert_close(found, wanted, **EXACT)
    torch.testing.assert_close(weights, wanted_weights, **EXACT)
    assert mode.layers == ["in_proj_weight"] * {"self": 1, "cross": 2, "three": 3}[kind] + ["out_proj"]


def test_attention_with_separate_projections_and_without_a_batch():
    torch.manual_seed(0)
    model = nn.MultiheadAttention(8, 2, kdim=6, vdim=4).double().eval()
    given = [torch.randn(5, size).double().requires_grad_() for size in (8, 6, 4)]
    wanted, wanted_weights = model(*given)
    with LookingOn(model) as mode:
        found, weights = model(*given)
    torch.testing.assert_close(found, wanted, **EXACT)
    torch.testing.assert_close(weights, wanted_weights, **EXACT)
    assert mode.layers == ["q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj"]


def encoder() -> nn.TransformerEncoderLayer:
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).double().eval()


def test_projections_of_attention_obey_the_pattern_rule():
    model, x = encoder(), torch.randn(40, 5, 8).double()
    patterns = pgig.estimate_patterns(model, [x], "linear")
    assert list(patterns) == ["self_attn.in_proj_weight", "self_attn.out_proj", "linear1", "linear2"]
    assert patterns.unsupported == ()

    class ByHand(nn.Module):
        """The same with layers that anybody can see."""

        def __init__(self) -> None:
            super().__init__()
            attention: nn.MultiheadAttention = model.self_attn
            assert isinstance(attention.in_proj_weight, nn.Parameter)
            self.inner, self.inside, self.outside = model, nn.Linear(8, 24).double(), attention.out_proj
            self.inside.weight, self.inside.bias = attention.in_proj_weight, attention.in_proj_bias

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.inside(x).chunk(3, -1))
            heard = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            x = self.inner.norm1(x + self.outside(heard))
            return self.inner.norm2(x + self.inner.linear2(self.inner.linear1(x).relu()))

    by_hand = pgig.estimate_patterns(ByHand().eval(), [x], "linear")
    for name in patterns:
        torch.testing.assert_close(patterns[name], by_hand[f"inner.{name}"], **EXACT)
    found, wanted = (
        pgig.attribute("pgig", m, x[:2], patterns=p, score=first)
        for m, p in ((model, patterns), (ByHand().eval(), by_hand))
    )
    torch.testing.assert_close(found, wanted, **EXACT)
    assert not torch.allclose(found, pgig.attribute("integrated_gradients", model, x[:2], score=first, start="score"))


def test_recurrent_weights_keep_their_plain_gradient_and_are_named():
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(6, 5, batch_first=True), nn.Linear(5, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.lstm(x)[0][:, -1])

    torch.manual_seed(0)
    model, x = Recurrent().eval(), torch.randn(60, 4, 6)
    patterns = pgig.estimate_patterns(model, [x])
    assert patterns.unsupported == ("lstm.weight_ih_l0", "lstm.weight_hh_l0")
    with pytest.warns(pgig.PgigWarning, match="left these alone, their gradient is plain: lstm"):
        pgig.attribute("pattern_attribution", model, x[:2], 1, patterns=patterns)


class Standardised(nn.Conv2d):
    """As timm's ScaledStdConv2d does it."""

    def __init__(self, *args, **options) -> None:
        super().__init__(*args, **options)
        self.gain = nn.Parameter(torch.full((self.out_channels, 1, 1, 1), 1.3))

    def effective(self) -> Tensor:
        return F.batch_norm(
            self.weight.reshape(1, self.out_channels, -1), None, None,
            weight=(self.gain * 0.7).view(-1), training=True, momentum=0.0, eps=1e-6,
        ).reshape_as(self.weight)  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.effective(), self.bias, self.stride, self.padding, self.dilation, self.groups)


class Masked(nn.Linear):
    """A weight times a buffer."""

    def __init__(self, *args) -> None:
        super().__init__(*args)
        self.register_buffer("mask", (torch.arange(self.weight.numel()) % 3 > 0).reshape(self.weight.shape).double())

    def effective(self) -> Tensor:
        return self.weight * self.mask

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.effective(), self.bias)


def plainly(model: nn.Sequential) -> nn.Sequential:
    """The same with the computed weights as parameters."""
    made = []
    for module in model:
        if isinstance(module, Standardised | Masked):
            plain: nn.Module
            if isinstance(module, Standardised):
                plain = nn.Conv2d(module.in_channels, module.out_channels, 3, stride=module.stride).double()
            else:
                plain = nn.Linear(module.in_features, module.out_features).double()
            plain.load_state_dict({"weight": module.effective().detach(), "bias": module.bias.detach()})
            made.append(plain)
        else:
            made.append(module)
    return nn.Sequential(*made).eval()


def computed() -> nn.Sequential:
    torch.manual_seed(0)
    layers = [Standardised(2, 4, 3), nn.ReLU(), Standardised(4, 4, 3, stride=2), nn.ReLU(), nn.Flatten(), Masked(36, 3)]
    return nn.Sequential(*layers).double().eval()


def test_computed_weights_are_layers():
    model, x = computed(), torch.randn(60, 2, 9, 9).double()
    plain = plainly(model)
    torch.testing.assert_close(model(x), plain(x), **EXACT)
    patterns, wanted = (pgig.estimate_patterns(m, [x]) for m in (model, plain))
    assert list(patterns) == list(wanted) == ["0", "2", "5"]
    assert patterns.unsupported == ()
    for name in patterns:
        torch.testing.assert_close(patterns[name], wanted[name], rtol=1e-9, atol=1e-12)
    methods = [name for name in pgig.METHODS if name != "expected_gradients"]
    found = pgig.attribute_all(methods, model, x[:2], 1, patterns=patterns, samples=3, steps=3)
    expected = pgig.attribute_all(methods, plain, x[:2], 1, patterns=wanted, samples=3, steps=3)
    for name in methods:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-9, atol=1e-12)
    assert pgig.check(model, x[:2]).ok


@pytest.mark.filterwarnings("ignore:the pattern rule left these alone:pgig.PgigWarning")
def test_a_parameter_that_is_used_in_several_ways_is_no_layer_of_one():
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.head = nn.Parameter(torch.randn(4, 4).double()), nn.Linear(4, 2).double()

        def forward(self, x: Tensor) -> Tensor:
            return self.head(F.linear(F.linear(x, self.weight * 2).relu(), self.weight))

    torch.manual_seed(0)
    model, x = Both().eval(), torch.randn(30, 4).double()
    patterns = pgig.estimate_patterns(model, [x])
    assert list(patterns) == ["head"]
    assert patterns.unsupported == ("weight",)
    leaf = x.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(model(leaf)[:, 1].sum(), leaf)
    ones = {"weight": torch.ones(4, 4), "head": torch.ones(2, 4)}
    for given in (ones, pgig.Patterns({"head": ones["head"]}, facts={"unsupported": ["weight"]})):
        found = pgig.attribute("pattern_attribution", model, x, 1, patterns=given, score="logit", start="one")
        torch.testing.assert_close(found, wanted, **EXACT)


def test_statistics_of_the_batch_are_still_refused():
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3, track_running_stats=False), nn.Flatten()).eval()
    with pytest.raises(pgig.PgigError, match="statistics of the batch"):
        pgig.attribute("gradient", model, torch.randn(2, 2, 5, 5))


def test_layers_other_parameters_and_unused_heads_are_told_apart():
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.positions = nn.Parameter(torch.randn(1, 5, 6))
            self.scale = nn.Parameter(torch.ones(1, 6))
            self.body, self.norm = nn.Linear(6, 6), nn.LayerNorm([5, 6])
            self.lstm, self.head, self.other_head = nn.LSTM(6, 6, batch_first=True), nn.Linear(6, 3), nn.Linear(6, 9)

        def forward(self, x: Tensor) -> Tensor:
            x = self.norm(self.body(x + self.positions) * self.scale)
            return self.head(self.lstm(x)[0].mean(1))

    traced = trace(Model().eval(), torch.randn(2, 5, 6))
    assert list(traced.layers) == ["body", "head"]
    assert traced.hidden == ["lstm.weight_ih_l0", "lstm.weight_hh_l0"]
    assert set(traced.others) == {
        "positions", "scale", "norm", "norm.bias", "body.bias", "head.bias", "lstm.bias_ih_l0", "lstm.bias_hh_l0",
    }  # fmt: skip
    assert traced.unused == ["other_head", "other_head.bias"]


@pytest.mark.parametrize(
    "scale", [lambda m: torch.tensor(0.5).double(), lambda m: m.mask.double(), lambda m: torch.ones(4, 4).double()]
)
def test_constants_leave_a_computed_weight_a_layer(scale):
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head = nn.Linear(4, 4).double(), nn.Linear(4, 2).double()
            self.register_buffer("mask", torch.arange(16).reshape(4, 4) % 3 > 0)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(F.linear(x, self.layer.weight * scale(self), self.layer.bias).relu())

    torch.manual_seed(0)
    model, x = Scaled().eval(), torch.randn(40, 4).double()
    assert list(pgig.estimate_patterns(model, [x])) == ["layer", "head"]
    assert pgig.check(model, x[:2]).covered == 1


def test_what_was_overwritten_is_a_weight_no_more():
    class Overwritten(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.layer = nn.Parameter(torch.randn(1, 3)), nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            y = self.token.expand(len(x), 3).clone()
            y += self.layer(x)
            return F.batch_norm(y, None, None, training=True)

    with pytest.raises(pgig.PgigError, match="statistics of the batch"):
        pgig.attribute("gradient", Overwritten().eval(), torch.randn(4, 3), batch_size="whole")


class Cell(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.cell, self.out = kind(6, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        state = self.cell(x)
        return self.out(state[0] if isinstance(state, tuple) else state)


class Spelled(nn.Module):
    """The first layer by an operation of one's own."""

    def __init__(self, multiply) -> None:
        super().__init__()
        self.w, self.out, self.multiply = nn.Parameter(torch.randn(5, 6)), nn.Linear(5, 3), multiply

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.multiply(x, self.w))


HIDING = {
    **{
        kind.__name__: (lambda kind=kind: Cell(kind), "cell.weight_ih")
        for kind in (nn.LSTMCell, nn.GRUCell, nn.RNNCell)
    },
    "mv": (lambda: Spelled(lambda x, w: torch.stack([torch.mv(w, row) for row in x])), "w"),
    "multi_dot": (lambda: Spelled(lambda x, w: torch.linalg.multi_dot([x, w.t()])), "w"),
    "einsum": (lambda: Spelled(lambda x, w: torch.einsum("ni,oi->no", x, w)), "w"),
}


@pytest.mark.parametrize(("make", "name"), HIDING.values(), ids=HIDING)
def test_products_that_hide_their_weight_are_named(make, name):
    torch.manual_seed(0)
    model, x = make().eval(), torch.randn(40, 6)
    found = pgig.check(model, x[:2])
    assert name in found.unsupported
    assert found.covered < 0.9
    patterns = pgig.estimate_patterns(model, [x])
    with pytest.warns(pgig.PgigWarning, match="left these alone"):
        pgig.attribute("pgig", model, x[:2], 1, patterns=patterns)


@pytest.mark.parametrize(
    "multiply", [lambda x, w: torch.inner(x, w), lambda x, w: torch.linalg.matmul(x, w.t())], ids=["inner", "linalg"]
)
def test_further_spellings_are_layers(multiply):
    torch.manual_seed(0)
    model, x = Spelled(multiply).double().eval(), torch.randn(40, 6).double()
    usual = nn.Sequential(nn.Linear(6, 5, bias=False), nn.Linear(5, 3)).double().eval()
    usual.load_state_dict({"0.weight": model.w.data, "1.weight": model.out.weight.data, "1.bias": model.out.bias.data})
    mine, theirs = pgig.estimate_patterns(model, [x]), pgig.estimate_patterns(usual, [x])
    torch.testing.assert_close(mine["w"], theirs["0"], **EXACT)
    found = pgig.attribute("pgig", model, x[:3], 1, patterns=mine)
    torch.testing.assert_close(found, pgig.attribute("pgig", usual, x[:3], 1, patterns=theirs), **EXACT)


def test_products_of_weights_are_weights():
    """A low-rank update: the layer is the matrix that x is multiplied with, not the product of its factors."""

    class LowRank(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.a, self.b = (nn.Parameter(torch.randn(*s)) for s in ((5, 6), (2, 6), (5, 2)))
            self.out = nn.Linear(5, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.out(F.linear(x, self.w + self.b @ self.a))

    torch.manual_seed(0)
    model, x = LowRank().double().eval(), torch.randn(40, 6).double()
    usual = nn.Sequential(nn.Linear(6, 5, bias=False), nn.Linear(5, 3)).double().eval()
    weight = (model.w + model.b @ model.a).data
    usual.load_state_dict({"0.weight": weight, "1.weight": model.out.weight.data, "1.bias": model.out.bias.data})
    assert set(trace(model, x).layers) == {"w", "out"}
    mine, theirs = pgig.estimate_patterns(model, [x]), pgig.estimate_patterns(usual, [x])
    torch.testing.assert_close(mine["w"], theirs["0"], **EXACT)
    found = pgig.attribute("pgig", model, x[:3], 1, patterns=mine)
    torch.testing.assert_close(found, pgig.attribute("pgig", usual, x[:3], 1, patterns=theirs), **EXACT)


def test_all_parameters_of_a_joined_weight_are_named():
    class Joined(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k = nn.Parameter(torch.randn(3, 6)), nn.Parameter(torch.randn(2, 6))
            self.out = nn.Linear(5, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.out(F.linear(x, torch.cat([self.q, self.k])))

    found = pgig.check(Joined().eval(), torch.randn(2, 6))
    assert set(found.unsupported) == {"q", "k"}
