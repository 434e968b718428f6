"""Against Captum itself, and as Captum's users would call it."""

import captum.attr
import pytest
import torch
from networks import NETWORKS, images, network, patterns_of_ones, random_patterns
from torch import nn

import pgig
import pgig.captum as ours
from pgig.captum.base import Attribution
from pgig.draws import draws
from pgig.methods.points import Ball, Example

TIGHT = {"rtol": 0, "atol": 1e-10}
pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning")  # Captum says that it sets requires_grad and hooks


@pytest.mark.parametrize("net", NETWORKS)
def test_gradients_agree(net):
    model, x, target = network(net), images(), torch.tensor([0, 3, 2])
    for mine, theirs in [
        (ours.Saliency(model), captum.attr.Saliency(model)),
        (ours.InputXGradient(model), captum.attr.InputXGradient(model)),
    ]:
        torch.testing.assert_close(mine.attribute(x, target=target), theirs.attribute(x, target=target), **TIGHT)  # type: ignore[attr-defined]
    signed = captum.attr.Saliency(model).attribute(x, target=1, abs=False)
    torch.testing.assert_close(ours.Saliency(model).attribute(x, target=1, abs=False), signed, **TIGHT)
    torch.testing.assert_close(pgig.attribute("gradient", model, x, 1, score="logit"), signed, **TIGHT)


def relu_modules() -> nn.Module:
    """Captum's guided backpropagation wants every ReLU to be a module of its own, and not in place."""
    torch.manual_seed(0)
    return (
        nn.Sequential(
            nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 8, 3, stride=2, groups=2), nn.ReLU(), nn.Flatten(),
            nn.Linear(72, 20), nn.ReLU(), nn.Linear(20, 5),
        ).double().eval()
    )  # fmt: skip


def test_guided_backpropagation_agrees():
    model, x = relu_modules(), images()
    theirs = captum.attr.GuidedBackprop(model).attribute(x, target=1)
    torch.testing.assert_close(ours.GuidedBackprop(model).attribute(x, target=1), theirs, **TIGHT)


@pytest.mark.parametrize("method", ["gausslegendre", "riemann_right", "riemann_left", "riemann_middle"])
@pytest.mark.parametrize("net", NETWORKS)
def test_integrated_gradients_agree(net, method):
    model, x, x0 = network(net), images(), images(1, seed=5)
    call = {"baselines": x0, "target": [1, 0, 4], "method": method, "n_steps": 12, "internal_batch_size": 5}
    mine = ours.IntegratedGradients(model).attribute(x, **call, return_convergence_delta=True)
    call["baselines"] = x0.expand_as(x)
    theirs = captum.attr.IntegratedGradients(model).attribute(x, **call, return_convergence_delta=True)
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-6)  # Captum rounds its step sizes to float32
    bare = ours.IntegratedGradients(model, multiply_by_inputs=False).attribute(x, **call)
    bare_theirs = captum.attr.IntegratedGradients(model, multiply_by_inputs=False).attribute(x, **call)
    torch.testing.assert_close(bare, bare_theirs, rtol=0, atol=1e-6)


def test_defaults_are_captums():
    model, x = network("chain"), images()
    mine, theirs = (package.IntegratedGradients(model).attribute(x, target=1) for package in (ours, captum.attr))
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("nt_type", "name"), [("smoothgrad", "smoothgrad"), ("smoothgrad_sq", "smoothgrad_squared"), ("vargrad", "vargrad")]
)
def test_noisy_methods_agree_given_the_same_noise(monkeypatch, nt_type, name):
    model, x = network("chain"), images(2)
    points = Ball(25, 0.15)
    noise = torch.cat(
        [points.take(Example(row, row, None), draws(0, i, points), 0, 25).at - row for i, row in enumerate(x)]
    )
    monkeypatch.setattr(torch, "normal", lambda *args, **kwargs: noise)
    tunnel = captum.attr.NoiseTunnel(captum.attr.Saliency(model))
    theirs = tunnel.attribute(x, nt_type=nt_type, nt_samples=25, stdevs=1.0, target=1, abs=False)
    torch.testing.assert_close(pgig.attribute(name, model, x, 1, score="logit"), theirs, **TIGHT)


def test_a_tuple_of_inputs_and_further_arguments():
    def forward(a, b, factor, shift):
        return (a.pow(2).sum((1, 2), keepdim=False) + b.exp().sum(1)).unsqueeze(1) * factor + shift

    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(3, *s, generator=generator).double() for s in ((2, 4), (5,)))
    call = {"target": 0, "additional_forward_args": (torch.tensor([[1.0], [2.0], [3.0]]).double(), 0.5), "n_steps": 20}
    mine, theirs = (
        package.IntegratedGradients(forward).attribute((a, b), **call, return_convergence_delta=True)
        for package in (ours, captum.attr)
    )
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-6)


