"""The machinery behind docs/reproduction.md, on made-up areas."""

from pathlib import Path

import numpy
import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def claims(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "reproduction"))
    import claims

    return claims


ORDER = (
    "random", "gradient", "gradient_x_input", "integrated_gradients", "vargrad", "smoothgrad_squared", "smoothgrad_ig",
    "expected_gradients", "guided_backprop", "pattern_attribution", "pgig",
)  # fmt: skip


def made_up(levels: dict[str, float]) -> dict[str, numpy.ndarray]:
    rng = numpy.random.default_rng(0)
    image = rng.normal(size=200)
    return {m: level + 0.1 * image + 0.02 * rng.normal(size=200) for m, level in levels.items()}


def test_the_papers_order_makes_all_claims_hold(claims):
    steps = (0, 1, 2, 2, 3, 4, 4, 4, 4, 4, 5)
    areas = made_up({m: 0.8 - 0.1 * step for m, step in zip(ORDER, steps, strict=True)})
    found = claims.verdicts(areas)
    assert len(found) == 8
    assert all(verdict.holds for verdict in found), [str(pair) for v in found for pair in v.measured]


def test_another_order_makes_them_fail_with_the_pair_named(claims):
    steps = (0, 1, 2, 2, 3, 4, 4, 4, 4, 4, 1.5)  # PGIG behind most
    areas = made_up({m: 0.8 - 0.1 * step for m, step in zip(ORDER, steps, strict=True)})
    found = {verdict.claim.text: verdict for verdict in claims.verdicts(areas)}
    best = found["PGIG is better than every other method"]
    assert not best.holds
    failed = [str(pair) for pair in best.measured if not pair.as_claimed]
    assert any(text.startswith("`pgig` worse than `vargrad`, -0.1") for text in failed)
    assert not any("`random`" in text for text in failed)
    assert found["Random is the worst"].holds
    levels = dict.fromkeys(ORDER, 0.5)
    same = {verdict.claim.text: verdict for verdict in claims.verdicts(made_up(levels))}
    assert same["The five are alike"].holds
    assert not same["Random is the worst"].holds


def test_rank_correlation(claims):
    areas = made_up({m: 0.1 * n for n, m in enumerate(ORDER)})
    same, low, high = claims.rank_correlation(areas, areas, ORDER)
    assert same == pytest.approx(1)
    assert low <= same <= high
    turned = claims.rank_correlation(areas, {m: -a for m, a in areas.items()}, ORDER)
    assert turned[0] == pytest.approx(-1)
