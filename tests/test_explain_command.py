"""`pgig explain` on the default network: questions, files, the page, and what becomes of what does not fit."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest
import torch
from commands import FACTORY, run, with_pictures
from PIL import Image

import pgig
from pgig.explainers.reading import reading_of
from pgig.explainers.registry import QUICK_METHODS, SETS, explainers, known_explainers
from pgig.measures.top_tenth import agreement, top_tenth
from pgig.methods.table import METHODS
from pgig.vision.classes import class_of, default_classes, imagenet_classes
from pgig.vision.models import load_model

SMALL = ("--model", "net:make", "--size", "32", "--resize", "32")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return with_pictures(tmp_path)


def test_the_default_network_explains_without_a_flag(folder):
    done = run(folder, "explain", "cat.png", "--steps", "2", "--samples", "2")
    assert done.returncode == 0, done.stderr
    assert "those that come with pgig, from 500 photographs" in done.stderr
    assert {path.stem for path in (folder / "explained" / "cat").glob("*.png")} == {*QUICK_METHODS, "sheet"}
    assert re.search(r"class \d+ +\w", done.stdout)  # with names
    page = (folder / "explained" / "index.html").read_text()
    assert "Which should I believe?" in page
    for name in QUICK_METHODS:
        assert f"<h4>{name}</h4>" in page
        assert reading_of(explainers([name])[name]).sentence in page.replace("&#39;", "'")


def test_what_is_asked_can_be_several_things(folder):
    call = ("explain", "cat.png", *SMALL, "--classes", "names.txt", "--methods", "integrated_gradients,gradient")
    done = run(folder, *call, "--target", "NAME 2", "--target", "4", "--top", "1", "--contrast", "name 0,5", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (image,) = found["images"]
    likeliest = image["predictions"][0]["class"]
    asked = [question["target"] for question in image["questions"]]
    assert asked == [*dict.fromkeys([2, 4, likeliest]), None]
    contrast = image["questions"][-1]
    assert contrast["question"] == "Why “name 0” rather than “name 5”?"
    for question in image["questions"]:
        for method in question["methods"].values():
            assert all((folder / "explained" / file).exists() for file in method["files"])
        assert all((folder / "explained" / sheet).exists() for sheet in question["sheets"])


def test_a_contrast_is_the_difference_of_two_explanations(folder):
    """Gradients are linear in the score: that of a difference is the difference of those."""
    call = ("explain", "cat.png", *SMALL, "--methods", "gradient", "--score", "logit", "--save-arrays")
    assert run(folder, *call, "--target", "1", "--target", "3", "--contrast", "1,3").returncode == 0
    arrays = {path.parent.name: numpy.load(path) for path in folder.glob("explained/cat/*/gradient.npy")}
    difference = arrays["class-1"] - arrays["class-3"]
    assert numpy.abs(difference).max() > 0
    numpy.testing.assert_allclose(arrays["class-1-rather-than-3"], difference, atol=1e-6)


def test_a_method_that_does_not_fit_is_left_out_and_the_others_go_on(folder):
    (folder / "smooth.py").write_text(FACTORY.replace("nn.ReLU()", "nn.Tanh()"))
    call = ("--model", "smooth:make", *SMALL[2:], "--methods")
    done = run(folder, "explain", "cat.png", *call, "guided_backprop,gradient")
    assert done.returncode == 0, done.stderr
    assert "left out: guided_backprop (" in done.stderr
    assert "left out: guided_backprop (" in (folder / "explained" / "index.html").read_text()
    assert (folder / "explained" / "cat" / "gradient.png").exists()
    done = run(folder, "explain", "cat.png", *call, "guided_backprop", "--out", "other")
    assert done.returncode == 2
    assert done.stderr.startswith("pgig: ")


def test_maps_are_written_as_they_get_ready(folder):
    """An explainer that ends the command leaves the maps before it."""
    (folder / "ending.py").write_text("def stop(model, inputs, targets):\n    raise KeyboardInterrupt\n")
    done = run(folder, "explain", "dog.png", "cat.png", *SMALL, "--methods", "gradient,ending:stop")
    assert done.returncode == 130
    assert (folder / "explained" / "dog" / "gradient.png").exists()
    assert "no picture was finished; finished maps are in explained" in done.stderr


def test_pages_are_for_all_pictures_and_fetch_nothing(folder):
    done = run(folder, "explain", "cat.png", "dog.png", *SMALL, "--methods", "gradient")
    assert done.returncode == 0, done.stderr
    page = (folder / "explained" / "index.html").read_text()
    assert page.count('<section class="picture"') == 2
    assert 'id="search"' in page
    for address in re.findall(r"(?:src|href)=\"([^\"]+)\"|url\(([^)]+)\)", page):
        assert "".join(address).startswith(("data:", "#"))


@pytest.mark.parametrize("name", known_explainers())
def test_every_method_says_how_to_read_it(name):
    """Those that are never negative are drawn in one colour, and those that are drawn in two say what each means."""
    reading = reading_of(explainers([name])[name])
    assert reading.sentence.endswith(".")
    assert ("Red" in reading.sentence and "lue" in reading.sentence) == reading.signed
    absolute = explainers([f"{name}+absolute"]) if name in METHODS else {}
    assert not any(reading_of(e).signed for e in absolute.values())


def test_quick_methods_are_those_that_help_names(folder):
    text = " ".join(run(folder, "explain", "--help").stdout.replace("│", " ").split())
    assert f"quick: {', '.join(QUICK_METHODS[:-1])} and {QUICK_METHODS[-1]}" in text.replace("`", "")
    assert set(SETS) == {"all", "quick"}
    assert len(QUICK_METHODS) == 5


def test_classes_go_by_number_and_name():
    names = imagenet_classes()
    assert len(names) == 1000
    assert class_of("egyptian  CAT", names, 1000) == class_of("285", names, 1000) == 285
    assert default_classes("vgg16", "vgg16.pth", None, 1000) == names
    nothing = [("vgg16", None, 10), ("net:make", None, 1000), ("vgg16", "random", 1000)]
    assert [default_classes(model, weights, None, count) for model, weights, count in nothing] == [[], [], []]
    labelled = SimpleNamespace(config=SimpleNamespace(id2label={0: "yes", 1: "no"}))
    assert default_classes("hf:some", None, labelled, 2) == ["yes", "no"]
    assert default_classes("hf:some", None, labelled, 3) == []


def test_removing_the_top_tenth_is_what_it_says():
    """On a model that counts the brightness of one corner, a map of that corner takes all of it."""
    x = torch.zeros(1, 1, 56, 56)
    corner = torch.zeros(56, 56, dtype=torch.bool)
    corner[:16, :16] = True
    x[0, 0, corner] = torch.arange(256.0) % 2  # patches of 4 x 4 have a mean of one half
    maps = {"right": corner.double().numpy(), "wrong": (~corner).double().numpy()}
    found = top_tenth(lambda given: (given[:, 0] * corner * x[0, 0]).sum((1, 2)), x, maps, "it", 0)
    assert found.before == 128
    assert found.after["wrong"] == 128
    # 16 patches, of 196 in all, and a tenth are 20: all of them lose half of their brightness
    assert found.after["right"] == 64
    assert 64 < found.after_random < 128
    assert found.shown["right"][corner].all()
    assert found.shown["right"].mean() == pytest.approx(20 / 196)
    assert agreement(maps)["right"] == pytest.approx(-1)
    assert agreement({"right": maps["right"]}) == {}


@pytest.mark.parametrize("size", [1, 3, 8, 32, 56, 224])
def test_removing_removes_something_at_any_size(size):
    x = torch.rand(1, 3, size, size, generator=torch.Generator().manual_seed(0))
    maps = {"it": numpy.random.default_rng(0).random((size, size))}
    seen = []

    def scores(given):
        seen.append(given)
        return given.sum((1, 2, 3))

    found = top_tenth(scores, x, maps, "it", 0, at_once=1)
    assert [len(given) for given in seen] == [1] * 10
    changed = [bool((given != x).any()) for given in seen[1:]]
    assert all(changed) == (size > 1)  # the mean of one pixel is itself
    assert found.before == pytest.approx(float(x.sum()), rel=1e-5)


def test_the_default_network_knows_what_it_sees():
    model = load_model("efficientnet_lite0")
    patterns = pgig.find_patterns(model)
    assert patterns is not None
    assert patterns.facts["images"] == 500
    assert patterns.facts["regime"] == "auto"
    assert "quality" in patterns.facts
    x = torch.rand(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    found = pgig.attribute("pgig", model, x, patterns="auto", steps=2)
    assert torch.equal(found, pgig.attribute("pgig", model, x, patterns=patterns, steps=2))
    with pytest.raises(pgig.PgigError, match="or 'auto', got 'other'"):
        pgig.attribute("pgig", model, x, patterns="other")


@pytest.mark.parametrize("name", ["pattern_attribution", "integrated_gradients", "occlusion", "gradient"])
def test_the_opposite_question_has_the_opposite_answer(folder, name):
    """Also for methods that begin with the score itself, whose signs would turn where that is negative."""
    assert run(folder, "patterns", *SMALL, "--images", ".").returncode == 0
    call = ("explain", "cat.png", *SMALL, "--methods", name, "--contrast", "1,3", "--contrast", "3,1", "--save-arrays")
    assert run(folder, *call).returncode == 0
    one, other = (numpy.load(path) for path in sorted(folder.glob(f"explained/cat/*/{name}.npy")))
    assert numpy.abs(one).max() > 0
    numpy.testing.assert_allclose(one, -other, atol=1e-5 * numpy.abs(one).max())
    kept = pgig.Explanation.load(folder / "explained" / "cat" / "class-1-rather-than-3" / f"{name}.safetensors")
    assert kept.score == "logit 1 - logit 3"


def test_maps_that_are_zero_rank_nothing(folder):
    (folder / "own.py").write_text("def zero(model, inputs, targets):\n    return inputs * 0\n")
    done = run(folder, "explain", "cat.png", *SMALL, "--methods", "own:zero,gradient,random", "--json")
    assert done.returncode == 0, done.stderr
    methods = json.loads(done.stdout)["images"][0]["questions"][0]["methods"]
    assert methods["own:zero"]["zero_everywhere"]
    assert methods["own:zero"]["value_without_top_tenth"] is None
    assert methods["gradient"]["agreement"] is None  # noise is no one to agree with, nor is nothing
    assert "Zero everywhere:" in (folder / "explained" / "index.html").read_text()
    done = run(folder, "explain", "cat.png", *SMALL, "--methods", "own:zero", "--out", "other")
    assert "there is nothing to believe" in (folder / "other" / "index.html").read_text()


def test_the_likeliest_can_be_more_than_are_shown(folder):
    done = run(folder, "explain", "cat.png", *SMALL, "--methods", "gradient", "--top", "6", "--json")
    (image,) = json.loads(done.stdout)["images"]
    assert len(image["questions"]) == 6
    assert len(image["predictions"]) == 5
    assert image["source"] == "cat.png"


def test_what_is_not_ours_is_not_replaced(folder):
    (folder / "mine").mkdir()
    (folder / "mine" / "index.html").write_text("my page")
    call = ("explain", "cat.png", *SMALL, "--methods", "gradient", "--out")
    done = run(folder, *call, "mine")
    assert done.returncode == 2
    assert "is not a page of pgig's, and would be replaced: give another --out" in done.stderr
    assert (folder / "mine" / "index.html").read_text() == "my page"
    assert run(folder, *call, "").returncode == run(folder, *call, ".").returncode == 2
    assert run(folder, *call, "o").returncode == 0
    assert "of an earlier run will be replaced" in run(folder, *call, "o").stderr


def test_a_model_for_single_images_is_judged_one_by_one(folder):
    (folder / "single.py").write_text(
        FACTORY
        + "\nclass One(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.net = make()\n"
        "    def forward(self, x):\n        assert len(x) == 1\n        return self.net(x)\n"
    )
    call = ("--model", "single:One", *SMALL[2:], "--methods", "gradient", "--batch-size", "1")
    done = run(folder, "explain", "cat.png", *call)
    assert done.returncode == 0, done.stderr


def test_names_that_look_like_formulas_are_only_names(folder):
    (folder / "cat.png").rename(folder / "a$_$b.png")
    (folder / "names.txt").write_text("\n".join(f"$x_{i}^$" for i in range(6)))
    call = (*SMALL, "--classes", "names.txt", "--methods", "gradient")
    done = run(folder, "explain", "a$_$b.png", *call, "--contrast", "1,2")
    assert done.returncode == 0, done.stderr
    (folder / "short.txt").write_text("one\ntwo\n")
    done = run(folder, "explain", "a$_$b.png", *SMALL, "--classes", "short.txt")
    assert "short.txt has 2 names, and the model 6 classes" in done.stderr


def test_pgig_is_drawn_with_its_sign_when_asked(folder):
    assert run(folder, "patterns", *SMALL, "--images", ".").returncode == 0
    call = ("explain", "cat.png", *SMALL, "--methods", "pgig", "--steps", "2", "--out")
    assert run(folder, *call, "a").returncode == run(folder, *call, "b", "--signed").returncode == 0
    first, second = (Image.open(folder / out / "cat" / "pgig.png").tobytes() for out in ("a", "b"))
    assert first != second
    assert "the other way round" in (folder / "b" / "index.html").read_text()


def test_a_single_output_has_no_share(folder):
    (folder / "single.py").write_text(FACTORY + "\ndef one():\n    return nn.Sequential(make(), nn.Linear(6, 1))\n")
    call = ("explain", "cat.png", "--model", "single:one", *SMALL[2:], "--methods", "gradient,occlusion")
    refused = run(folder, *call)
    assert refused.returncode == 2
    assert "the probability of a single output is always 1" in refused.stderr
    done = run(folder, *call, "--score", "logit")
    assert done.returncode == 0, done.stderr
    assert "100" not in done.stdout
    assert "100 %" not in (folder / "explained" / "index.html").read_text()
    assert "logit" in (folder / "explained" / "index.html").read_text()
