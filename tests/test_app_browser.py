"""The app in a real browser: Chromium, where it is installed, on the default network, by its command."""

import base64
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import pgig_call, with_pictures
from test_browser import CHROMIUM, QUIET, Seen

pytest.importorskip("gradio")
sync_api = pytest.importorskip("playwright.sync_api")
photographs = pytest.importorskip("pgig.runs.photographs").photographs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium"),
]
LONG = 60_000  # milliseconds
READY = ".pg-card:not(.pg-waiting)"


class App:
    def __init__(self, process: "subprocess.Popen[str]", address: str) -> None:
        self.process, self.address = process, address

    @property
    def seconds(self) -> float:
        """That its processors have worked."""
        user, system = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    folder, temporary = tmp_path_factory.mktemp("app"), tmp_path_factory.mktemp("temporary")
    with subprocess.Popen(
        pgig_call("app", "--port", "0"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
        env={**os.environ, "TMPDIR": str(temporary)},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/", line)
        assert found, line + (process.stderr.read() if process.stderr else "")
        yield App(process, found[0])
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert "Traceback" not in (process.stderr.read() if process.stderr else "")
        assert [*folder.iterdir(), *temporary.glob("*gradio*"), *temporary.glob("pgig*")] == [], "it leaves nothing"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield made
        made.close()


@pytest.fixture
def seen(app: App, browser: Any, request: pytest.FixtureRequest) -> Iterator[Seen]:
    width, scheme = getattr(request, "param", (1400, "light"))
    page = browser.new_page(viewport={"width": width, "height": 1000}, color_scheme=scheme)
    page.set_default_timeout(LONG)
    found = Seen(page)
    page.goto(app.address)
    page.wait_for_selector("#picker .pg-drop")
    yield found
    page.close()
    elsewhere = [url for url in found.fetched if not url.startswith((app.address, "data:", "blob:"))]
    assert elsewhere == [], "a request has left this machine's loopback"
    assert found.complaints == []


def drop(page: Any, data: bytes, name: str) -> None:
    """A file, as a person drops it."""
    page.evaluate(
        """([data, name]) => {
          const bytes = Uint8Array.from(atob(data), letter => letter.charCodeAt(0));
          const moved = new DataTransfer();
          moved.items.add(new File([bytes], name));
          const zone = document.querySelector("#picker .pg-drop");
          for (const kind of ["dragover", "drop"]) {
            zone.dispatchEvent(new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: moved }));
          }
        }""",
        [base64.b64encode(data).decode(), name],
    )


def wait(page: Any, condition: str, *given: Any) -> None:
    page.wait_for_function(condition, arg=given[0] if given else None, polling=100)


def wait_for_maps(page: Any, count: int, place: str = "#maps") -> None:
    wait(page, f"n => document.querySelectorAll('{place} {READY}').length >= n", count)


def wait_for_title(page: Any, text: str) -> None:
    wait(page, "text => document.querySelector('#maps .pg-title').textContent.includes(text)", text)


def only(page: Any, *methods: str) -> None:
    """Choose these methods and no others."""
    for box in page.locator("#methods label").all():
        if (box.text_content().strip() in methods) != box.locator("input").is_checked():
            box.locator("input").click()


def save(page: Any, name: str, tmp_path: Path) -> None:
    """For docs/app.md, where PGIG_SCREENSHOTS names a folder."""
    folder = os.environ.get("PGIG_SCREENSHOTS")
    page.wait_for_timeout(400)
    path = (Path(folder) if folder else tmp_path) / f"{name}.jpg"
    page.screenshot(path=path, full_page=True, type="jpeg", quality=85)
    assert path.stat().st_size > 10_000


def test_a_photograph_is_explained_and_another_class_asked_for(seen, tmp_path):
    page = seen.page
    drop(page, photographs()[0].read_bytes(), "chelsea.png")
    page.wait_for_selector("#classes .pg-class")
    assert page.locator("#classes .pg-class").count() == 5
    wait_for_maps(page, 5)
    wait(page, "() => !document.querySelector('#maps .pg-waiting')")
    first = page.locator("#maps .pg-title").text_content()
    save(page, "app-explain", tmp_path)

    # sliders compute nothing
    asked = len(seen.fetched)
    card = page.locator("#maps .pg-card").first
    opacity = "card => getComputedStyle(card.querySelector('.pg-map')).opacity"
    page.locator("#maps input[aria-label=Opacity]").fill("30")
    assert float(card.evaluate(opacity)) == pytest.approx(0.3)
    page.locator("#maps input[value=top]").check()
    shares = []
    for share in ("10", "40"):
        page.locator("#maps input[aria-label='The most important']").fill(share)
        page.wait_for_timeout(200)
        shares.append(
            card.evaluate("""card => { const c = card.querySelector('canvas');
          const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
          let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n / (d.length / 4); }""")
        )
    assert shares == pytest.approx([0.1, 0.4], abs=0.01)
    assert [url for url in seen.fetched[asked:] if not url.startswith(("data:", "blob:"))] == []

    # a class switched, two held for the difference, and back: at once
    second = page.locator("#classes .pg-name").nth(1).text_content()
    page.locator("#classes .pg-class").nth(1).click()
    wait_for_title(page, f"Why “{second}”?")
    wait_for_maps(page, 5)
    page.locator("#classes .pg-rather").nth(0).click()
    wait_for_title(page, "rather than")
    wait(page, "() => document.querySelector('#status .pg-status').textContent.endsWith('maps')")
    page.evaluate("""() => { window.said = []; new MutationObserver(() => window.said.push(
        document.querySelector('#status .pg-status').textContent)).observe(document.querySelector('#status'),
        { subtree: true, childList: true, characterData: true }); }""")
    page.locator("#classes .pg-class").nth(0).click()
    wait_for_title(page, first)
    wait_for_maps(page, 5)
    done = "document.querySelector('#status .pg-status').textContent.endsWith('maps')"
    wait(page, f"() => window.said.length > 0 && {done}")
    said = page.evaluate("window.said")
    assert not [text for text in said if "in work" in text and "getting ready" not in text], "it is kept"
    assert page.evaluate("document.activeElement.className") == "pg-class", "the keyboard stays where it was"


def test_zoom_and_crosshair_are_the_same_in_all_maps(seen):
    page = seen.page
    only(page, "gradient", "guided_backprop")
    page.locator("#picker .pg-example").nth(1).focus()
    page.keyboard.press("Enter")
    wait_for_maps(page, 2)
    stack = page.locator("#maps .pg-stack").first
    stack.focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "+"):
        page.keyboard.press(key)
    page.wait_for_timeout(400)
    panes = [pane.evaluate("pane => getComputedStyle(pane).transform") for pane in page.locator("#maps .pg-pane").all()]
    assert len(set(panes)) == 1
    assert panes[0].startswith("matrix(1.5")
    assert all("At the crosshair: above" in text for text in page.locator("#maps .pg-here").all_text_contents())
    lines = page.locator("#maps .pg-down").all()
    places = [line.evaluate("line => line.offsetLeft / line.parentNode.offsetWidth") for line in lines]
    assert len(places) == 2
    assert places[0] == pytest.approx(places[1], abs=0.01)


def test_parts_are_taken_away_and_painted_over(seen, tmp_path):
    page = seen.page
    only(page, "pgig", "occlusion")
    page.locator("#picker .pg-example").nth(1).click()
    wait_for_maps(page, 2)
    page.get_by_role("tab", name="Doubt").click()
    page.wait_for_selector("#brush .pg-bar-row")
    page.locator("#take-away").click()
    wait(page, "() => document.querySelector('#doubt-status').textContent.includes('done')")
    slider = page.locator("#removal input[type=range]")
    told = page.locator("#removal .pg-told")
    asked, before = len(seen.fetched), told.text_content()
    slider.fill("40")
    assert told.text_content() != before
    assert told.text_content().count("espresso") >= 3  # by two methods and in a random order
    assert page.locator("#removal .pg-chart path").count() == 3 + 4
    assert [url for url in seen.fetched[asked:] if not url.startswith(("data:", "blob:"))] == []
    took = float(re.search(r"took ([\d.]+) ms", page.locator("#removal").text_content())[1])
    assert took < 100  # milliseconds; it is about 15, with room for whatever else the machine does
    save(page, "app-doubt", tmp_path)

    canvas = page.locator(".pg-brush")
    canvas.scroll_into_view_if_needed()
    shares = page.locator("#brush .pg-bars").text_content()
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 40, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 120, steps=8)
    page.mouse.up()
    wait(page, "before => document.querySelector('#brush .pg-bars').textContent !== before", shares)
    assert "0.0 % of the picture" not in page.locator("#brush .pg-bars").text_content()
    shares = page.locator("#brush .pg-bars").text_content()
    page.locator("#brush input[type=range]").fill("8")
    canvas.focus()
    for key in (*["ArrowDown"] * 20, " "):  # without a mouse
        page.keyboard.press(key)
    wait(page, "before => document.querySelector('#brush .pg-bars').textContent !== before", shares)
    page.get_by_role("button", name="clear").click()
    wait(page, "() => document.querySelector('#brush .pg-bars').textContent.includes('0.0 % of the picture')")


