"""Measures: what judges leave is what the definition says, and reports read it from the table."""

import numpy
import pytest
import torch
from networks import images, network

import pgig
from pgig.degradation import DenseEvaluator, PatchGrid, Protocol, scored_by
from pgig.errors import PgigError
from pgig.measures import JUDGES, Degradation, judge
from pgig.records.measures import BY_ORDER, MEASURES
from pgig.subject.context import Context


def test_every_measure_has_a_judge_and_says_what_it_is():
    assert MEASURES.keys() == JUDGES.keys()
    assert set(BY_ORDER.values()) <= MEASURES.keys()
    for name, measure in MEASURES.items():
        assert measure.name == name
        assert measure.about
        assert measure.columns
        assert measure.better in ("lower", "higher")


@pytest.mark.parametrize("name", ["morf", "lerf", "random_order"])
def test_degradation_is_its_definition(name):
    """Patch by patch, with whole forward passes, written out."""
    model, x, target = network("chain"), images(), torch.tensor([0, 1, 2])
    order = {"morf": "descending", "lerf": "ascending", "random_order": "random"}[name]
    protocol = Protocol(patch=2, steps=5, order=order)
    attribution = pgig.attribute("gradient_x_input", model, x, target)
    found = judge(name, model, x, target, {"it": attribution}, by=Degradation(protocol))["it"]
    grid = PatchGrid(8, 8, 2)
    sums = grid.sums(attribution)
    for row in range(3):
        ranking = protocol.ranking(sums[row : row + 1], [row], 0)[0, :, 0].tolist()
        now, scores = x[row : row + 1].clone(), []
        for patch in [None, *ranking]:
            if patch is not None:
                down, across = grid.place(patch)
                now[:, :, down, across] = now[:, :, down, across].mean((2, 3), keepdim=True)
            with torch.no_grad():
                scores.append(float(model(now).softmax(1)[0, target[row]]))
        assert found["AUC"][row] == pytest.approx(numpy.mean(scores), abs=1e-9)
        assert found["AOPC"][row] == pytest.approx(scores[0] - numpy.mean(scores), abs=1e-9)
    assert "after 10" not in found  # five patches were replaced


def test_what_explaining_gives_can_be_judged_and_classes_be_told_in_any_way():
    model, x = network("chain"), images()
    by = Degradation(Protocol(patch=2, steps=5))
    explained = pgig.explain(model, x, "gradient,random", 1)
    found = judge("morf", model, x, 1, explained, by=by)
    tensors = {name: torch.from_numpy(e.attribution) for name, e in explained.items()}
    for target in (torch.tensor([1, 1, 1]), [1, 1, 1], numpy.array([1, 1, 1])):
        for name, columns in judge("morf", model, x, target, tensors, by=by).items():
            numpy.testing.assert_array_equal(columns["AUC"], found[name]["AUC"])


def test_scores_after_some_patches_where_they_were_taken():
    measure = MEASURES["morf"]
    curves = numpy.linspace(1, 0, 31)[None]
    assert measure.columns_of(curves)["after 30"] == pytest.approx(0)
    assert set(measure.columns_of(curves)) == {"AUC", "AOPC", "after 10", "after 30"}
    assert set(measure.columns_of(curves, patches_per_step=10)) == {"AUC", "AOPC", "after 10", "after 30", "after 100"}
    assert set(measure.columns_of(curves, patches_per_step=4)) == {"AUC", "AOPC", "after 100"}


def test_wrong_measures_and_judges():
    model, x, target = network("chain"), images(), torch.tensor([0, 1, 2])
    with pytest.raises(PgigError, match="unknown measure 'loudness'; known: morf"):
        judge("loudness", model, x, target, {"it": x})
    with pytest.raises(PgigError, match="left no record of every input"):
        judge("morf", model, x, target, {"it": x}, by=lambda *_: {})
    with pytest.raises(PgigError, match="not a function"):
        judge("morf", model, x, target, {"it": x}, Context(score=lambda o: o[:, 0]), Degradation(Protocol(2, 3)))
    for given, classes, match in (
        ({}, target, "no attributions"),
        ({"it": x[:, :2]}, target, "has shape"),
        ({"it": "map"}, target, "must be a tensor"),
        ({"it": x}, [0], "1 targets for 3"),
        ({"it": x}, None, "give the class"),
    ):
        with pytest.raises(PgigError, match=match):
            judge("morf", model, x, classes, given, by=Degradation(Protocol(2, 3)))
    with pytest.raises(PgigError, match="ascending order measures lerf, not morf"):
        judge("morf", model, x, target, {"it": x}, by=Degradation(Protocol(2, 3, order="ascending")))
    with pytest.raises(PgigError, match="training mode"):
        judge("morf", torch.nn.Sequential(torch.nn.Dropout(), model).train(), x, target, {"it": x})
    evaluator = DenseEvaluator(scored_by(model, "logit"))
    judge("morf", model, x, target, {"it": x}, by=Degradation(Protocol(2, 3), evaluator))
