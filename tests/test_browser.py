"""Pages in a real browser: Chromium, where it is installed."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
from commands import FACTORY, run
from PIL import Image

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# a browser that looks for updates would be a connection of its own
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explained")
    (folder / "net.py").write_text(FACTORY)
    (folder / "names.txt").write_text("apple\npear\nplum\nfig\nlime\nkiwi\n")
    rng = numpy.random.default_rng(0)
    for name in ("one", "two", "three"):
        Image.fromarray(rng.integers(0, 255, (40, 50, 3), numpy.uint8)).save(folder / f"{name}.png")
    done = run(
        folder, "explain", "one.png", "two.png", "three.png", "--model", "net:make", "--size", "32", "--resize", "32",
        "--classes", "names.txt", "--methods", "integrated_gradients,vargrad", "--steps", "3", "--samples", "3",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "explained" / "index.html"


class Seen:
    """A page, with what it asked for and complained of."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.fetched: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.fetched.append(request.url))
        page.on("console", lambda message: self.complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))


@pytest.fixture(params=[(1400, "light"), (390, "light"), (1400, "dark")], ids=["wide", "phone", "dark"])
def seen(request: pytest.FixtureRequest, page_file: Path) -> Iterator[Seen]:
    sync_api = pytest.importorskip("playwright.sync_api")
    width, scheme = request.param
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        found = Seen(page)
        page.goto(page_file.as_uri())
        yield found
        browser.close()


def test_the_page_of_explanations_works(seen):
    page = seen.page
    assert page.locator(".card").count() == 6
    card = page.locator(".card").nth(1)
    opacity = "card => getComputedStyle(card.querySelector('.map')).opacity"
    before = float(card.evaluate(opacity))
    card.locator("input[type=range]").fill("20")
    assert float(card.evaluate(opacity)) == pytest.approx(0.2) != before
    assert float(page.locator(".card").nth(0).evaluate(opacity)) == before  # its own slider alone
    page.locator("#opacity").fill("55")
    assert {float(page.locator(".card").nth(i).evaluate(opacity)) for i in range(6)} == {0.55}

    card.locator("input[value=top]").check()
    assert card.locator(".alone").is_visible()
    assert not page.locator(".card").nth(0).locator(".alone").is_visible()
    page.locator("input[name=all][value=map]").check()
    assert not card.locator(".alone").is_visible()
    assert float(card.evaluate(opacity)) == 1
    assert card.get_attribute("data-view") == "map"

    # by keyboard: the arrows move the choice
    card.locator("input[value=map]").focus()
    page.keyboard.press("ArrowRight")
    assert card.get_attribute("data-view") == "top"

    names = [page.locator(".gallery li").nth(i).get_attribute("data-words") for i in range(3)]
    page.locator("#search").fill("two")
    shown = [page.locator(".gallery li").nth(i).is_visible() for i in range(3)]
    assert shown == ["two" in name for name in names]
    page.locator("#search").fill("nothing of the kind")
    assert page.locator("#none").is_visible()
    page.locator("#search").fill("")

    wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wider <= 0  # nothing sticks out, on a phone either
    assert {url.partition(":")[0] for url in seen.fetched} <= {"file", "data"}
    assert len([url for url in seen.fetched if url.startswith("file")]) == 1
    assert seen.complaints == []


def test_pictures_are_drawn(seen):
    loaded = "[...document.images].every(image => image.complete && image.naturalWidth > 0)"
    seen.page.evaluate("document.querySelectorAll('img').forEach(image => image.loading = 'eager')")
    seen.page.wait_for_function(loaded)
    assert seen.page.evaluate("document.images.length") >= 12
