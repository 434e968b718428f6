"""The stress model of the paper (figure 2), on the inputs its authors published."""

from pathlib import Path

import numpy
import pytest
import torch
from torch import Tensor, nn

import pgig


def stress_model() -> nn.Sequential:
    """y = 1 - ReLU(1 - (x1 - x2))."""
    model = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 1)).double()
    for layer, weight, bias in ((model[0], [[-1.0, 1.0]], [1.0]), (model[2], [[-1.0]], [1.0])):
        layer.weight.data = torch.tensor(weight).double()
        layer.bias.data = torch.tensor(bias).double()
    return model.eval()


@pytest.fixture
def published(shared: Path) -> dict[str, Tensor]:
    folder = shared / "reference" / "stress_test"
    columns = {
        name: numpy.loadtxt(folder / f"{name}.csv", delimiter=",") for name in ("X", "IG_signal", "IG_distractor")
    }
    ig = numpy.stack([columns["IG_signal"][:, 1], columns["IG_distractor"][:, 1]], 1)
    return {"x": torch.from_numpy(columns["X"]), "ig": torch.from_numpy(ig)}


def test_integrated_gradients_equal_the_published_values(published):
    x = published["x"]
    assert x.shape == (400, 2)
    ig = pgig.attribute("integrated_gradients", stress_model(), x, steps=100, score=lambda y: y[:, 0])
    torch.testing.assert_close(ig, published["ig"], rtol=0, atol=1e-12)


def test_pattern_methods_equal_the_published_first_row(published):
    """With E+[x] / (w.E+[x]) as patterns, which is what the authors' code computes (paper, departure 6)."""
    model, x = stress_model(), published["x"]
    before = model[0](x)[:, 0].detach()
    active = x[before > 0].mean(0)
    p = {"0": (active / (model[0].weight[0].detach() @ active))[None], "2": torch.tensor([[-1.0]]).double()}
    torch.testing.assert_close(p["0"], torch.tensor([[-1.00330, -0.00330]]).double(), rtol=0, atol=5e-6)
    given = {"patterns": p, "score": lambda y: y[:, 0]}
    pa = pgig.attribute("pattern_attribution", model, x, start="score", **given)
    guided = pgig.attribute("pgig", model, x, start="one", steps=100, **given)
    # the first row of the published figure's values
    expected_pa = torch.tensor([-2.0065923474232554, 0.006592347423256], dtype=torch.float64)
    expected_pgig = torch.tensor([-1.857086924679881, -0.000491176840005], dtype=torch.float64)
    torch.testing.assert_close(pa[0], expected_pa, rtol=0, atol=1e-12)
    torch.testing.assert_close(guided[0], expected_pgig, rtol=0, atol=1e-12)
