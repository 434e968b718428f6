"""regime="quality": of every layer's regimes, the one whose pattern explains more of held-out samples."""

import pytest
import torch
from torch import nn

import pgig
from pgig.patterns.quality import Drawn, direction_qualities


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 36, 8), nn.GELU(), nn.Linear(8, 3)
    ).eval()


def batches(seed: int, number: int = 4) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(3 * 64, 3 * 64, generator=torch.Generator().manual_seed(9)) / 8
    return [(torch.randn(40, 3 * 64, generator=generator) @ mixing).reshape(40, 3, 8, 8) for _ in range(number)]


@pytest.mark.filterwarnings("ignore:.*unreliable:pgig.PgigWarning")
def test_the_better_regime_is_taken_and_told():
    net, held_out = model(), batches(2)
    patterns = pgig.estimate_patterns(net, batches(1), "quality", held_out=held_out)
    alone = {regime: pgig.estimate_patterns(net, batches(1), regime) for regime in ("positive", "linear")}
    choice, taken = patterns.facts["choice"], {name: layer.regime for name, layer in patterns.layers.items()}
    assert set(choice) == {"0", "3", "5"}
    for name, rhos in choice.items():
        assert taken[name] == max(rhos, key=rhos.__getitem__)
        torch.testing.assert_close(patterns[name], alone[taken[name]][name])
        assert f"positive {rhos['positive']:.2f}" in str(patterns.health())
    wanted = direction_qualities(
        net, {n: {r: alone[r][n] for r in rhos} for n, rhos in choice.items()}, held_out, Drawn()
    )
    assert {n: {r: wanted[n][r] for r in rhos} for n, rhos in choice.items()} == choice
    assert len(set(taken.values())) == 2, "both regimes are taken somewhere"


def test_moments_of_candidates_are_kept_added_and_chosen_from(tmp_path):
    net, data = model(), batches(1)
    halves = [pgig.estimate_moments(net, half, "quality") for half in (data[:2], data[2:])]
    halves[0].save(tmp_path / "half.safetensors")
    moments = pgig.Moments.load(tmp_path / "half.safetensors") + halves[1]
    with pytest.raises(pgig.PgigError, match=r"several regimes: pgig.patterns_by_quality"):
        moments.patterns()
    for regime in ("positive", "linear"):
        found = moments.taking(dict.fromkeys(moments.layers, regime)).patterns()
        wanted = pgig.estimate_patterns(net, data, regime)
        for name in wanted:
            torch.testing.assert_close(found[name], wanted[name], rtol=1e-4, atol=1e-6)
    chosen = pgig.patterns_by_quality(net, moments, batches(2))
    again = pgig.estimate_patterns(net, data, "quality", held_out=batches(2))
    assert {n: layer.regime for n, layer in chosen.layers.items()} == {
        n: layer.regime for n, layer in again.layers.items()
    }


def test_some_layers_by_quality_and_what_is_lacking_is_said():
    net = model()
    patterns = pgig.estimate_patterns(net, batches(1), {"0": "quality", "3": "linear"}, held_out=batches(2))
    assert list(patterns.facts["choice"]) == ["0"]
    assert patterns.layers["3"].regime == "linear"
    with pytest.raises(pgig.PgigError, match="give them as held_out="):
        pgig.estimate_patterns(net, batches(1), "quality")


def test_moments_and_quality_belong_to_weights():
    """Of another model's weights nothing is measured; in a wrapper layers are found."""
    torch.manual_seed(0)
    made = [nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).eval() for _ in range(2)]
    data, held_out = [torch.randn(200, 6)], [torch.randn(400, 6)]
    moments = pgig.estimate_moments(made[0], data, "quality")
    with pytest.raises(pgig.PgigError, match="other weights"):
        pgig.patterns_by_quality(made[1], moments, held_out)
    patterns = pgig.estimate_patterns(made[0], data)
    wrapped = pgig.signal_quality(nn.Sequential(nn.Identity(), made[0]).eval(), patterns, held_out)
    own = pgig.signal_quality(made[0], patterns, held_out)
    assert {f"1.{name}": quality for name, quality in own.items()} == wrapped
    with pytest.raises(pgig.PgigError, match="failed on a held-out batch"):
        pgig.signal_quality(made[0], patterns, [torch.randn(3, 5)])


@pytest.mark.parametrize("norm", [nn.utils.parametrizations.weight_norm, nn.utils.parametrizations.spectral_norm])
def test_patterns_of_parametrised_weights_fit_wrappers(norm):
    torch.manual_seed(0)
    model, x = nn.Sequential(norm(nn.Linear(6, 8)), nn.ReLU(), nn.Linear(8, 3)).eval(), torch.randn(100, 6)
    patterns = pgig.estimate_patterns(model, [x])
    wrapper = nn.Sequential(nn.Identity(), model).eval()
    found = pgig.attribute("pgig", wrapper, x[:2], 1, patterns=patterns)
    torch.testing.assert_close(found, pgig.attribute("pgig", model, x[:2], 1, patterns=patterns))
