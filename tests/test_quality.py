"""Signal quality on data whose signal is known."""

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
    data = torch.rand(48, 3, 32, 32)
    patterns = pgig.estimate_patterns(model, data[:24].split(8))
    quality = pgig.signal_quality(model, patterns, data[24:].split(8), units=3, windows=200)
    assert set(quality) == set(patterns)
    for found in quality.values():
        assert all(0 <= rho <= 1 for rho in (found.weight, found.pattern, found.random))


def test_no_data_is_an_error():
    with pytest.raises(pgig.PgigError, match="no data"):
        pgig.signal_quality(network("chain"), {}, [])