def test_stop_ends_the_computation(seen, app):
    page = seen.page
    only(page, "smoothgrad_ig")
    page.locator("#picker .pg-example").nth(2).click()
    wait(page, "() => document.querySelector('#status .pg-status').textContent.includes('in work')")
    page.locator("#stop").click()
    wait(page, "() => document.querySelector('#status .pg-status').textContent.includes('stopped')")
    page.wait_for_timeout(1500)  # the chunk that was in work
    begun = app.seconds
    page.wait_for_timeout(1500)
    assert app.seconds - begun < 0.75, "it goes on computing"


def test_what_is_shown_is_what_is_chosen_however_fast_one_clicks(seen):
    """Cards are those of the chips, and of the picture and class chosen last."""
    page = seen.page
    page.locator("#picker .pg-example").nth(2).click()
    page.wait_for_selector("#classes .pg-class")
    only(page, "smoothgrad_ig", "gradient")
    only(page, "gradient", "vargrad")
    for example in (0, 2, 1):
        page.locator("#picker .pg-example").nth(example).click()
    wait_for_title(page, "espresso")
    wait(page, "() => document.querySelector('#status .pg-status').textContent === '2 maps'")
    page.wait_for_timeout(1500)
    assert page.locator("#maps .pg-card h4").all_text_contents() == ["gradient", "vargrad"]
    assert "espresso" in page.locator("#maps .pg-title").text_content()