def test_no_target_means_a_single_output():
    model, x = network("chain"), images()
    mine = ours.IntegratedGradients(lambda x: model(x)[:, 2]).attribute(x)
    torch.testing.assert_close(mine, ours.IntegratedGradients(model).attribute(x, target=2))
    with pytest.raises(pgig.PgigError, match="one scalar per input"):
        ours.IntegratedGradients(model).attribute(x)
    with pytest.raises(pgig.PgigError, match="unknown method 'simpson'"):
        ours.IntegratedGradients(model).attribute(x, target=1, method="simpson")


def test_pattern_methods_take_the_same_call():
    model, x = network("chain"), images()
    call = {"baselines": 0.1, "target": 1, "n_steps": 10, "method": "riemann_right"}
    ones = ours.PGIG(model, patterns_of_ones(model)).attribute(x, **call)
    torch.testing.assert_close(ones, ours.IntegratedGradients(model).attribute(x, **call), **TIGHT)
    p = random_patterns(model)
    attributions, delta = ours.PGIG(model, p, start="score").attribute(x, **call, return_convergence_delta=True)
    direct = pgig.attribute("pgig", model, x, 1, patterns=p, steps=10, baseline=0.1, score="logit", start="score")
    torch.testing.assert_close(attributions, direct, **TIGHT)
    torch.testing.assert_close(delta, pgig.completeness(direct, model, x, 1, score="logit", baseline=0.1))
    for name, cls in [("pattern_attribution", ours.PatternAttribution), ("patternnet", ours.PatternNet)]:
        direct = pgig.attribute(name, model, x, 1, patterns=p, score="logit", start="one")
        torch.testing.assert_close(cls(model, p).attribute(x, target=1), direct, **TIGHT)  # type: ignore[attr-defined]
    bare = ours.IntegratedPatternAttribution(model, p)
    assert not bare.multiplies_by_inputs
    torch.testing.assert_close(bare.attribute(x, **call), ours.PGIG(model, p, False).attribute(x, **call), **TIGHT)


def test_the_noisy_classes_are_the_methods():
    model, x = network("chain"), images()
    for cls, name in [
        (ours.SmoothGrad, "smoothgrad"), (ours.SmoothGradSquared, "smoothgrad_squared"), (ours.VarGrad, "vargrad"),
        (ours.SmoothTaylor, "smooth_taylor"), (ours.Random, "random"),
    ]:  # fmt: skip
        direct = pgig.attribute(name, model, x, 1, score="logit")
        torch.testing.assert_close(cls(model, seed=0).attribute(x, target=1), direct, **TIGHT)
    paper = {"n_steps": 25, "method": "riemann_right"}
    direct = pgig.attribute("smoothgrad_ig", model, x, 1, score="logit")
    torch.testing.assert_close(ours.SmoothGradIG(model, seed=0).attribute(x, target=1, **paper), direct, **TIGHT)


def test_noise_tunnel_and_gradient_shap_converge_to_what_they_estimate():
    model, x = network("chain"), images(2)
    quiet = ours.NoiseTunnel(ours.Saliency(model)).attribute(x, stdevs=0.0, target=[1, 2])
    torch.testing.assert_close(quiet, ours.Saliency(model).attribute(x, target=[1, 2]), **TIGHT)
    state = torch.get_rng_state()
    tunnel = ours.NoiseTunnel(ours.Saliency(model), seed=0)
    whole = tunnel.attribute(x, "vargrad", 40, stdevs=0.5, target=torch.tensor([1, 2]), abs=False)
    assert torch.equal(torch.get_rng_state(), state)
    usual = pgig.attribute("vargrad", model, x, [1, 2], samples=4000, variance=0.25, score="logit")
    assert (whole - usual).norm() / usual.norm() < 0.4
    reference = images(1, seed=4)
    shap = ours.GradientShap(model, seed=0).attribute(x, reference, n_samples=2000, target=1)
    ig = ours.IntegratedGradients(model).attribute(x, reference, target=1)
    assert (shap - ig).norm() / ig.norm() < 0.1
    with pytest.raises(pgig.PgigError, match="nt_type"):
        tunnel.attribute(x, "median", target=1)


def test_the_whole_method_table_is_here():
    """Every method has a class; Captum has some of them under other names."""
    named = {
        cls.name: cls
        for cls in vars(ours).values()
        if isinstance(cls, type)
        and issubclass(cls, Attribution)
        and cls.__name__ in ours.__all__
        and hasattr(cls, "name")
    }
    assert pgig.METHODS.keys() - {"random"} <= named.keys()
    assert set(named) <= pgig.METHODS.keys()
    for cls in named.values():
        assert getattr(ours, cls.__name__) is cls
