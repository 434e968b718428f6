"""Signal quality on data whose signal is known."""

import math

import pytest
import torch
from networks import network
from torch import nn

import pgig
from zoo import made


def test_the_pattern_explains_what_weights_and_chance_do_not():
    """y reads the signal and cancels a distractor: the weight's direction keeps the distractor in, the pattern not."""
    generator = torch.Generator().manual_seed(0)
    signal, other = torch.randn(2, 10, generator=generator, dtype=torch.float64)
    distractor = signal + 0.5 * other  # much alike, so that the weight points elsewhere
    z = torch.randn(6000, 2, generator=generator, dtype=torch.float64)
    x = z[:, :1] * signal + 3 * z[:, 1:] * distractor + 0.05 * torch.randn(6000, 10, generator=generator).double()
    model = nn.Linear(10, 1).double()
    across = signal - distractor * (signal @ distractor) / (distractor @ distractor)
    model.weight.data = (across / (across @ signal))[None]
    patterns = pgig.estimate_patterns(model, [x[:4000]])
    quality = pgig.signal_quality(model, patterns, [x[4000:]], windows=2000)["weight"]
    assert quality.pattern > 0.9
    assert quality.pattern > quality.weight + 0.1
    assert quality.random < 0.1
    table = str(patterns.with_quality({"weight": quality}).health())
    assert "rho(p)" in table
    assert f"{quality.pattern:.2f}" in table


@pytest.mark.filterwarnings("ignore::pgig.PgigWarning")
@pytest.mark.parametrize("name", ["u-net", "mobile", "mlp", "functional"])
def test_every_geometry_can_be_measured(name):
    model = made(name)
    data = torch.rand(160, 3, 32, 32)
    patterns = pgig.estimate_patterns(model, data[:32].split(8))
    quality = pgig.signal_quality(model, patterns, data[32:].split(32), units=3, windows=200)
    assert set(quality) == set(patterns)
    measured = 0
    for found in quality.values():
        rhos = found.weight, found.pattern, found.random
        assert all(0 <= rho <= 1 or math.isnan(rho) for rho in rhos)  # NaN: too few samples
        measured += not any(map(math.isnan, rhos))
    assert measured


def test_no_data_is_an_error():
    with pytest.raises(pgig.PgigError, match="no data"):
        pgig.signal_quality(network("chain"), {}, [])


def test_a_norm_behind_a_layer_changes_no_quality():
    """Patterns belong to the weight with the norm folded in: rho is that of the folded network."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 36, 3)).eval()
    nn.init.uniform_(model[1].weight, 0.2, 3)
    model[1].running_var.uniform_(0.2, 3)
    folded = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 36, 3)).eval()
    factor = (model[1].weight / (model[1].running_var + model[1].eps).sqrt()).detach()
    with torch.no_grad():
        folded[0].weight[:] = model[0].weight * factor[:, None, None, None]
        folded[0].bias[:] = model[0].bias * factor + model[1].bias
        folded[3].load_state_dict(model[4].state_dict())
    mixing = torch.randn(192, 192, generator=torch.Generator().manual_seed(1)) / 8
    data = (torch.randn(300, 192) @ mixing).reshape(300, 3, 8, 8)
    found, wanted = (
        pgig.signal_quality(m, pgig.estimate_patterns(m, [data[:150]]), [data[150:]]) for m in (model, folded)
    )
    assert found["0"].pattern == pytest.approx(wanted["0"].pattern, rel=1e-3)
    assert found["0"].pattern > found["0"].random
