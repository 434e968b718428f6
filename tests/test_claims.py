"""The machinery behind docs/reproduction.md, on made-up areas."""

from pathlib import Path

import numpy
import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _found(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "reproduction"))


@pytest.fixture
def claims():
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


def test_the_page_says_what_the_tables_say():
    from results import networks
    from tables import between_table, protocols_table

    from pgig.methods.table import PAPER_METHODS

    page = (ROOT / "docs" / "reproduction.md").read_text()
    assert "<<" not in page
    assert "TODO" not in page
    found = networks(ROOT / "docs" / "reproduction")
    assert found[0].images >= 200
    assert len(found[0].variants["paper"]["pgig"]) >= 100
    assert between_table(found, PAPER_METHODS) in page
    for network in found:
        assert protocols_table(network) in page


def test_a_variant_takes_the_place_of_pgig():
    from results import Network

    levels = {m: 0.1 * n for n, m in enumerate(ORDER)}
    areas = {m: numpy.full(4, level) for m, level in levels.items()}
    variants = {"pgig": areas["pgig"], "better": numpy.full(4, -1.0), "middling": numpy.full(4, 0.35)}
    network = Network("made up", {"paper": areas}, {"paper": variants}, {"paper": areas}, {})
    places = {name: network.place(name) for name in ("pgig", "better", "middling", "unknown")}
    assert places["unknown"] is None
    assert [(p.low, p.mean, p.high) for p in places.values() if p] == [(11, 11, 11), (1, 1, 1), (5, 5, 5)]
