"""The stress test of the paper (figure 2), on the inputs its authors published and on others."""

from pathlib import Path

import numpy
import pytest
import torch
from torch import Tensor

import pgig
from pgig.synthetic import stress_test
from pgig.synthetic.stress import authors_patterns, stress_data


@pytest.fixture
def published(shared: Path) -> dict[str, Tensor]:
    folder = shared / "reference" / "stress_test"
    columns = {
        name: numpy.loadtxt(folder / f"{name}.csv", delimiter=",") for name in ("X", "IG_signal", "IG_distractor")
    }
    ig = numpy.stack([columns["IG_signal"][:, 1], columns["IG_distractor"][:, 1]], 1)
    return {"x": torch.from_numpy(columns["X"]), "ig": torch.from_numpy(ig)}


def test_seed_42_gives_the_published_inputs(published):
    assert published["x"].shape == (400, 2)
    torch.testing.assert_close(stress_data(42)[1], published["x"], rtol=0, atol=1e-12)


def test_integrated_gradients_equal_the_published_values(published):
    found = stress_test().attributions["integrated_gradients"]
    torch.testing.assert_close(found, published["ig"], rtol=0, atol=1e-12)


def test_the_authors_patterns_give_the_published_values():
    """With E+[x] / (w.E+[x]) as patterns, which is what the authors' code computes (paper, departure 6)."""
    patterns = authors_patterns(stress_data()[1])
    torch.testing.assert_close(patterns["0"], torch.tensor([[-1.00330, -0.00330]]).double(), rtol=0, atol=5e-6)
    found = stress_test(patterns=patterns).attributions
    # the first row of the published figure's values
    expected_pa = torch.tensor([-2.0065923474232554, 0.006592347423256], dtype=torch.float64)
    expected_pgig = torch.tensor([-1.857086924679881, -0.000491176840005], dtype=torch.float64)
    torch.testing.assert_close(found["pattern_attribution"][0], expected_pa, rtol=0, atol=1e-12)
    torch.testing.assert_close(found["pgig"][0], expected_pgig, rtol=0, atol=1e-12)


def test_the_projects_own_patterns_follow_the_equation():
    p = stress_test().patterns
    torch.testing.assert_close(p["0"], torch.tensor([[-1.01621, -0.01621]]).double(), rtol=0, atol=5e-6)
    assert float(p["2"]) == pytest.approx(-1)


@pytest.mark.parametrize("seed", [42, 0, 7])
def test_only_pgig_passes_both(seed):
    verdicts = {
        name: (v.follows_target, v.leaves_distractor)
        for name, v in stress_test("all", seed=seed, steps=25).verdicts().items()
    }
    assert verdicts["integrated_gradients"] == (True, False)
    assert verdicts["pattern_attribution"] == (False, True)
    assert verdicts["pgig"] == (True, True)
    assert [name for name, passed in verdicts.items() if all(passed)] == ["pgig"]


def test_explainers_of_the_users_own_can_be_entered():
    def perfect(model, x, target):
        signal = model(x).detach()[:, 0]
        return torch.stack([signal, torch.zeros_like(signal)], 1)

    test = stress_test({"perfect": perfect, "gradient": "gradient"})
    assert list(test.attributions) == ["perfect", "gradient"]
    verdict = test.verdicts()["perfect"]
    assert verdict.follows_target
    assert verdict.leaves_distractor
    assert verdict.signal == pytest.approx(verdict.output)
    with pytest.raises(pgig.PgigError, match="shape"):
        stress_test({"wrong": lambda model, x, target: x[:, :1]})
    assert list(stress_test({"yardstick": perfect}).attributions) == ["yardstick"]
    few, many = (pgig.METHODS["integrated_gradients"].with_options(steps=n) for n in (3, 500))
    values = stress_test({"few": few, "many": many}).attributions
    assert not torch.equal(values["few"], values["many"])  # a Method is taken as it is
    for wrong in (perfect, [perfect]):
        with pytest.raises(pgig.PgigError, match="mapping"):
            stress_test(wrong)
    with pytest.raises(pgig.PgigError, match="unknown method 'lime'"):
        stress_test("lime")
