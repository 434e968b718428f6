"""What Captum's users do beyond one tensor and one class: deltas, seeds, layers, whole batches, errors."""

from typing import Any

import captum.attr
import pytest
import torch
from networks import NETWORKS, images, network
from torch import Tensor, nn

import pgig
import pgig.captum as ours
from pgig.captum.errors import CaptumError
from pgig.explainers import window_outputs

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning")  # Captum says that it sets requires_grad and hooks
CLOSE = {"rtol": 0, "atol": 1e-6}  # Captum rounds its step sizes to float32
BOTH = ours, captum.attr


def small() -> nn.Module:
    torch.manual_seed(0)
    made = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 5, 2), nn.ReLU(), nn.Flatten(), nn.Linear(20, 5)
    )
    return made.double().eval()


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.other, self.relu, self.last = nn.Linear(4, 6), nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 3)
        self.double().eval()

    def forward(self, a: Tensor, b: Tensor, factor: float = 1) -> Tensor:
        return self.last(self.relu(self.one(a) + factor * self.other(b)))


def pair(count: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(count, 4, generator=generator).double(), torch.randn(count, 3, generator=generator).double()


def test_noise_tunnels_give_the_deltas_of_all_draws():
    model, x = small(), images(2)
    tunnel = ours.NoiseTunnel(ours.IntegratedGradients(model), seed=5)
    call = {"nt_samples": 3, "stdevs": 0.2, "target": [1, 2], "n_steps": 8}
    found, delta = tunnel.attribute(x, **call, return_convergence_delta=True)
    assert delta.shape == (6,)
    torch.testing.assert_close(found, tunnel.attribute(x, **call))
    # the same noise, one draw at a time: the deltas come input by input, and all draws of each
    noisy = []

    class Watching(ours.IntegratedGradients):
        def attribute(self, inputs, **given):  # type: ignore[override]
            noisy.append(inputs)
            return super().attribute(inputs, **given)

    ours.NoiseTunnel(Watching(model), seed=5).attribute(x, **call)
    assert noisy[0].shape == (6, *x.shape[1:])
    each = ours.IntegratedGradients(model).attribute(
        noisy[0], target=[1, 1, 1, 2, 2, 2], n_steps=8, return_convergence_delta=True
    )
    torch.testing.assert_close(delta, each[1])
    torch.testing.assert_close(found, each[0].reshape(2, 3, *x.shape[1:]).mean(1))
    pieces = tunnel.attribute(x, **call, nt_samples_batch_size=2, return_convergence_delta=True)
    assert pieces[1].shape == (6,)
    with pytest.raises(CaptumError, match="Saliency has no convergence delta"):
        ours.NoiseTunnel(ours.Saliency(model)).attribute(x, target=1, return_convergence_delta=True)


def test_gradient_shap_gives_the_deltas_of_all_draws_and_takes_functions():
    model, x, x0 = small(), images(2), images(4, seed=9)
    shap = ours.GradientShap(model, seed=2)
    found, delta = shap.attribute(x, x0, n_samples=5, target=1, return_convergence_delta=True)
    assert (found.shape, delta.shape) == (x.shape, (10,))
    for baselines in (lambda: x0, lambda inputs: x0 if inputs is x else None):
        torch.testing.assert_close(shap.attribute(x, baselines, n_samples=5, target=1), found)
    # of a linear model every draw is complete
    line = nn.Sequential(nn.Flatten(), nn.Linear(192, 3)).double().eval()
    _, delta = ours.GradientShap(line).attribute(x, x0, target=0, return_convergence_delta=True, stdevs=0.3)
    assert delta.abs().max() < 1e-12
    # each draw has a baseline of its own, drawn among those given
    seen: list[Tensor] = []

    class Watching(ours.IntegratedGradients):
        def attribute(self, inputs, baselines, **given):  # type: ignore[override]
            seen.append(baselines)
            return super().attribute(inputs, baselines, **given)

    ours.NoiseTunnel(Watching(model)).attribute(
        x, nt_samples=6, draw_baseline_from_distrib=True, baselines=x0, target=1, n_steps=2
    )
    rows = {tuple(row.flatten().tolist()) for row in seen[0]}
    assert len(seen[0]) == 12
    assert 1 < len(rows) <= 4
    assert rows <= {tuple(row.flatten().tolist()) for row in x0}


DRAWING = {
    "noise tunnel": lambda model, **seed: ours.NoiseTunnel(ours.Saliency(model), **seed),
    "gradient shap": lambda model, **seed: ours.GradientShap(model, **seed),
    "smoothgrad": lambda model, **seed: ours.SmoothGrad(model, **seed),
    "smoothgrad ig": lambda model, **seed: ours.SmoothGradIG(model, nt_samples=3, **seed),
    "expected gradients": lambda model, **seed: ours.ExpectedGradients(model, **seed),
    "random": lambda model, **seed: ours.Random(model, **seed),
}


@pytest.mark.parametrize("make", DRAWING.values(), ids=DRAWING)
def test_seeds_come_from_torch_unless_they_are_given(make):
    model, x = small(), images(2)
    call = {"target": 1, **({"baselines": images(3, seed=4)} if "baselines" in make_names(make(model)) else {})}
    torch.manual_seed(1)
    first, second = make(model).attribute(x, **call), make(model).attribute(x, **call)
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    torch.testing.assert_close(make(model).attribute(x, **call), first, rtol=0, atol=0)
    state = torch.get_rng_state()
    fixed = [make(model, seed=3).attribute(x, **call) for _ in range(2)]
    assert torch.equal(*fixed)
    assert torch.equal(torch.get_rng_state(), state)


def make_names(attribution: ours.Attribution) -> tuple[str, ...]:
    from inspect import signature

    parameters = signature(attribution.attribute).parameters.values()
    return tuple(p.name for p in parameters if p.default is p.empty)


def test_forward_functions_of_whole_batches():
    """Labels of the batch, mixed rows, one number for all, no batch axis: what Captum does with them."""
    model, x = small(), images(3)
    labels = torch.tensor([0, 3, 2])
    forwards = {
        "labels": lambda x: model(x).gather(1, labels[: len(x), None])[:, 0],
        "mixes rows": lambda x: (model(x) - model(x).mean(0))[:, 1],
        "one number": lambda x: model(x)[:, 1].sum().reshape(1),
    }
    for name, forward in forwards.items():
        mine, theirs = (package.Saliency(forward).attribute(x, abs=False) for package in BOTH)
        torch.testing.assert_close(mine, theirs, msg=name)
    summed = ours.Saliency(lambda x: model(x)[:, 1].sum()).attribute(x)
    torch.testing.assert_close(summed, ours.Saliency(model).attribute(x, target=1))
    # a path: all inputs at the same place
    mine = ours.IntegratedGradients(forwards["one number"]).attribute(x, n_steps=6)
    torch.testing.assert_close(mine, ours.IntegratedGradients(model).attribute(x, target=1, n_steps=6))
    vector = torch.tensor([1.0, 2.0, 3.0])  # no batch axis
    found = ours.InputXGradient(lambda v: (v**2).sum()).attribute(vector)
    torch.testing.assert_close(found, 2 * vector**2)


def test_arguments_of_every_kind():
    model, (a, b) = TwoInputs(), pair()

    def by_dict(a: Tensor, settings: dict[str, Tensor]) -> Tensor:
        return model(a, settings["b"])

    mine, theirs = (
        package.IntegratedGradients(by_dict).attribute(a[:1], target=1, additional_forward_args={"b": b[:1]}, n_steps=9)
        for package in BOTH
    )
    torch.testing.assert_close(mine, theirs, **CLOSE)
    mine, theirs = (package.Saliency(model).attribute((a, b), target=-1) for package in BOTH)
    torch.testing.assert_close(mine, theirs)
    for target in ([-1, 0, -3], torch.tensor([-1, 0, -3])):
        counted = ours.Saliency(model).attribute((a, b), target=target)
        torch.testing.assert_close(counted, ours.Saliency(model).attribute((a, b), target=[2, 0, 0]))
    # members of different dtypes
    half = lambda a, b: model(a.double(), b)  # noqa: E731
    mine, theirs = (package.InputXGradient(half).attribute((a.float(), b), target=1) for package in BOTH)
    torch.testing.assert_close(mine, theirs)
    assert [part.dtype for part in mine] == [torch.float32, torch.float64]
    # whole numbers become floating point ones on a path
    whole = torch.tensor([[1, -2, 3, 0]])
    float_model = lambda a: model(a.double(), b[:1])  # noqa: E731
    mine, theirs = (package.IntegratedGradients(float_model).attribute(whole, target=1) for package in BOTH)
    torch.testing.assert_close(mine.double(), theirs.double(), **CLOSE)


def test_captums_noise_tunnel_can_hold_ours():
    model, x = small(), images(2)
    quiet = captum.attr.NoiseTunnel(ours.IntegratedGradients(model)).attribute(
        x, stdevs=0.0, nt_samples=2, target=1, n_steps=7
    )
    torch.testing.assert_close(quiet, ours.IntegratedGradients(model).attribute(x, target=1, n_steps=7))


CLASSES = [getattr(ours, name) for name in ours.__all__]


@pytest.mark.parametrize("cls", CLASSES, ids=ours.__all__)
def test_every_class_is_an_attribution_like_captums(cls):
    assert issubclass(cls, ours.Attribution)
    made = cls.__new__(cls)
    if cls is ours.Attribution:
        return
    with pytest.raises(NotImplementedError, match=f"not implemented for {cls.__name__}"):
        made.attribute_future()
    if hasattr(captum.attr, cls.__name__):
        theirs = getattr(captum.attr, cls.__name__)
        assert cls.get_name() == theirs.get_name()
        if cls is not ours.Attribution:
            assert hasattr(cls.attribute, "__wrapped__")
            from inspect import signature

            wanted = [name for name in signature(theirs.attribute).parameters if name != "kwargs"]
            found = list(signature(cls.attribute).parameters)
            assert [name for name in found if name in wanted] == wanted  # the same, in the same order


def test_errors_are_assertions_too():
    model, x = small(), images()
    for call in (
        lambda: ours.IntegratedGradients(model).attribute(x),  # no target
        lambda: ours.IntegratedGradients(model).attribute(x, target=9),
        lambda: ours.NoiseTunnel(ours.Saliency(model)).attribute(x, nt_type="median", target=1),
        lambda: ours.Occlusion(model).attribute(x, (3, 99, 3), target=1),
        lambda: ours.LayerActivation(model, nn.ReLU()).attribute(x),
        lambda: ours.FeatureAblation(model).attribute(x, target=1, perturbations_per_eval=0),
    ):
        with pytest.raises(AssertionError) as caught:
            call()
        assert isinstance(caught.value, pgig.PgigError)
        assert "\n" not in str(caught.value)


LAYERED: dict[str, dict[str, Any]] = {
    "LayerActivation": {},
    "LayerGradientXActivation": {"target": [1, 0, 4]},
    "LayerIntegratedGradients": {"target": 1, "n_steps": 9},
    "LayerConductance": {"target": 1, "n_steps": 9},
    "InternalInfluence": {"target": 1, "n_steps": 9},
}


@pytest.mark.parametrize("name", LAYERED)
@pytest.mark.parametrize("layer", [0, 1, 2, 4])
@pytest.mark.parametrize("at_input", [False, True])
def test_layers_agree(name, layer, at_input):
    model, x = small(), images()
    call = dict(LAYERED[name], attribute_to_layer_input=at_input)
    if name != "LayerActivation" and "n_steps" in call:
        call["baselines"] = images(3, seed=8)
    mine, theirs = (getattr(package, name)(model, model[layer]).attribute(x, **call) for package in BOTH)
    torch.testing.assert_close(mine, theirs.detach(), **CLOSE)
    if name in ("LayerIntegratedGradients", "LayerConductance"):
        deltas = [
            getattr(package, name)(model, model[layer]).attribute(x, **call, return_convergence_delta=True)[1]
            for package in BOTH
        ]
        torch.testing.assert_close(deltas[0], deltas[1].detach().double(), rtol=0, atol=1e-5)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_several_inputs_and_several_layers():
    model, inputs = TwoInputs(), pair()
    layers = [model.one, model.other]
    mine, theirs = (
        package.LayerIntegratedGradients(model, layers).attribute(
            inputs, target=1, n_steps=9, additional_forward_args=(0.5,)
        )
        for package in BOTH
    )
    torch.testing.assert_close([*mine], [part.detach() for part in theirs], **CLOSE)
    mine, theirs = (package.LayerActivation(model, layers).attribute(inputs) for package in BOTH)
    torch.testing.assert_close([*mine], [part.detach() for part in theirs])


@pytest.mark.parametrize("net", NETWORKS)
def test_occlusion_agrees(net):
    model, x = network(net), images()
    call = {"strides": (3, 2, 3), "target": torch.tensor([1, 0, 4]), "baselines": 0.3}
    mine, theirs = (package.Occlusion(model).attribute(x, (3, 4, 3), **call) for package in BOTH)
    torch.testing.assert_close(mine, theirs.to(mine), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("window", "strides"), [((1, 3, 4), (1, 2, 3)), ((2, 8, 8), (1, 8, 8)), ((3, 8, 2), None)], ids=str
)
@pytest.mark.parametrize("at_once", [1, 4])
def test_occlusion_of_any_window_agrees(window, strides, at_once):
    model, x, x0 = small(), images(2), images(2, seed=4)
    call = {"strides": strides, "target": 1, "baselines": x0, "perturbations_per_eval": at_once}
    mine, theirs = (package.Occlusion(model).attribute(x, window, **call) for package in BOTH)
    torch.testing.assert_close(mine, theirs.to(mine), rtol=0, atol=1e-6)


def test_occlusion_of_several_inputs_agrees():
    model, inputs = TwoInputs(), pair()
    call = {"strides": ((1,), (2,)), "target": 1, "baselines": (0.1, 0), "additional_forward_args": 2.0}
    mine, theirs = (package.Occlusion(model).attribute(inputs, ((2,), (2,)), **call) for package in BOTH)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other.to(one), rtol=0, atol=1e-6)