def test_answers_that_were_lost_on_the_way_are_asked_for_again(seen):
    """Gradio may close its stream just as something is asked: then nothing comes, until one asks again."""
    page = seen.page
    only(page, "gradient")
    lost: list[str] = []

    def lose(route: Any) -> None:
        if lost:
            route.continue_()
            return
        lost.append(route.request.url)
        route.fulfill(status=200, content_type="text/event-stream", body='data: {"msg": "close_stream"}\n\n')

    page.wait_for_timeout(1500)
    page.route("**/gradio_api/queue/data**", lose)
    for number, title in ((1, "espresso"), (0, "cat"), (1, "espresso"), (0, "cat")):
        page.locator("#picker .pg-example").nth(number).click()
        wait_for_title(page, title)
        wait_for_maps(page, 1)
        if lost:
            break
        page.wait_for_timeout(5000)  # a busy machine's stream was still open, so that nobody asked for one
    assert lost


def test_a_picture_can_be_pasted(seen):
    page = seen.page
    only(page, "gradient")
    page.evaluate(
        """data => {
          const bytes = Uint8Array.from(atob(data), letter => letter.charCodeAt(0));
          const moved = new DataTransfer();
          moved.items.add(new File([bytes], "image.png", { type: "image/png" }));
          document.dispatchEvent(new ClipboardEvent("paste", { clipboardData: moved, cancelable: true }));
        }""",
        base64.b64encode(photographs()[1].read_bytes()).decode(),
    )
    wait_for_title(page, "espresso")


def test_leaving_ends_the_computation(app, browser):
    page = browser.new_page()
    page.set_default_timeout(LONG)
    page.goto(app.address)
    page.wait_for_selector("#picker .pg-drop")
    only(page, "smoothgrad_ig")
    page.locator("#picker .pg-example").nth(2).click()
    wait(page, "() => document.querySelector('#status .pg-status').textContent.includes('in work')")
    page.close()
    time.sleep(4)
    begun = app.seconds
    time.sleep(1.5)
    assert app.seconds - begun < 0.75, "it goes on computing for nobody"


def test_garbage_gets_one_sentence_and_names_are_text(seen):
    page = seen.page
    name = "<img src=x onerror=window.hit=1>.jpg"
    drop(page, b"this is no picture", name)
    wait(page, "() => document.querySelector('#picker .pg-said').textContent.includes('cannot read')")
    assert name in page.locator("#picker .pg-said").text_content()
    assert page.locator("#picker .pg-said img").count() == 0
    assert page.evaluate("window.hit") is None
    only(page, "gradient")
    drop(page, photographs()[2].read_bytes(), name.replace(".jpg", ".png"))
    wait_for_maps(page, 1)
    assert page.evaluate("window.hit") is None


def test_open_twice_each_has_its_own(seen, browser, app):
    one = seen.page
    other = browser.new_page()
    other.set_default_timeout(LONG)
    other.goto(app.address)
    other.wait_for_selector("#picker .pg-drop")
    for page, example in ((one, 0), (other, 1)):
        only(page, "gradient", "integrated_gradients")
        page.locator("#picker .pg-example").nth(example).click()
    for page in (one, other):
        wait_for_maps(page, 2)
    titles = [page.locator("#maps .pg-title").text_content() for page in (one, other)]
    assert titles[0] != titles[1]
    assert "espresso" in titles[1]
    other.close()


