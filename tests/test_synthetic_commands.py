"""`pgig stress`, `pgig truth` and `pgig demo`, as a user runs them."""

import csv
import re
from pathlib import Path

import numpy
import pytest
from commands import run
from PIL import Image

from pgig.synthetic.metrics import COLUMNS

OWN = """
import torch
def mine(model, inputs, targets):
    return torch.ones_like(inputs)
def raising(model, inputs, targets):
    raise KeyError("my own bug")
def broken(model, inputs, targets):
    return inputs * float("nan")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own.py").write_text(OWN)
    return tmp_path


def table(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def size(path: Path) -> tuple[int, int]:
    with Image.open(path) as image:
        return image.size


def test_stress_writes_the_figure_the_numbers_and_the_verdicts(folder):
    done = run(folder, "stress", "--out", "out")
    assert done.returncode == 0, done.stderr
    verdicts = {row["method"]: row for row in table(folder / "out" / "verdicts.csv")}
    passed = {name: (v["follows the target"], v["leaves the distractor alone"]) for name, v in verdicts.items()}
    assert passed == {
        "integrated_gradients": ("yes", "no"), "pattern_attribution": ("no", "yes"), "pgig": ("yes", "yes"),
    }  # fmt: skip
    rows = table(folder / "out" / "stress.csv")
    assert len(rows) == 400
    sums = [float(r["integrated_gradients_x1"]) + float(r["integrated_gradients_x2"]) for r in rows]
    # completeness, to the rule of 100 steps
    numpy.testing.assert_allclose(sums, [float(r["y"]) for r in rows], atol=0.02)
    assert size(folder / "out" / "stress.png")[0] > 800
    assert "integrated_gradients" in done.stdout


def test_stress_takes_other_methods_seeds_and_explainers(folder):
    done = run(folder, "stress", "--method", "gradient", "--method", "own:mine", "--seed", "3", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert [row["method"] for row in table(folder / "out" / "verdicts.csv")] == ["gradient", "own:mine"]


def test_truth_writes_tables_and_sheets(folder):
    call = ("truth", "--setting", "white", "--images", "6", "--methods", "pgig,gradient,own:mine", "--out", "out")
    done = run(folder, *call)
    assert done.returncode == 0, done.stderr
    found = table(folder / "out" / "truth.csv")
    assert {row["method"] for row in found} == {"pgig", "gradient", "own:mine", "chance"}
    assert {row["measure"] for row in found} == set(COLUMNS)
    by_name = {(row["method"], row["measure"]): row for row in found}
    for column in COLUMNS:  # the same everywhere is chance
        assert by_name["own:mine", column]["mean"] == by_name["chance", column]["mean"]
    assert all(float(row["low"]) <= float(row["mean"]) <= float(row["high"]) for row in found)
    images = table(folder / "out" / "truth-images.csv")
    mean = numpy.mean([float(row["mass, |a|"]) for row in images if row["method"] == "pgig"])
    assert mean == pytest.approx(float(by_name["pgig", "mass, |a|"]["mean"]))
    pairs = table(folder / "out" / "truth-comparisons.csv")
    assert {row["other"] for row in pairs} == {"gradient", "own:mine", "chance"}
    assert {row["method"] for row in pairs} == {"pgig"}
    assert size(folder / "out" / "examples-white.png")[1] > 300
    assert size(folder / "out" / "truth.png")[0] > 300


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("stress", "--method", "lime"), "unknown method 'lime'"),
        (("stress", "--seed", "-1"), "the seed must be"),
        (("stress", "--steps", "0"), "steps must be"),
        (("stress", "--method", "own:broken"), "own:broken gave NaN"),
        (("stress", "--method", "own:raising"), "own:raising failed: KeyError: 'my own bug'"),
        (("stress", "--published-patterns", "--seed", "-1"), "the seed must be"),
        (("truth", "--methods", "gradient", "--images", "-3"), "at least one image"),
        (("demo", "--images", "0"), "at least one image"),
        (("stress", "--method", "own:nothing"), "cannot take an explainer from 'own:nothing'"),
        (("truth", "--setting", "grey"), "unknown setting 'grey'"),
        (("truth", "--images", "0", "--methods", "gradient"), "at least one image"),
        (("truth", "--model", "vgg"), "unknown embedded network 'vgg'"),
        (("truth", "--methods", ","), "no method given"),
        (("demo", "--model", "vgg"), "unknown embedded network 'vgg'"),
        (("demo", "--out", "own.py"), "own.py"),
    ],
)
def test_bad_arguments(folder, arguments, message):
    done = run(folder, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_the_demo_makes_one_page_that_needs_nothing_else(folder):
    done = run(folder, "demo", "--out", "out", "--images", "2")
    assert done.returncode == 0, done.stderr
    assert "index.html" in done.stdout
    page = (folder / "out" / "index.html").read_text()
    assert re.findall(r'(?:src|href)="(?!data:image/(?:png|webp);base64,)', page) == []
    assert "http" not in re.sub(r"base64,[^\"]*", "", page)
    assert page.count('<img src="data:image/png;base64,') == 4
    assert page.count('<section class="picture"') == 3
    assert page.count("What to conclude:") == 6
    assert 'class="own best"' in page  # PGIG in the stress test
    assert (folder / "out" / "photographs" / "index.html").exists()
    for name in ("pgig", "smoothgrad_ig", "suppressor", "classifier.1"):
        assert name in page
    for name in ("stress.csv", "truth.csv", "truth-images.csv", "patterns.safetensors", "health.txt", "examples.png"):
        assert (folder / "out" / name).stat().st_size > 0
