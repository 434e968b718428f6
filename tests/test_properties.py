"""What holds and what does not (docs/properties.md)."""

import pytest
import torch
from torch import nn

import pgig
from pgig.synthetic.properties import implementation_invariance, linear_case, sensitivity, two_networks
from pgig.synthetic.rewritings import REWRITINGS, rewritten
from pgig.synthetic.stress import stress_data, stress_model


def test_pgig_is_sensitive_but_for_patterns_of_zero():
    model, x = stress_model(), torch.tensor([3.0, -2.0]).double()
    baseline = torch.zeros(2).double()
    patterns = dict(pgig.estimate_patterns(model, [stress_data()[1]]))
    for method in ("pgig", "integrated_gradients"):
        found = sensitivity(method, model, x, baseline, patterns)
        assert (found.change != 0).all()
        assert not found.violated.any()
    # from 3 on the model is flat, and a gradient sees nothing
    assert sensitivity("gradient", model, x, baseline).violated.tolist() == [True, True]
    patterns["0"] = torch.tensor([[-1.0, 0.0]]).double()
    assert sensitivity("pgig", model, x, baseline, patterns).violated.tolist() == [False, True]


def test_started_from_the_score_signs_can_cancel():
    model = nn.Sequential(nn.Linear(1, 1)).double().eval()
    model[0].weight.data.fill_(1)
    model[0].bias.data.fill_(-13)
    x, baseline, patterns = torch.tensor([25.0]).double(), torch.zeros(1).double(), {"0": torch.ones(1, 1).double()}
    assert sensitivity("pgig", model, x, baseline, patterns, start="score").violated.tolist() == [True]
    assert sensitivity("pgig", model, x, baseline, patterns).violated.tolist() == [False]


def test_in_the_linear_case_pgig_is_the_pattern_times_ig():
    torch.manual_seed(0)
    layer, x = nn.Linear(6, 1).double(), torch.randn(200, 6).double()
    pattern = pgig.estimate_patterns(nn.Sequential(layer).eval(), [x])["0"]
    found = linear_case(layer, x, pattern)
    torch.testing.assert_close(found.pgig, found.pattern_times_ig)
    assert found.pgig.abs().max() > 0.1


def test_pgig_is_not_implementation_invariant_and_ig_is():
    found = implementation_invariance()
    one, two = found.outputs
    assert torch.equal(one, two)  # the same function
    ig = found.attributions["integrated_gradients"]
    torch.testing.assert_close(*ig)
    for name in ("pgig", "pattern_attribution"):
        first, second = found.attributions[name]
        assert (first - second).abs().max() > 0.05 * first.abs().max()
    assert not torch.allclose(*found.patterns, rtol=0.05)
    for pattern in found.patterns:  # the law holds in both
        assert float(pattern @ torch.tensor([1.0, 2.0]).double()) == 1


def test_the_two_networks_are_the_same_function_everywhere():
    one, two = two_networks()
    x = torch.randn(1000, 2).double()
    torch.testing.assert_close(one(x), two(x))


@pytest.mark.parametrize("regime", ["auto", "linear"])
@pytest.mark.parametrize("name", REWRITINGS)
def test_a_rewriting_leaves_pgig_alone_or_does_not(name, regime):
    found = rewritten(name, regime)
    assert found.outputs < 1e-12  # the same function
    assert found.attributions["integrated_gradients"] < 1e-12
    stays = REWRITINGS[name].pgig_stays == "always" or (REWRITINGS[name].pgig_stays == regime)
    assert found.attributions["pgig"] < 1e-12 if stays else found.attributions["pgig"] > 1e-3


def test_rewritings_move_nothing_global():
    before = torch.random.get_rng_state()
    rewritten("units_doubled")
    assert torch.equal(before, torch.random.get_rng_state())
    with pytest.raises(pgig.PgigError, match="unknown rewriting"):
        rewritten("nonsense")
