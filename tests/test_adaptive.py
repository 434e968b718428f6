"""steps="auto": as many gradients as an input needs, decided for it alone."""

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from networks import NETWORKS, images, network, random_patterns

import pgig
from pgig.methods.adaptive import AdaptiveLine, Refinement, alpha_of


def explored(score, slope, tolerance: float = 0.01, by: str = "residual") -> Refinement:
    """The slow definition: a function of alpha, looked at wherever it is asked for."""
    found = Refinement(AdaptiveLine(tolerance, by))
    while True:
        for place in found.wanted():
            found.add(place, score(alpha_of(place)), slope(alpha_of(place)))
        if not found.refine():
            return found


@given(st.floats(0.05, 0.95), st.floats(0.01, 0.2), st.floats(0.001, 0.1))
def test_a_step_of_any_steepness_is_integrated(where, width, tolerance):
    def score(alpha: float) -> float:
        return 1 / (1 + numpy.exp(-(alpha - where) / width))

    def slope(alpha: float) -> float:
        return score(alpha) * (1 - score(alpha)) / width

    found = explored(score, slope, tolerance)
    places, weights = found.weights()
    assert abs(weights.sum() - 1) < 1e-12
    total = sum(w * slope(alpha_of(p)) for p, w in zip(places, weights, strict=True))
    assert found.reached
    assert abs(total - (score(1) - score(0))) <= 1.05 * tolerance * (score(1) - score(0))


def test_cubics_take_three_places_and_flat_functions_too():
    assert len(explored(lambda a: a**3 - a**2 + a, lambda a: 3 * a**2 - 2 * a + 1).scores) == 3
    assert len(explored(lambda a: 2.0, lambda a: 0.0).scores) == 3
    assert len(explored(lambda a: 3 * a, lambda a: 99.0, by="bends").scores) == 3


def test_what_never_agrees_ends_and_is_told():
    found = explored(lambda a: a, lambda a: 50 * numpy.sin(1e4 * a))
    assert len(found.scores) <= 131
    assert not found.reached

    class Wild(torch.nn.Module):
        def forward(self, x):
            return torch.stack([x.sum(1) + torch.sin(3000 * x).sum(1), 0 * x.sum(1)], 1)

    with pytest.warns(pgig.PgigWarning, match="1 of 1 inputs are not within the tolerance"):
        pgig.attribute("integrated_gradients", Wild(), torch.ones(1, 3), 0, score="logit", steps="auto")


def test_a_score_that_comes_back_is_integrated():
    """f(x) = f(x0): the residual is a part of the score's range on the way."""

    class Returning(torch.nn.Module):
        def forward(self, x):
            a = x[:, 0]
            return torch.stack([10 * a * (1 - a) * (a - 0.3), -10 * a * (1 - a) * (a - 0.3)], 1)

    found = pgig.attribute("integrated_gradients", Returning(), torch.ones(1, 1), 0, score="logit", steps="auto")
    assert found.abs().sum() < 0.01


@pytest.mark.filterwarnings("ignore:steps='auto'.*not within the tolerance")
def test_the_order_of_options_does_not_matter():
    ways = [
        pgig.METHODS["integrated_gradients"].with_options(steps="auto").with_options(start="score"),
        pgig.METHODS["integrated_gradients"].with_options(start="score").with_options(steps="auto"),
        pgig.METHODS["integrated_gradients"].with_options(steps="auto", start="score"),
    ]
    assert ways[0] == ways[1] == ways[2]
    assert ways[0].points.by == "bends"  # type: ignore[attr-defined]
    model, x = network("chain"), images(1)
    asked = pgig.explain(model, x, "integrated_gradients", 1, steps="auto", tolerance=0.03)["integrated_gradients"]
    assert (asked.options["steps"], asked.options["tolerance"]) == ("auto", 0.03)


@pytest.mark.filterwarnings("ignore:steps='auto'.*not within the tolerance")
@pytest.mark.parametrize("net", NETWORKS)
def test_completeness_is_within_the_tolerance(net):
    model, x = network(net), images()
    for tolerance in (0.05, 0.005):
        spent: dict[str, list[int]] = {}
        found = pgig.attribute_all(
            ["integrated_gradients"], model, x, [1, 0, 4], steps="auto", tolerance=tolerance, spent=spent
        )["integrated_gradients"]  # fmt: skip
        residual = pgig.completeness(found, model, x, [1, 0, 4]).abs()
        change = pgig.completeness(torch.zeros_like(x), model, x, [1, 0, 4]).abs()
        for left, of, count in zip(residual.tolist(), change.tolist(), spent["integrated_gradients"], strict=True):
            assert left <= 1.05 * tolerance * of or count >= 129  # and then it is said
            assert 3 <= count <= 131


@pytest.mark.filterwarnings("ignore:steps='auto'.*not within the tolerance")
@pytest.mark.parametrize("method", ["integrated_gradients", "pgig", "integrated_pattern_attribution"])
def test_company_changes_nothing(method):
    model, x = network("chain"), images()
    asked = {"steps": "auto", "patterns": random_patterns(model), "tolerance": 0.002}
    whole: dict[str, list[int]] = {}
    together = pgig.attribute_all([method, "gradient"], model, x, [1, 0, 4], spent=whole, **asked)[method]
    for order in ([2, 0, 1], [1, 2, 0]):
        spent: dict[str, list[int]] = {}
        other = pgig.attribute(
            method, model, x[order], [[1, 0, 4][i] for i in order], spent=spent, batch_size=2, **asked
        )
        torch.testing.assert_close(other, together[order], rtol=1e-9, atol=1e-15)
        assert spent[method] == [whole[method][i] for i in order]
    many = pgig.attribute(method, model, x, [1, 0, 4], patterns=asked["patterns"], steps=2000)
    assert (together - many).norm() < 0.2 * many.norm()  # the residual is small before the error is


def test_where_it_cannot_be_had_it_is_said():
    model, x = network("chain"), images()
    for call, message in [
        (lambda: pgig.attribute("smoothgrad_ig", model, x, steps="auto"), "straight path"),
        (lambda: pgig.attribute("gradient", model, x, steps="auto"), "no option 'steps'"),
        (lambda: pgig.attribute("integrated_gradients", model, x, tolerance=0.1), "no option 'tolerance'"),
        (
            lambda: pgig.attribute("integrated_gradients", model, x, steps="auto", tolerance=2),
            "at least 0.0001 and below 1",
        ),
        (lambda: pgig.attribute("integrated_gradients", model, x, steps="many"), "whole number"),
        (lambda: pgig.attribute("integrated_gradients", model, x, steps="auto", quadrature="left"), "quadrature"),
        (lambda: pgig.attribute("integrated_gradients", model, x, steps="auto", batch_size="whole"), "whole batches"),
    ]:
        with pytest.raises(pgig.PgigError, match=message):
            call()
    named = "integrated_gradients+steps=auto+tolerance=0.05"
    assert pgig.explain(model, x, named)[named].options["tolerance"] == 0.05
    again = pgig.METHODS["pgig"].with_options(steps="auto").with_options(steps=7)
    assert again == pgig.METHODS["pgig"].with_options(steps=7)