def test_models_pictures_and_methods_are_compared(seen, tmp_path):
    page = seen.page
    only(page, "gradient", "integrated_gradients", "pgig")
    page.locator("#picker .pg-example").first.click()
    wait_for_maps(page, 3)
    page.get_by_role("tab", name="Compare").click()
    page.locator("#agree").click()
    page.wait_for_selector("#matrix table")
    assert page.locator("#matrix td").count() == 9
    page.locator("#compare-networks").click()
    wait_for_maps(page, 5, "#compared")  # the untrained one has no patterns
    save(page, "app-compare", tmp_path)
    page.locator("#other-picker .pg-example").nth(1).click()
    wait_for_maps(page, 6, "#compared")
    sources = {image.get_attribute("src") for image in page.locator("#compared .pg-photo").all()}
    assert len(sources) == 2


def test_patterns_and_truth_are_shown(seen, tmp_path):
    page = seen.page
    page.get_by_role("tab", name="Patterns").click()
    page.wait_for_selector("#layers .pg-layers")
    assert page.locator("#layers tbody tr").count() > 50
    assert page.locator("#layers .pg-pair").count() == 32
    page.get_by_role("tab", name="Truth").click()
    page.locator("#draw").click()
    wait_for_maps(page, 5, "#truths")
    wait(page, "() => !document.querySelector('#truths .pg-waiting')")
    assert page.locator("#truths .pg-outline").count() == 5
    assert "on the truth (chance" in page.locator("#truths").text_content()
    save(page, "app-truth", tmp_path)


def test_what_is_shown_can_be_saved(seen, tmp_path):
    page = seen.page
    only(page, "gradient", "integrated_gradients")
    page.locator("#picker .pg-example").first.click()
    wait_for_maps(page, 2)
    page.get_by_text("Save, and show me the code").click()
    assert "pgig.explain(" in page.locator("#code").text_content()
    for label, ending in (("Save the page", ".html"), ("Save the arrays", ".zip")):
        with page.expect_download() as download:
            page.get_by_role("button", name=label).click()
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        assert path.suffix == ending
        assert path.stat().st_size > 5_000


def test_another_address_asks_for_a_password(browser, tmp_path):
    with_pictures(tmp_path)
    call = pgig_call("app", "--port", "0", "--host", "0.0.0.0", "--auth", "ada", "--model", "net:make", "--size", "32",
                     "--resize", "32")  # fmt: skip
    with subprocess.Popen(
        call, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=tmp_path,
        env={**os.environ, "PGIG_APP_PASSWORD": "lovelace"},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        found = re.search(r":(\d+)/", process.stdout.readline())
        assert found
        page = browser.new_page()
        page.set_default_timeout(LONG)
        page.goto(f"http://127.0.0.1:{found[1]}/")
        for password in ("wrong", "lovelace"):
            page.locator("input").nth(0).fill("ada")
            page.locator("input[type=password]").fill(password)
            page.get_by_role("button", name="Login").click()
            page.wait_for_timeout(1500)
            assert page.locator("#picker").count() == int(password == "lovelace")
        page.close()
        process.terminate()
        assert process.wait(30) == 143


@pytest.mark.parametrize("seen", [(390, "light"), (390, "dark"), (1400, "dark")], indirect=True)
def test_it_fits_a_phone_and_the_dark(seen, tmp_path):
    page = seen.page
    dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    only(page, "gradient", "integrated_gradients")
    page.locator("#picker .pg-example").first.click()
    wait_for_maps(page, 2)
    page.get_by_role("tab", name="Doubt").click()
    page.locator("#take-away").click()
    wait(page, "() => document.querySelector('#doubt-status').textContent.includes('done')")
    width = page.viewport_size["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for place in ("#removal .pg-chart", "#removal input[type=range]", ".pg-brush"):
        box = page.locator(place).bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width + 1, place
    if dark:
        ink, paper = (page.evaluate(f"getComputedStyle(document.querySelector('{place}'))['{what}']")
                      for place, what in (("#removal", "color"), ("body", "backgroundColor")))  # fmt: skip
        assert min(map(int, re.findall(r"\d+", ink)[:3])) > 180 > max(map(int, re.findall(r"\d+", paper)[:3]))
    if width == 390:
        save(page, f"app-phone-{'dark' if dark else 'light'}", tmp_path)
