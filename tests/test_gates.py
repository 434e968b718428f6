"""Gates: rectifiers in every spelling obey guided backpropagation, soft ones when asked."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pgig
from pgig.network.trace import trace

EXACT = {"rtol": 1e-12, "atol": 1e-14}

HARD = {
    "F.relu": F.relu,
    "Tensor.relu": lambda x: x.relu(),
    "relu_": lambda x: x.clone().relu_(),
    "nn.ReLU in place": nn.ReLU(inplace=True),
    "nn.ReLU6": nn.ReLU6(),
    "nn.ReLU6 in place": nn.ReLU6(inplace=True),
    "clamp min": lambda x: x.clamp(min=0),
    "clamp both": lambda x: x.clamp(0, 0.7),
    "clamp_": lambda x: x.clone().clamp_(0, 0.7),
    "clip": lambda x: torch.clip(x, min=0.0),
    "clamp_min": lambda x: torch.clamp_min(x, 0),
    "clamp with a tensor": lambda x: torch.clamp(x, min=torch.tensor(0.0)),
    "nn.Hardtanh": nn.Hardtanh(0, 0.5),
    "nn.Hardtanh in place": nn.Hardtanh(0, 0.5, inplace=True),
    "nn.Threshold": nn.Threshold(0.2, 0),
    "maximum": lambda x: torch.maximum(x, torch.zeros(())),
    "maximum turned": lambda x: torch.maximum(torch.zeros_like(x), x),
    "torch.max": lambda x: torch.max(x, torch.zeros_like(x)),
}
SOFT = {
    "leaky_relu": nn.LeakyReLU(),
    "leaky_relu in place": nn.LeakyReLU(inplace=True),
    "prelu": nn.PReLU().double(),
    "rrelu": nn.RReLU().eval(),
    "elu": nn.ELU(),
    "selu": nn.SELU(),
    "celu": nn.CELU(),
    "silu": nn.SiLU(),
    "silu in place": nn.SiLU(inplace=True),
    "gelu": nn.GELU(),
    "gelu tanh": nn.GELU("tanh"),
    "hardswish": nn.Hardswish(),
    "mish": nn.Mish(),
}
NO_GATES = {
    "clamp": lambda x: x.clamp(-1, 1),
    "clamp_min": lambda x: torch.clamp_min(x, 0.1),
    "hardtanh": nn.Hardtanh(),
    "threshold": nn.Threshold(0.2, 1),
    "sigmoid": nn.Sigmoid(),
    "tanh": nn.Tanh(),
}


class Between(nn.Module):
    """A gate between two layers; `naive` is guided backpropagation the slow way, by a hook."""

    def __init__(self, gate) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two = nn.Linear(6, 12).double(), nn.Linear(12, 4).double()
        self.gate = gate

    def forward(self, x: Tensor) -> Tensor:
        return self.two(self.gate(self.one(x)))

    def naive(self, x: Tensor, target: int, soft: bool) -> Tensor:
        leaf = x.clone().requires_grad_()
        inside = self.one(leaf)
        sign = inside.detach() > 0
        gated = self.gate(inside * 1)
        gated.register_hook(lambda gradient: gradient.clamp(min=0) * (sign if soft else 1))
        score = self.two(gated)[:, target]
        (gradient,) = torch.autograd.grad(score, leaf, score.detach())
        return gradient


def rows() -> Tensor:
    return torch.randn(5, 6, generator=torch.Generator().manual_seed(1)).double()


@pytest.mark.parametrize("gate", HARD.values(), ids=HARD)
def test_guided_backpropagation_acts_on_every_rectifier(gate):
    model, x = Between(gate).eval(), rows()
    guided = pgig.attribute("guided_backprop", model, x, 1, score="logit")
    torch.testing.assert_close(guided, model.naive(x, 1, soft=False), **EXACT)
    assert not torch.equal(guided, pgig.attribute("gradient", model, x, 1, score="logit", start="score"))


@pytest.mark.parametrize("gate", SOFT.values(), ids=SOFT)
def test_soft_gates_are_left_alone_and_named_until_asked_for(gate):
    model, x = Between(gate).eval(), rows()
    with pytest.raises(pgig.PgigError, match=r"no rectifier to act on; \w+ keep their plain gradient: give soft_gates"):
        pgig.attribute("guided_backprop", model, x, 1)
    guided = pgig.attribute("guided_backprop", model, x, 1, score="logit", soft_gates=True)
    torch.testing.assert_close(guided, model.naive(x, 1, soft=True), **EXACT)


def test_both_kinds_of_guidance_share_a_forward_pass():
    model = nn.Sequential(Between(nn.GELU()), nn.ReLU6(), nn.Linear(4, 3).double()).eval()
    method = pgig.METHODS["guided_backprop"]
    table = {"hard": method, "soft": method.with_options(soft_gates=True)}
    with pytest.warns(pgig.PgigWarning, match="left these activations alone: gelu") as caught:
        both = pgig.attribute_all(table, model, rows(), 1)
    assert len(caught) == 1  # the soft one left none
    assert not torch.equal(both["hard"], both["soft"])
    torch.testing.assert_close(
        both["soft"], pgig.attribute("guided_backprop", model, rows(), 1, soft_gates=True), **EXACT
    )


@pytest.mark.parametrize("gate", [*HARD.values(), *SOFT.values()], ids=[*HARD, *SOFT])
def test_gates_keep_their_values_and_their_plain_gradients(gate):
    model, x = Between(gate).eval(), rows()
    with torch.no_grad():
        model.one.bias[:3], model.one.weight[:3] = torch.tensor([0.0, 6.0, 0.7]), 0  # at the very edges too
    ones = {"one": torch.ones(12, 6), "two": torch.ones(4, 12)}
    table = {
        "gradient": pgig.METHODS["gradient"],
        "pattern": pgig.METHODS["pattern_attribution"].with_options(start="one"),
        "guided": pgig.METHODS["guided_backprop"].with_options(soft_gates=True),
    }
    found = pgig.attribute_all(table, model, x, 1, patterns=ones, score="logit")
    leaf = x.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(model(leaf)[:, 1].sum(), leaf)
    torch.testing.assert_close(found["gradient"], wanted, **EXACT)
    torch.testing.assert_close(found["pattern"], wanted, **EXACT)


@pytest.mark.parametrize("gate", [*HARD.values(), *SOFT.values()], ids=[*HARD, *SOFT])
def test_layers_before_a_gate_are_positive(gate):
    traced = trace(Between(gate).eval(), rows())
    assert traced.layers["one"].is_rectified
    assert not traced.layers["two"].is_rectified


@pytest.mark.parametrize("activation", NO_GATES.values(), ids=NO_GATES)
def test_what_is_no_gate_is_none(activation):
    model = nn.Sequential(nn.Linear(6, 6).double(), nn.ReLU(), Between(activation)).eval()
    traced = trace(model, rows())
    assert traced.layers["0"].is_rectified
    assert not traced.layers["2.one"].is_rectified
    with pytest.warns(pgig.PgigWarning, match="left these activations alone"):
        pgig.attribute("guided_backprop", model, rows(), 1)


def same_pool(x: Tensor) -> Tensor:
    """As TensorFlow pads before its max pools."""
    return F.max_pool2d(F.pad(x, (0, 1, 0, 1), value=-float("inf")), 3, 2)


@pytest.mark.parametrize(
    "pool", [nn.MaxPool2d(2), nn.AdaptiveMaxPool2d(4), same_pool], ids=["pool", "adaptive", "same"]
)
@pytest.mark.parametrize("order", ["norm first", "pool first"])
def test_a_norm_and_a_max_pool_may_lie_before_the_gate(pool, order):
    class Stem(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm, self.head = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 3)
            nn.init.uniform_(self.norm.weight, 0.5, 2)

        def forward(self, x: Tensor) -> Tensor:
            y = self.conv(x)
            y = pool(self.norm(y)) if order == "norm first" else self.norm(pool(y))
            return self.head(y.relu().mean((2, 3)))

    torch.manual_seed(0)
    model, x = Stem().eval(), torch.randn(40, 2, 10, 10)
    layer = trace(model, x[:1]).layers["conv"]
    assert layer.is_rectified
    assert layer.norm is not None
    # with the norm folded in, w.p = 1: patternnet passes over the norm, which is as if the norm were in the weight
    patterns = pgig.estimate_patterns(model, [x])
    folded = Stem().eval()
    folded.load_state_dict(model.state_dict())
    factor = model.norm.weight / (model.norm.running_var + model.norm.eps).sqrt()
    with torch.no_grad():
        folded.conv.weight *= factor[:, None, None, None]
        folded.conv.bias *= factor
        folded.norm.weight[:] = (folded.norm.running_var + folded.norm.eps).sqrt()
    same = pgig.estimate_patterns(folded, [x])
    for name in patterns:
        torch.testing.assert_close(patterns[name], same[name], rtol=1e-4, atol=1e-5)
    found, wanted = (
        pgig.attribute("patternnet", m, x[:2], 1, patterns=p) for m, p in ((model, patterns), (folded, same))
    )
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-6)
