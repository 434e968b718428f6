"""docs/adding.md, as it stands: each file is written outside of the package and used."""

import importlib
import re
import sys
from pathlib import Path

import numpy
import pytest
import torch
from commands import FACTORY, noise_picture, run
from networks import images, network

import pgig
from pgig.degradation import Protocol
from pgig.explainers.registry import unregister
from pgig.measures import JUDGES, judge
from pgig.plugins import forgotten_afterwards
from pgig.records.measures import MEASURES
from pgig.records.part_files import read_rows
from pgig.runs.benchmark import run_benchmark
from pgig.runs.prepare import prepare
from pgig.runs.request import Request
from pgig.vision import Preprocess

PAGE = (Path(__file__).parents[1] / "docs" / "adding.md").read_text()
BLOCKS = dict(re.findall(r"## An? (\w+)\n.*?```python\n(.*?)```", PAGE, re.S))


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes a page's file into a folder and imports it from there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(what: str):
        (tmp_path / f"my_{what}.py").write_text(BLOCKS[what])
        importlib.invalidate_caches()
        sys.modules.pop(f"my_{what}", None)
        return importlib.import_module(f"my_{what}")

    return write


def test_every_page_is_short():
    assert list(BLOCKS) == ["method", "explainer", "measure", "backend", "architecture"]
    assert all(len([line for line in block.splitlines() if line.strip()]) <= 10 for block in BLOCKS.values())


def test_a_method(written):
    found = written("method").explained(network("chain"), images())
    assert found.shape == images().shape
    assert not torch.allclose(found, pgig.attribute("integrated_gradients", network("chain"), images()))


def test_an_explainer(written, tmp_path):
    written("explainer")
    try:
        found = pgig.explain(network("chain"), images(), "input_itself,gradient", 1)["input_itself"]
        numpy.testing.assert_array_equal(found.attribution, images())
        assert "The input, as a control" in run(tmp_path, "methods").stdout
    finally:
        unregister("input_itself")


def test_a_command_that_imports_an_explainer_forgets_what_that_registered(tmp_path):
    (tmp_path / "net.py").write_text(FACTORY)
    (tmp_path / "mine.py").write_text(BLOCKS["explainer"])
    noise_picture(numpy.random.default_rng(0)).save(tmp_path / "cat.png")
    call = ("explain", "cat.png", "--model", "net:make", "--size", "32", "--resize", "32", "--methods")
    for _ in range(2):
        assert run(tmp_path, *call, "mine:input_itself").returncode == 0
    with pytest.raises(pgig.PgigError, match="no explainer was registered"):
        unregister("input_itself")


def test_an_explainer_of_a_package(tmp_path, monkeypatch):
    """By its entry point, as an installed package has it."""
    from pgig.explainers import registry

    (tmp_path / "my_package.py").write_text(BLOCKS["explainer"].replace("pgig.register", "()  # pgig.register"))
    info = tmp_path / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[pgig.explainers]\ninput_itself = my_package:input_itself\nbroken = my_package:nothing\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._entries.cache_clear()
    try:
        found = pgig.explain(network("chain"), images(), "input_itself", 1)["input_itself"]
        numpy.testing.assert_array_equal(found.attribution, images())
        with pytest.raises(pgig.PgigError, match=r"the explainer broken \(my_package:nothing\) cannot be loaded"):
            pgig.explain(network("chain"), images(), "broken", 1)
    finally:
        registry._entries.cache_clear()
        sys.modules.pop("my_package", None)


def test_a_measure(written):
    written("measure")
    try:
        attributions = pgig.attribute_all(["gradient", "vargrad"], network("chain"), images(), 1)
        found = judge("concentration", network("chain"), images(), torch.tensor([1, 1, 1]), attributions)
        for name, attribution in attributions.items():
            sizes = attribution.abs().flatten(1)
            wanted = sizes.max(1).values / sizes.sum(1)
            numpy.testing.assert_allclose(found[name]["top share"], wanted.numpy())
        with pytest.raises(pgig.PgigError, match="already"):
            pgig.measures.register(MEASURES["concentration"], JUDGES["concentration"])
    finally:
        del MEASURES["concentration"], JUDGES["concentration"]


def test_a_backend_and_an_architecture(written, tmp_path):
    """Equal requests give equal records, whatever the backend."""
    assert BLOCKS["architecture"].split("return ")[1].strip() in FACTORY
    (tmp_path / "net.py").write_text(
        BLOCKS["architecture"].replace("def make():", "import torch\ndef make():\n    torch.manual_seed(0)")
    )
    (tmp_path / "photos").mkdir()
    rng = numpy.random.default_rng(0)
    for number in range(20):
        noise_picture(rng).save(tmp_path / "photos" / f"{number:02d}.png")
    found = {}
    for name, backend in (("usual", None), ("other", written("backend").Backwards())):
        request = Request(
            model="net:make", images=tmp_path / "photos", out=tmp_path / name, methods=("gradient", "random"),
            preprocess=Preprocess(32, 32), protocol=Protocol(patch=8, steps=4),
        )  # fmt: skip
        with forgotten_afterwards():
            standing = run_benchmark(prepare(request), lambda _: None, backend)
        assert standing.done == standing.total == 20
        found[name] = [{k: v for k, v in row.items() if k != "seconds"} for row in read_rows(tmp_path / name)]
    assert found["usual"] == found["other"]
