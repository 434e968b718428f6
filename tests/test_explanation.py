"""Explanations: plain data that is computed, drawn, saved and read apart from each other."""

import subprocess
import sys

import numpy
import pytest
import torch
from networks import images, network, random_patterns

import pgig
from pgig.errors import PgigError
from pgig.explainers.registry import known_explainers, unregister


@pytest.fixture(scope="module")
def found() -> dict[str, pgig.Explanation]:
    model = network("chain")
    given = {"mine": lambda model, x, target: x, "occlusion": "occlusion+window=5+stride=5"}
    methods = {**{name: name for name in known_explainers()}, **given}
    return pgig.explain(model, images(), methods, references=images(), patterns=random_patterns(model), seed=3)


def test_every_explainer_gives_what_it_gives_alone(found):
    model, x = network("chain"), images()
    target = model(x).argmax(1)
    assert list(found) == [*known_explainers(), "mine"]
    for name, explanation in found.items():
        assert explanation.method == name
        assert explanation.attribution.shape == explanation.input.shape == tuple(x.shape)
        assert explanation.target.tolist() == explanation.predicted.tolist() == target.tolist()
        numpy.testing.assert_allclose(explanation.probability, model(x).softmax(1).max(1).values.detach())
        assert explanation.seconds > 0
        if name in pgig.METHODS:
            alone = pgig.attribute(
                name, model, x, target, references=x, patterns=random_patterns(model), seed=3
            )  # fmt: skip
            numpy.testing.assert_allclose(explanation.attribution, alone, rtol=1e-9, atol=1e-12)
    numpy.testing.assert_array_equal(found["mine"].attribution, x)


def test_completeness_is_told_where_it_is_a_law(found):
    having = {name for name, explanation in found.items() if explanation.completeness is not None}
    assert having == {"integrated_gradients"}
    attribution = torch.from_numpy(found["integrated_gradients"].attribution)
    wanted = pgig.completeness(attribution, network("chain"), images()).numpy()
    numpy.testing.assert_allclose(found["integrated_gradients"].completeness, wanted, atol=1e-12)
    fine = pgig.explain(network("chain"), images(), "integrated_gradients", steps=500)["integrated_gradients"]
    assert fine.options["steps"] == 500
    assert numpy.abs(fine.completeness).max() < numpy.abs(wanted).max()


def test_indexing_gives_one_input(found):
    whole = found["pgig"]
    assert len(whole) == 3
    for number, one in enumerate(whole):
        assert len(one) == 1
        numpy.testing.assert_array_equal(one.attribution[0], whole.attribution[number])
        assert one.target.tolist() == [whole.target[number]]
    numpy.testing.assert_array_equal(whole[-1].attribution, whole[2].attribution)
    with pytest.raises(IndexError, match="no number 3"):
        _ = whole[3]


@pytest.mark.parametrize("name", ["pgig", "occlusion", "mine", "integrated_gradients"])
def test_what_is_saved_is_read_and_drawn_without_torch(found, name, tmp_path):
    path = tmp_path / "one.safetensors"
    found[name].save(path)
    again = pgig.Explanation.load(path)
    for field in ("attribution", "input", "target", "predicted", "probability", "completeness"):
        numpy.testing.assert_array_equal(getattr(again, field), getattr(found[name], field))
    for field in ("method", "options", "score", "weights_digest", "patterns_digest", "seconds"):
        assert getattr(again, field) == getattr(found[name], field)
    drawn = pgig.heatmap(found[name].attribution[1], signed=again.signed)
    numpy.testing.assert_array_equal(again.heatmap(1), drawn)
    if name == "pgig":
        code = "import sys, pgig\ne = pgig.Explanation.load('one.safetensors')\ne[0].show(path='one.png')\n"
        code += "assert 'base64' in e._repr_html_()\nprint('torch' in sys.modules)"
        assert subprocess.check_output([sys.executable, "-c", code], cwd=tmp_path, text=True).strip() == "False"
        assert (tmp_path / "one.png").stat().st_size > 1000


def test_damaged_files_are_refused(found, tmp_path):
    path = tmp_path / "one.safetensors"
    found["gradient"].save(path)
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(PgigError, match="damaged"):
        pgig.Explanation.load(path)
    path.write_bytes(b"nothing")
    with pytest.raises(PgigError, match="cannot read an explanation"):
        pgig.Explanation.load(path)
    with pytest.raises(PgigError, match="no explanation at"):
        pgig.Explanation.load(tmp_path / "none")
    patterns = tmp_path / "patterns.safetensors"
    pgig.Patterns({"a": torch.ones(2)}).save(patterns)
    with pytest.raises(PgigError, match="does not hold an explanation"):
        pgig.Explanation.load(patterns)


def test_notebooks_show_it_and_names_are_no_markup(found):
    shown = found["gradient"]._repr_html_()
    assert shown.count("data:image/png;base64,") == 3
    assert "The darker the purple" in shown  # a gradient has no sides
    odd = pgig.explain(network("chain"), images(), {"<b>": "gradient"})["<b>"]
    assert "<b>" not in odd._repr_html_()


