"""`pgig.quantus.explain`, in the hands of Quantus itself."""

import warnings

import numpy
import pytest
import torch
from networks import random_patterns
from torch import nn

import pgig
from pgig.errors import PgigError
from pgig.quantus import explain

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what its own imports have to say
    import quantus

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * 8 * 8, 3)
    ).eval()  # fmt: skip


@pytest.fixture
def batch() -> tuple[numpy.ndarray, numpy.ndarray]:
    rng = numpy.random.default_rng(0)
    return rng.normal(size=(3, 1, 16, 16)).astype(numpy.float32), numpy.array([0, 2, 1])


def estimated(model: nn.Module) -> pgig.Patterns:
    rng = torch.Generator().manual_seed(0)
    return pgig.estimate_patterns(model, [torch.randn(8, 1, 16, 16, generator=rng) for _ in range(4)])


QUIET = {"disable_warnings": True, "display_progressbar": False}


def test_numpy_in_numpy_out(model, batch):
    x, y = batch
    patterns = random_patterns(model)
    found = explain(model, x, y, patterns=patterns, device="cpu", score="probability")
    assert isinstance(found, numpy.ndarray)
    assert found.dtype == numpy.float32
    own = pgig.attribute("pgig", model, torch.from_numpy(x), torch.from_numpy(y), patterns=patterns)
    numpy.testing.assert_allclose(found, own.numpy(), rtol=1e-5, atol=1e-7)
    model.train()
    explain(model, x, y, method="integrated_gradients+steps=3")
    assert model.training  # as it was
    with pytest.raises(PgigError, match="needs patterns"):
        explain(model, x, y)
    with pytest.raises(PgigError, match=r"no option speed here; among explain_func_kwargs: .*steps"):
        explain(model, x, y, method="gradient", speed=3)
    flipped = torch.from_numpy(x).clone().requires_grad_()  # neither gradients nor strides matter
    same = explain(model, flipped, y, method="gradient")
    numpy.testing.assert_array_equal(same, explain(model, x[:, :, ::-1][:, :, ::-1], y, method="gradient"))
    with pytest.raises(PgigError, match=r"expected a torch\.nn\.Module"):
        explain(lambda x: x, x, y, method="gradient")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inputs": None}, "inputs must be an array of numbers"),
        ({"inputs": [[1, 2], [3]]}, "inputs must be an array of numbers"),
        (
            {"inputs": numpy.zeros((3, 2, 16, 16), numpy.float32)},
            r"the model failed on inputs of shape \(3, 2, 16, 16\)",
        ),
        ({"inputs": numpy.full((3, 1, 16, 16), numpy.nan)}, "NaN"),
        ({"inputs": numpy.full((3, 1, 16, 16), numpy.nan), "method": "occlusion+window=4+stride=4"}, "NaN"),
        ({"targets": ["a", "b", "c"]}, "targets must be an array of numbers"),
        ({"targets": [0, 1, 7]}, "out of range"),
        ({"targets": [0.5, 1, 2]}, "targets must be whole numbers"),
        ({"device": "nowhere"}, "cannot use the device 'nowhere'"),
        ({"method": "pgig", "patterns": "file.safetensors"}, "Patterns.load reads a file"),
        ({"method": "gradient,random"}, "unknown method"),
    ],
)
def test_bad_arguments(model, batch, change, message):
    x, y = batch
    given = {"inputs": x, "targets": y, "method": "gradient", **change}
    with pytest.raises(PgigError, match=message):
        explain(model, **given)


def test_patterns_belong_to_parameters(model, batch):
    x, y = batch
    asked = []

    def source(now: nn.Module) -> pgig.Patterns:
        asked.append(now)
        return estimated(now)

    first = explain(model, x, y, patterns=source)
    explain(model, x, y, patterns=source)
    assert len(asked) == 1
    with torch.no_grad():
        model[0].weight.mul_(-1)
    other = explain(model, x, y, patterns=source)
    assert len(asked) == 2
    assert not numpy.allclose(first, other)
    with torch.no_grad():
        model[0].weight.mul_(-1)
    numpy.testing.assert_array_equal(explain(model, x, y, patterns=source), first)
    assert len(asked) == 3
    kept = estimated(model)
    with torch.no_grad():
        model[0].weight.mul_(2)
    with pytest.warns(pgig.PgigWarning, match="other weights.*frozen"):
        frozen = explain(model, x, y, patterns=kept)
    numpy.testing.assert_array_equal(frozen, explain(model, x, y, patterns=dict(kept)))


@pytest.mark.parametrize("method", ["pgig", "integrated_gradients"])
def test_faithfulness(model, batch, method):
    x, y = batch
    metric = quantus.FaithfulnessCorrelation(
        nr_runs=8, subset_size=40, perturb_baseline="black", return_aggregate=False, **QUIET
    )
    numpy.random.seed(0)  # Quantus draws its subsets from there
    scores = metric(
        model=model, x_batch=x, y_batch=y, explain_func=explain,
        explain_func_kwargs={"method": method, "patterns": estimated, "score": "probability"}, device="cpu",
    )  # fmt: skip
    numpy.random.seed(0)
    patterns = estimated(model) if method == "pgig" else None
    ours = pgig.attribute(method, model, torch.from_numpy(x), torch.from_numpy(y), patterns=patterns).numpy()
    wanted = metric(model=model, x_batch=x, y_batch=y, a_batch=ours, device="cpu")
    assert len(scores) == 3
    numpy.testing.assert_allclose(scores, wanted, rtol=1e-4, atol=1e-6)


def test_randomisation(model, batch):
    x, y = batch
    metric = quantus.MPRT(similarity_func=quantus.similarity_func.correlation_spearman, layer_order="top_down", **QUIET)  # type: ignore[attr-defined]
    scores = metric(
        model=model, x_batch=x, y_batch=y, explain_func=explain, device="cpu",
        explain_func_kwargs={"method": "pgig", "patterns": estimated},
    )  # fmt: skip
    by_layer = {layer: numpy.mean(values) for layer, values in scores.items()}
    assert len(by_layer) >= 2
    assert min(by_layer.values()) < 0.9  # other weights, other explanations


def test_localisation():
    class Corner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(256, 2, bias=False)
            weight = torch.zeros(2, 16, 16)
            weight[1, :4, :4] = 1
            self.layer.weight.data = weight.reshape(2, 256)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x.flatten(1))

    x = numpy.ones((2, 1, 16, 16), dtype=numpy.float32)
    masks = numpy.zeros((2, 1, 16, 16))
    masks[:, :, :4, :4] = 1
    metric = quantus.RelevanceRankAccuracy(**QUIET)
    scores = metric(
        model=Corner(), x_batch=x, y_batch=numpy.array([1, 1]), s_batch=masks, explain_func=explain, device="cpu",
        explain_func_kwargs={"method": "gradient_x_input", "score": "logit"},
    )  # fmt: skip
    assert scores == [1.0, 1.0]