def test_occlusion_goes_by_what_windows_reach(monkeypatch):
    """The incremental engine is used where it can be, and gives what whole forward passes give."""
    asked = []
    covered = window_outputs.covered_outputs  # type: ignore[attr-defined]

    def watched(*given):
        asked.append(len(given[2]))
        return covered(*given)

    monkeypatch.setattr(window_outputs, "covered_outputs", watched)
    model, x = small(), images(2)
    fast = ours.Occlusion(model).attribute(x, (3, 2, 2), (3, 1, 1), target=1)
    assert asked == [49, 49]
    slow = ours.Occlusion(lambda x: model(x)).attribute(x, (3, 2, 2), (3, 1, 1), target=1)
    assert len(asked) == 2
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-6)


MASKS = {
    "none": None,
    "groups": (torch.tensor([[0, 0, 1, 1]]), torch.tensor([[2, 2, 3]])),
    "across tensors": (torch.tensor([[0, 0, 1, 1]]), torch.tensor([[1, 2, 2]])),
    "for each row": (torch.tensor([[0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 1]]), torch.tensor([[2, 2, 3]])),
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("at_once", [1, 3])
def test_feature_ablation_agrees(mask, at_once):
    model, inputs = TwoInputs(), pair()
    call = {"target": [1, 0, 2], "feature_mask": mask, "perturbations_per_eval": at_once, "baselines": (0.2, 0)}
    mine, theirs = (package.FeatureAblation(model).attribute(inputs, **call) for package in BOTH)
    torch.testing.assert_close(mine, theirs)
    total = lambda a, b: model(a, b).sum()  # noqa: E731
    if at_once == 1 and (mask is None or len(mask[0]) == 1):
        mine, theirs = (package.FeatureAblation(total).attribute(inputs, feature_mask=mask) for package in BOTH)
        torch.testing.assert_close(mine, theirs)
    else:
        with pytest.raises(CaptumError, match="does not grow with its batch"):
            ours.FeatureAblation(total).attribute(inputs, feature_mask=mask, perturbations_per_eval=3)


def test_places_are_what_modules_give():
    """A module that does more than its weight, or uses it in its own way, is taken as Captum takes it."""

    class Twice(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * 2 + 1

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(5, 4))

        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.linear(x, self.weight).relu()

    class Shift(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(1, 4))

        def forward(self, x: Tensor) -> Tensor:
            return x + self.weight

    torch.manual_seed(0)
    tied = nn.Linear(4, 4)
    again = nn.Linear(4, 4)
    again.weight = tied.weight
    x = pair()[0]
    for first in (Twice(4, 5), Own(), Shift(), nn.Sequential(tied, nn.Tanh(), again)):
        width = 4 if isinstance(first, Shift | nn.Sequential) else 5
        model = nn.Sequential(nn.Tanh(), first, nn.Tanh(), nn.Linear(width, 3)).double().eval()
        layer = first[0] if isinstance(first, nn.Sequential) else first
        for name in ("LayerActivation", "LayerGradientXActivation", "LayerIntegratedGradients"):
            call = {} if name == "LayerActivation" else {"target": 1}
            mine, theirs = (getattr(package, name)(model, layer).attribute(x, **call) for package in BOTH)
            torch.testing.assert_close(mine, theirs.detach(), **CLOSE)
    itself = ours.LayerActivation(model, model).attribute(x)
    torch.testing.assert_close(itself, model(x).detach())


def test_lists_are_arguments_like_others():
    class Weighted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.a, self.b = nn.Linear(4, 5), nn.Linear(5, 3)

        def forward(self, x: Tensor, factors: list[float]) -> Tensor:
            return self.b(self.a(x).relu()) * sum(factors)

    model, x = Weighted().double().eval(), pair(2)[0]
    call = {"target": [1, 0], "additional_forward_args": ([1.0, 2.0],)}
    for name in ("LayerConductance", "InternalInfluence"):
        mine, theirs = (getattr(package, name)(model, model.a).attribute(x, n_steps=7, **call) for package in BOTH)
        torch.testing.assert_close(mine, theirs.detach(), **CLOSE)
    mine, theirs = (package.FeatureAblation(model).attribute(x, perturbations_per_eval=2, **call) for package in BOTH)
    torch.testing.assert_close(mine, theirs)
    quiet = ours.NoiseTunnel(ours.Saliency(model)).attribute(x, stdevs=0.0, **call)
    torch.testing.assert_close(quiet, ours.Saliency(model).attribute(x, **call))


def test_what_was_sound_is_looked_at_again_when_the_model_changes():
    """Another argument, another mode, another module, a hook: rows are mixed from then on, and that is noticed."""

    class Mixing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mixes = False

        def forward(self, x: Tensor, mix: bool = False) -> Tensor:
            return x - x.mean(0) if mix or (self.training and self.mixes) else x * 1

    def found(model: nn.Module, **given: Any) -> None:
        pgig.attribute("integrated_gradients", model, pair()[0], 1, score="logit", steps=3, **given)

    first = Mixing().eval()
    found(first)
    with pytest.raises(pgig.PgigError, match="depends on the others"):
        found(first, forward_args=(True,))
    first.mixes = True
    found(first)
    first.train()
    with pytest.raises(pgig.PgigError, match="depends on the others"):
        found(first)
    second = nn.Sequential(nn.Identity(), nn.Identity())
    found(second)
    hook = second[0].register_forward_hook(lambda module, args, output: output - output.mean(0))
    with pytest.raises(pgig.PgigError, match="depends on the others"):
        found(second)
    hook.remove()
    found(second)
    second[1] = Mixing()
    second[1].mixes = True  # type: ignore[assignment]
    with pytest.raises(pgig.PgigError, match="depends on the others"):
        found(second)


def test_rows_that_are_mixed_before_a_layer_are_noticed():
    class Normed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.a, self.b = nn.Linear(4, 5), nn.Linear(5, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.b(self.a((x - x.mean(0)) / x.std(0)).tanh())

    model, x = Normed().double().eval(), pair(100)[0]
    mine, theirs = (
        package.LayerGradientXActivation(model, model.a).attribute(x, target=1) for package in BOTH
    )  # fmt: skip
    torch.testing.assert_close(mine, theirs.detach())
    ends = {"target": 1, "n_steps": 5, "baselines": pair(100)[0].flip(0) * 0.5}
    mine = ours.LayerConductance(model, model.a).attribute(x, **ends)
    assert mine.shape == (100, 5)


def test_inputs_stay_as_they_are_where_a_model_works_in_place():
    class Halving(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.mul_(0.5)

    torch.manual_seed(0)
    model = nn.Sequential(Halving(), nn.Linear(4, 3), nn.ReLU(inplace=True), nn.Linear(3, 3)).double().eval()
    plain = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 3)).double().eval()
    plain.load_state_dict({f"{int(k[0]) - 1}{k[1:]}": v for k, v in model.state_dict().items()})
    x = pair()[0]
    before = x.clone()
    for found, wanted in [
        (ours.FeatureAblation(model).attribute(x, target=-1), ours.FeatureAblation(plain).attribute(x / 2, target=-1)),
        (ours.Occlusion(model).attribute(x, (2,), target=1), ours.Occlusion(plain).attribute(x / 2, (2,), target=1)),
        (ours.InputXGradient(model).attribute(x, target=-1), ours.InputXGradient(plain).attribute(x / 2, target=-1)),
    ]:
        torch.testing.assert_close(found, wanted)
        assert torch.equal(x, before)
    ours.LayerIntegratedGradients(model, model[2]).attribute(x, target=1, return_convergence_delta=True)
    assert torch.equal(x, before)


@pytest.mark.parametrize("name", pgig.METHODS)
@pytest.mark.parametrize(("layer", "side"), [("2", "output"), ("3", "input"), (2, "output")])
def test_every_method_explains_layers(name, layer, side):
    """As if the rest of the network were explained by itself."""
    torch.manual_seed(0)
    lower = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 3))
    upper = nn.Sequential(nn.ReLU(), nn.Conv2d(5, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 5))
    model, x, x0, references = (
        nn.Sequential(*lower, *upper).double().eval(),
        images(),
        images(1, seed=3),
        images(4, seed=5),
    )
    patterns = {key: torch.randn_like(p) for key, p in model.named_parameters() if key.endswith("weight")}
    own = {str(int(key[0]) - 3): p for key, p in patterns.items() if int(key[0]) > 2}
    asked = {"patterns": {key.removesuffix(".weight"): p for key, p in patterns.items()}, "references": references}
    found = pgig.attribute(
        name,
        model,
        x,
        [1, 0, 4],
        baseline=x0,
        layer=model[layer] if isinstance(layer, int) else layer,
        side=side,
        **asked,
    )
    with torch.no_grad():
        inner = [lower(part) for part in (x, x0.expand_as(x), references)]
    wanted = pgig.attribute(name, upper, inner[0], [1, 0, 4], baseline=inner[1], references=inner[2], patterns=own)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-14)


def test_a_further_input_may_be_empty():
    """As lists of indices are, of any length: only the first input has the rows."""

    def model(x, indices):
        return x.sum() + indices.sum()

    ours, theirs = (
        kind(model).attribute((torch.tensor([[1.0, 2.0]]), torch.tensor([])))
        for kind in (pgig.captum.FeatureAblation, captum.attr.FeatureAblation)
    )
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))
    with pytest.raises(AssertionError, match="at least one row"):
        pgig.captum.FeatureAblation(model).attribute((torch.zeros(0, 2), torch.tensor([1.0])))