def test_other_inputs_and_scores():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3).eval()
    rows = pgig.explain(model, torch.randn(2, 4), "gradient", [2, 0])["gradient"]
    assert rows.target.tolist() == [2, 0]
    assert "data:" not in rows._repr_html_()
    with pytest.raises(PgigError, match="not one of images"):
        rows.heatmap()
    both = pgig.explain(lambda a, b: model(a) + model(b), (torch.randn(2, 4), torch.randn(2, 4)), "gradient", 1)
    assert isinstance(both["gradient"].attribution, tuple)
    assert both["gradient"].weights_digest is None
    own = pgig.explain(model, torch.randn(2, 4), "gradient", score=lambda output: output.sum(1))["gradient"]
    assert own.target is None
    half = pgig.explain(model.bfloat16(), torch.randn(2, 4).bfloat16(), "gradient", 1)["gradient"]
    assert half.attribution.dtype == numpy.float32


def test_options_are_for_those_that_have_them_and_unknown_ones_are_refused():
    model, x = network("chain"), images()
    found = pgig.explain(model, x, "gradient,integrated_gradients,occlusion+window=5+stride=5", steps=3)
    assert found["integrated_gradients"].options["steps"] == 3
    assert "steps" not in found["gradient"].options
    with pytest.raises(PgigError, match="no method here has an option 'speed'"):
        pgig.explain(model, x, "gradient", speed=3)
    with pytest.raises(PgigError, match="given twice"):
        pgig.explain(model, x, "integrated_gradients+steps=4", steps=3)


def test_options_reach_every_explainer_that_has_them_and_nothing_is_swallowed():
    model, x = network("chain"), images()
    found = pgig.explain(model, x, "occlusion", 1, window=5, stride=5)["occlusion"]
    numpy.testing.assert_allclose(found.attribution, pgig.occlusion(model, x, 1, window=5, stride=5))
    assert found.options["window"] == 5
    for wrong in ({"bacth_size": 3}, {"steps": 3}):
        with pytest.raises(PgigError, match="no method here has an option"):
            pgig.explain(model, x, "occlusion+window=5+stride=5", 1, **wrong)
    with pytest.raises(PgigError, match="does not take forward_args"):
        pgig.explain(lambda x, y: model(x), x, {"mine": lambda *_: x}, 1, forward_args=(x,))
    subject = pgig.Subject(model, at="0")
    with pytest.raises(PgigError, match="explains inputs, not the output of a layer"):
        pgig.explain(subject, subject.inner(x), {"mine": lambda *_: x}, 1, forward_args=(x,))
    with pytest.raises(PgigError, match="batch_size must be"):
        pgig.explain(model, x, "gradient", 1, batch_size=-1)
    with pytest.raises(PgigError, match="have no batch axis"):
        pgig.explain(model, x[0], "gradient", 1)


def test_occlusion_of_a_function_is_computed_whole():
    model, x = network("chain"), images()
    found = pgig.occlusion(lambda given: model(given), x, 1, window=5, stride=5)
    torch.testing.assert_close(found, pgig.occlusion(model, x, 1, window=5, stride=5))


def test_many_members_keep_their_order(tmp_path):
    members = tuple(numpy.full((1, 2), float(n)) for n in range(12))
    pgig.Explanation("mine", members, members).save(tmp_path / "many.safetensors")
    again = pgig.Explanation.load(tmp_path / "many.safetensors")
    assert [float(member[0, 0]) for member in again.attribution] == list(range(12))


def test_progress_ends_at_its_total():
    said = []
    pgig.explain(
        network("chain"), images(), "gradient,vargrad,occlusion+window=5+stride=5", 1,
        progress=lambda done, total: said.append((done, total)),
    )  # fmt: skip
    assert said == sorted(said)
    assert said[-1][0] == said[-1][1] == 3 * (1 + 25 + 100)  # occlusion counts hundredths of its windows


def test_what_is_registered_is_known_by_name():
    pgig.register("ones", lambda model, x, target: torch.ones_like(x))
    try:
        found = pgig.explain(network("chain"), images(), "ones,gradient", 1)
        assert (found["ones"].attribution == 1).all()
        with pytest.raises(PgigError, match="already"):
            pgig.register("ones", lambda model, x, target: x)
    finally:
        unregister("ones")
    with pytest.raises(PgigError, match="unknown method 'ones'"):
        pgig.explain(network("chain"), images(), "ones", 1)
    for wrong in ("all", "a,b", "a:b", "a+b", "", 3, "1x"):
        with pytest.raises(PgigError, match="an explainer's name"):
            pgig.register(wrong, lambda model, x, target: x)
    with pytest.raises(PgigError, match="already"):
        pgig.register("gradient", lambda model, x, target: x)
    with pytest.raises(PgigError, match="an explainer is a method, a function"):
        pgig.register("three", 3)
