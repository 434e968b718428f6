"""Explanations in notebooks: one is executed, and what it shows is looked at in a browser."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from commands import with_pictures
from test_browser import CHROMIUM, QUIET, Seen

import pgig
from pgig.errors import PgigError
from pgig.plugins import forgotten_afterwards
from pgig.vision import Preprocess, load_model

pytest.importorskip("anywidget")
SMALL = Preprocess(size=32, resize=32)
NOTEBOOK = """
import pgig
from net import make
from pgig.vision import Preprocess

small = Preprocess(size=32, resize=32)
pgig.widget(make().eval(), "cat.png", ["integrated_gradients", "occlusion"], preprocess=small, names=list("abcdef"))
"""
EXPLANATION = """
x = small.normalise(small.pixels("cat.png"))[None]
pgig.explain(make().eval(), x, "integrated_gradients")["integrated_gradients"]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with_pictures(tmp_path)
    monkeypatch.chdir(tmp_path)
    with forgotten_afterwards():  # the module of the working folder
        yield tmp_path


def model() -> torch.nn.Module:
    return load_model("net:make")


def test_the_widget_holds_all_that_its_sliders_need(folder):
    found = pgig.widget(model(), "cat.png", ["integrated_gradients", "occlusion"], preprocess=SMALL)
    assert [card["name"] for card in found.maps["maps"]] == ["integrated_gradients", "occlusion"]
    assert [order["name"] for order in found.removal["orders"]] == ["integrated_gradients", "occlusion", "random order"]
    json.dumps([found.maps, found.removal])  # plain values


def test_a_class_can_be_asked_for_and_patterns_are_needed(folder):
    found = pgig.widget(model(), "cat.png", "gradient", 4, preprocess=SMALL, names=list("abcdef"))
    assert found.maps["title"] == "Why “e”?"
    assert found.removal["classes"][0] == "e"
    with pytest.raises(PgigError, match="needs patterns"):
        pgig.widget(model(), "cat.png", "pgig", preprocess=SMALL)
    some = pgig.widget(model(), "cat.png", ["pgig", "gradient"], preprocess=SMALL)
    assert some.maps["left_out"] == {"pgig": "it needs patterns"}
    module = model()
    subject = pgig.Subject(module, {"0": torch.ones_like(module[0].weight), "4": torch.ones_like(module[4].weight)})
    assert [card["name"] for card in pgig.widget(subject, "cat.png", "pgig", preprocess=SMALL).maps["maps"]] == ["pgig"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"image": "nothing.png"}, "no image"),
        ({"image": "net.py"}, "cannot read"),
        ({"methods": "lime"}, "unknown method"),
        ({"target": 99}, "99"),
        ({"fill": "glitter"}, "unknown fill"),
    ],
)
def test_bad_input_is_refused(folder, given, told):
    with pytest.raises(PgigError, match=told):
        pgig.widget(model(), **{"image": "cat.png", "methods": "gradient", "preprocess": SMALL, **given})


def _executed(folder: Path) -> list[Any]:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    cells = [nbformat.v4.new_code_cell(text) for text in (NOTEBOOK, EXPLANATION)]
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": ""}})
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    states = notebook.metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    return [*(cell.outputs[-1].data for cell in notebook.cells), states]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_notebook_shows_widget_and_explanation(folder, tmp_path):
    widget, explanation, states = _executed(folder)
    assert "application/vnd.jupyter.widget-view+json" in widget
    assert "data:image/png;base64," in explanation["text/html"]
    (state,) = [found["state"] for found in states.values() if "removal" in found["state"]]
    assert len(state["maps"]["maps"]) == 2
    if CHROMIUM is None:
        pytest.skip("needs Chromium for a look at it: apt-get install chromium")
    _look(state, tmp_path)


def _look(state: dict[str, Any], folder: Path) -> None:
    """What the notebook's page would run, run: the module that the widget brings, on its own values."""
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        page = browser.new_page(viewport={"width": 900, "height": 900})
        seen = Seen(page)
        page.set_content("<main></main>")
        page.evaluate(
            """async ([script, values]) => {
              const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
              const { default: widget } = await import(address);
              widget.render({ model: { get: name => values[name] }, el: document.querySelector("main") });
            }""",
            [state["_esm"], {name: state[name] for name in ("maps", "removal", "_style")}],
        )
        page.wait_for_selector(".pg-card")
        assert page.locator(".pg-map").count() == 2
        before = page.locator(".pg-told").text_content()
        page.locator(".pg-long").fill("9")
        assert page.locator(".pg-told").text_content() != before
        page.screenshot(path=folder / "widget.png", full_page=True)
        assert seen.complaints == []
        browser.close()


def test_an_explanation_shows_itself(folder):
    x = SMALL.normalise(SMALL.pixels("cat.png"))[None]
    html = pgig.explain(model(), x, "gradient")["gradient"]._repr_html_()
    assert "<table>" in html
    assert numpy.char.count(html, "data:image/png;base64,") == 1
