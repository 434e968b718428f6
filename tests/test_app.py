"""The app without a browser: what it computes, what it keeps, whom it lets in."""

import base64
import io
import socket
import threading
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from commands import run, with_pictures
from PIL import Image

from pgig.app.answers import answers, question_of
from pgig.app.desk import Desk, Tick, followed
from pgig.app.guard import MOST_BYTES as LARGEST_REQUEST
from pgig.app.network import Network, known_methods, load_network, told_apart, untrained
from pgig.app.painting import canvas, painted
from pgig.app.removal import CONTROL, FILLS, removals, shown_removal
from pgig.app.saving import arrays_of, code_of, page_of, removal_code, truth_code
from pgig.app.shown import ranks, shown_agreement, shown_map
from pgig.app.truths import drawn, embedded_network, truths
from pgig.app.visitors import MOST_BYTES, MOST_VISITORS, Stopped, Visitor, Visitors
from pgig.app.where import is_loopback
from pgig.degradation import DenseEvaluator, scored_by
from pgig.drawing.heatmaps import strengths
from pgig.errors import PgigError
from pgig.explainers.registry import QUICK_METHODS
from pgig.plugins import forgotten_afterwards
from pgig.records.explanation import Explanation
from pgig.subject.subject import Subject
from pgig.synthetic.images import CLASSES, SETTINGS
from pgig.vision.pictures import Picture
from pgig.vision.preprocess import Preprocess

gradio = pytest.importorskip("gradio")
from app_client import Page, served  # noqa: E402

METHODS = ["gradient", "integrated_gradients", "pgig"]


@pytest.fixture(scope="module")
def network() -> Network:
    return embedded_network()


@pytest.fixture(scope="module")
def picture(network: Network) -> Picture:
    return drawn("white", "ring", 3)[0]


def explained(network: Network, picture: Picture, names: list[str] = METHODS, asked: tuple[int, ...] = (3,)) -> Any:
    *_, found = answers(network, Visitor(), picture, question_of(network, asked), names)
    return found.explanations


def png(width: int = 40, height: int = 30, seed: int = 0) -> bytes:
    buffer = io.BytesIO()
    pixels = numpy.random.default_rng(seed).integers(0, 255, (height, width, 3), numpy.uint8)
    Image.fromarray(pixels).save(buffer, "png")
    return buffer.getvalue()


# what it computes


@pytest.mark.parametrize("fill", FILLS)
def test_shares_after_each_patch_are_those_of_whole_passes(network, picture, fill):
    found = explained(network, picture)
    *parts, last = removals(network, picture, {name: found[name] for name in METHODS}, fill)
    assert parts, "it comes in several blocks"
    assert last.is_done
    assert list(last.orders) == [*METHODS, CONTROL]
    for name in last.orders:
        now = picture.x.clone()
        for step, patch in enumerate(last.orders[name], 1):
            down, across = last.grid.place(patch)
            now[:, :, down, across] = last.filled[:, :, down, across]
            if step % 9 == 0:
                wanted = network.shares(now)[0].numpy()
                numpy.testing.assert_allclose(last.shares[name][step], wanted, atol=1e-5)
        assert len(set(last.orders[name])) == len(last.orders[name])


def test_patches_go_by_what_the_map_shows(network, picture):
    found = explained(network, picture)
    *_, last = removals(network, picture, found)
    for name, one in found.items():
        sums = last.grid.sums(torch.from_numpy(strengths(one.attribution[0], signed=one.signed))[None, None])[0]
        ordered = sums[last.orders[name]]
        assert (ordered[:-1] >= ordered[1:]).all()


def test_what_is_shown_of_a_removal_names_the_class_and_its_rivals(network, picture):
    *_, last = removals(network, picture, explained(network, picture, ["pgig"]))
    value = shown_removal(network, picture, last, (3,))
    assert value["classes"][0] == "ring"
    assert set(value["classes"]) == set(CLASSES)
    for order in value["orders"]:
        assert len(order["shares"]) == value["steps"] + 1 == len(order["patches"]) + 1
        assert [sum(of) for of in order["shares"]] == pytest.approx([1] * len(order["shares"]), abs=1e-3)
        best = [value["classes"][numpy.argmax(of)] for of in order["shares"]]
        assert best == order["top"]


def test_painting_is_what_the_model_says_of_the_painted_picture(network, picture):
    value = canvas(network, picture)
    cells = ["0"] * (value["columns"] * value["rows"])
    nothing = painted(network, picture, "".join(cells), "blur")
    assert nothing["painted"] == 0
    assert all(one["before"] == pytest.approx(one["now"]) for one in nothing["shares"])
    for number in range(3 * value["columns"], 6 * value["columns"]):
        cells[number] = "1"
    found = painted(network, picture, "".join(cells), "grey")
    x = picture.x.clone()
    x[:, :, 12:24] = network.preprocess.normalise(torch.full((3, 12, 64), 0.5))
    wanted = {network.name_of(i): float(share) for i, share in enumerate(network.shares(x)[0])}
    assert {one["name"]: one["now"] for one in found["shares"]} == pytest.approx(wanted, abs=1e-6)
    assert found["painted"] == pytest.approx(12 / 64)
    for cells_sent, fill in (("01", "grey"), ("2" * len(cells), "grey"), ("0" * len(cells), "glitter")):
        with pytest.raises(PgigError, match="does not fit"):
            painted(network, picture, cells_sent, fill)


def test_ranks_say_what_share_of_pixels_is_below():
    values = numpy.random.default_rng(0).normal(size=(20, 30))
    found = ranks(values)
    for share in (0.1, 0.25, 0.5):
        top = values.reshape(-1).argsort()[-int(share * values.size) :]
        assert (found.reshape(-1)[top] >= 255 * (1 - share) - 1).all()
        assert abs((found >= 255 * (1 - share)).mean() - share) < 0.01


def test_a_card_says_when_a_map_is_blank(network, picture):
    one = explained(network, picture, ["gradient"])["gradient"]
    assert shown_map(one, picture)["ranks"].startswith("data:image/png")
    blank = replace(one, attribution=numpy.zeros_like(one.attribution))
    assert shown_map(blank, picture)["ranks"] is None
    with pytest.raises(PgigError, match="at least two"):
        shown_agreement({"gradient": one, "pgig": blank})


def test_agreement_is_a_matrix_of_rank_correlations(network, picture):
    value = shown_agreement(explained(network, picture))
    matrix = numpy.array(value["matrix"])
    assert value["names"] == METHODS
    numpy.testing.assert_allclose(numpy.diag(matrix), 1, atol=1e-3)
    numpy.testing.assert_allclose(matrix, matrix.T)
    assert (abs(matrix) <= 1).all()


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("wanted", ["any", "cross"])
def test_images_with_known_truth_are_drawn_as_asked(network, setting, wanted):
    picture, label, mask = drawn(setting, wanted, 7)
    assert wanted in ("any", CLASSES[label])
    again, *_ = drawn(setting, wanted, 7)
    assert torch.equal(picture.x, again.x)
    assert mask.any()
    *_, value = truths(network, Visitor(), setting, wanted, 7, ["gradient", "pgig"])
    assert len(value["maps"]) == 2
    assert all("on the truth (chance" in card["note"] for card in value["maps"])
    with pytest.raises(PgigError, match="unknown class"):
        drawn(setting, "house", 7)


def test_pixels_of_generated_images_come_back_as_they_were(network):
    picture, *_ = drawn("white", "any", 0)
    inside = (picture.pixels > 0) & (picture.pixels < 1)
    assert inside.float().mean() > 0.99
    back = network.preprocess.normalise(picture.pixels)[inside]
    torch.testing.assert_close(back, picture.x[0][inside], atol=1e-5, rtol=1e-5)


def test_a_network_can_be_asked_while_it_is_looked_at():
    """Tracing a model in one thread must not break what it says in another."""
    for _ in range(3):
        found = load_network("squeezenet1_1", "random", Preprocess(size=64, resize=64), None)
        picture = found.picture(png(80, 80), "any")
        wanted = found.likeliest(picture)
        thread = threading.Thread(target=found.evaluator)
        thread.start()
        while thread.is_alive():
            assert [index for index, _ in found.likeliest(picture)] == [index for index, _ in wanted]


# what can be saved


def test_the_code_gives_the_same_result(tmp_path, monkeypatch):
    with_pictures(tmp_path)
    monkeypatch.chdir(tmp_path)
    size = ["--size", "32", "--resize", "32"]
    made = run(tmp_path, "patterns", "--model", "net:make", "--images", ".", "--out", "p.safetensors", *size)
    assert made.returncode == 0, made.stderr
    with forgotten_afterwards():
        found = load_network(
        "net:make", None, Preprocess(size=32, resize=32), Path("p.safetensors"), given="p.safetensors"
    )  # fmt: skip
    picture = found.picture(Path("cat.png").read_bytes(), "cat")
    for asked in ((2,), (2, 4)):
        names = ["smoothgrad", "integrated_gradients", "pgig", "occlusion"]
        shown = explained(found, picture, names, asked)
        space: dict[str, Any] = {}
        with forgotten_afterwards():
            exec(code_of(found, picture, "'cat.png'", asked, names), space)
        assert Path("maps.png").is_file()
        for name, one in zip(names, space["found"].values(), strict=True):
            numpy.testing.assert_array_equal(shown[name].attribution, one.attribution)
    some = {name: shown[name] for name in ("integrated_gradients", "pgig")}
    *_, last = removals(found, picture, some, "blur")
    with forgotten_afterwards():
        exec(removal_code(found, picture, "'cat.png'", (2, 4), list(some), "blur"), space)
    for name, curve in zip(some, space["curves"].values(), strict=True):
        numpy.testing.assert_allclose(last.shares[name][:, 2], curve[0], atol=1e-5)


def test_what_is_shown_can_be_taken_away(network, picture, tmp_path):
    shown = explained(network, picture)
    page = page_of(network, picture, question_of(network, (3,)), shown).decode()
    assert '<meta name="generator" content="pgig">' in page
    assert "Why “ring”?" in page
    assert all(name in page for name in METHODS)
    archive = zipfile.ZipFile(io.BytesIO(arrays_of(shown, "code")))
    assert sorted(archive.namelist()) == sorted([f"{name}.safetensors" for name in METHODS] + ["same_result.py"])
    archive.extractall(tmp_path)
    for name in METHODS:
        found = Explanation.load(tmp_path / f"{name}.safetensors")
        numpy.testing.assert_array_equal(found.attribution, shown[name].attribution)
    for nothing in (lambda: arrays_of({}, ""), lambda: page_of(network, picture, question_of(network, (3,)), {})):
        with pytest.raises(PgigError, match="nothing to save"):
            nothing()


# visitors


def test_what_was_computed_is_not_computed_again(network, picture, monkeypatch):
    visitor, question = Visitor(), question_of(network, (3,))
    *_, first = answers(network, visitor, picture, question, METHODS)
    monkeypatch.setattr("pgig.app.answers.answer", lambda *_, **__: pytest.fail("it was computed again"))
    (again,) = answers(network, visitor, picture, question, METHODS)
    assert all(again.explanations[name] is first.explanations[name] for name in METHODS)
    with pytest.raises(pytest.fail.Exception):
        list(answers(network, Visitor(), picture, question, METHODS))  # another's are not his


def test_stopping_ends_the_computation_not_only_the_display(network, picture):
    """Every explainer of the page says often enough where it stands to be stopped in the middle."""
    stopped = 0
    for name in network.methods:
        visitor, said = Visitor(), list[float]()

        def say(method: str, share: float, visitor: Visitor = visitor, said: list[float] = said) -> None:
            said.append(share)
            if len(said) == 2:  # the first is before it begins
                visitor.stop()

        try:
            list(answers(network, visitor, picture, question_of(network, (3,)), [name], say))
        except Stopped:
            stopped += 1
            assert len(visitor) == 0
    assert stopped >= len(network.methods) - 3, "those with a single point are done before they can be stopped"


def test_errors_of_a_method_leave_the_others(network, picture):
    found = explained(network, picture, ["igos", "pgig"], (3, 1))  # igos takes no contrasts
    assert list(found) == ["pgig"]


def test_a_visitors_memory_is_bounded():
    visitor = Visitor()
    for number in range(100):
        visitor.keep(number, numpy.zeros(10), MOST_BYTES // 10)
        assert visitor.bytes <= MOST_BYTES
    assert visitor.find(99) is not None
    assert visitor.find(0) is None
    visitor.keep("large", None, 2 * MOST_BYTES)
    assert len(visitor) == 1, "the newest is always there"


def test_what_arrives_late_is_not_taken_for_the_latest():
    visitor = Visitor()
    assert visitor.is_latest("asked", 5.0)
    assert not visitor.is_latest("asked", 3.0)
    assert visitor.is_latest("painted", 3.0)
    assert visitor.is_latest("asked", 5.0)
    assert not visitor.is_latest("asked", None)


def test_visitors_are_apart_bounded_and_gone_when_they_leave(monkeypatch):
    visitors = Visitors()
    first = visitors.of("a")
    first.keep("x", 1, 1)
    assert visitors.of("a") is first
    assert visitors.of("b").find("x") is None
    check = first.wanted()
    check()
    visitors.leave("a")
    with pytest.raises(Stopped):
        check()
    assert visitors.of("a").find("x") is None
    for number in range(2 * MOST_VISITORS):
        visitors.of(str(number))
    assert len(visitors) == MOST_VISITORS
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 10_000)
    visitors.of("late")
    visitors.sweep()
    assert len(visitors) == 1, "who was not seen for hours has left"


def test_work_is_followed_and_its_errors_come_through(network):
    def work(say: Any) -> Any:
        say("one", 0.5)
        time.sleep(0.5)
        yield 1
        raise PgigError("no further")

    seen = followed(Desk([network]), work)
    assert next(seen) == Tick("one", 0.5)
    assert next(seen).made == 1  # type: ignore[union-attr]
    with pytest.raises(PgigError, match="no further"):
        next(seen)


# the server


@pytest.fixture(scope="module")
def port() -> Any:
    with served() as found:
        yield found.port


BAD = {
    "text": b"hello, this is text",
    "nothing": b"",
    "half a picture": png()[:60],
    "html": b"<html><script>alert(1)</script></html>",
}


@pytest.mark.parametrize("what", BAD)
def test_bad_pictures_get_one_sentence_and_the_app_goes_on(port, what):
    page = Page(port)
    name = "<img src=x onerror=alert(1)>.jpg"
    took, explained = page.picked(BAD[what], name, METHODS)
    assert name in took[0]["error"]
    assert "\n" not in took[0]["error"]
    assert all("maps" not in str(part) for part in explained)
    took, explained = page.picked(png(), "good.png", METHODS)
    assert [card["name"] for card in explained[0]["maps"]] == METHODS


def test_pictures_of_too_many_pixels_are_refused(port):
    buffer = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(buffer, "png")  # 400 megapixels in some kilobytes
    took, _ = Page(port).picked(buffer.getvalue(), "huge.png", METHODS)
    assert "more than the 150,000,000 allowed" in took[0]["error"]


def test_nonsense_from_the_page_is_refused(port):
    page = Page(port)
    assert "choose a picture first" in str(page.asked([0], METHODS)[0])
    page.picked(png(), "good.png", ["gradient"])
    for classes in ([], [99], ["x"], [1, 1], [1, 2, 3], [-1], [True, "0"]):
        assert "choose a picture first" in str(page.asked(classes, METHODS)[0]), classes
    surrogate = {"name": "\ud800x.png", "data": "aGVsbG8="}
    for sent in (
        {"example": 5},
        {"example": "0"},
        {"name": "a", "data": "%%%"},
        {"name": "a", "data": 5},
        {},
        surrogate,
    ):
        assert page.call("picker", "picked", sent, METHODS)[0]["error"], sent
    assert "too many" in str(page._chain("classes", "asked", {"classes": [0]}, ["gradient"] * 13)[1])
    assert "at least one method" in str(page._chain("classes", "asked", {"classes": [0]}, [])[1])
    assert "does not fit" in str(page.call("brush", "painted", {"cells": "1", "fill": "blur"}))


def test_only_what_the_page_needs_is_open(port):
    page = Page(port)
    closed = [
        "upload", "file=/etc/passwd", "file/etc/passwd", "proxy=http://example.org/", "deep_link?session_hash=x",
        "info",
        "component_server", "../gradio_api/info", "process_recording", "custom_component/x", "stream/x",
    ]  # fmt: skip
    paths = ["/monitoring", "/docs", "/openapi.json", "//gradio_api/info", *(f"/gradio_api/{way}" for way in closed)]
    for path in paths:
        for method in ("GET", "POST"):
            assert page.request(method, path)[0] == 404, path
    assert page.request("GET", "/", headers={"host": "evil.example"})[0] == 421
    large = {"content-length": str(LARGEST_REQUEST + 1), "content-type": "application/json"}
    assert page.request("POST", "/gradio_api/queue/join", "", large)[0] == 413


def test_stop_also_ends_what_waits(port):
    page = Page(port)
    page.picked(png(), "good.png", ["gradient"])
    page.call("classes", "asked", {"classes": [1]}, ["gradient", "vargrad"])
    page.call("stop", "click")
    later = page._call(_after(page, "classes", "asked"), None, ())
    assert "maps" not in str(later), "it was stopped before it began"
    again = page.asked([1], ["gradient", "vargrad"])[1]
    assert len(again[0]["maps"]) == 2


def test_a_wish_is_worked_on_once_and_the_newest_counts(port):
    page = Page(port)
    page.picked(png(), "good.png", ["gradient"])
    page.call("classes", "asked", {"classes": [1], "turn": 1e9 + 2}, ["vargrad"])
    page.call(
        "classes", "asked", {"classes": [0], "turn": 1e9 + 1}, ["gradient", "vargrad"]
    )  # sent before, comes after
    found = page._call(_after(page, "classes", "asked"), None, ())
    assert [card["name"] for card in found[0]["maps"]] == ["vargrad"]
    assert found[0]["title"] == "Why “square”?"
    assert "maps" not in str(page._call(_after(page, "classes", "asked"), None, ()))


def _after(page: Page, element: str, event: str) -> int:
    first = next(d for d in page.config["dependencies"] if page._is(d, element, event))
    return int(next(d["id"] for d in page.config["dependencies"] if d["trigger_after"] == first["id"]))


def test_every_network_gets_the_picture_as_it_wants_it(network):
    other = Preprocess(size=96, resize=96, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    desk = Desk([network, replace(network, preprocess=other)])
    look = desk.read({"name": "some/where/cat.png", "data": base64.b64encode(png(200, 100)).decode()})
    assert look.file == "'cat.png'"
    for each, picture in zip(desk.networks, look.pictures, strict=True):
        pixels = each.preprocess.pixels(io.BytesIO(png(200, 100)))
        torch.testing.assert_close(picture.x[0], each.preprocess.normalise(pixels))


def test_networks_of_one_name_are_told_apart(network):
    one, two = (replace(network, model="net:make", weights=f"{folder}/best.safetensors") for folder in "ab")
    assert one.label == two.label
    assert len({each.label for each in told_apart([one, two, network])}) == 3


def test_what_says_nan_is_no_prediction(picture):
    class Broken(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.flatten(1)[:, :3] * float("nan")

    broken = Network("broken", None, Subject(Broken().eval()), Preprocess(size=64, resize=64), (), None, 3)
    with pytest.raises(PgigError, match="says NaN"):
        broken.likeliest(picture)


def test_known_truth_needs_no_patterns_of_the_network_asked():
    assert set(QUICK_METHODS) <= set(known_methods(True))
    assert "pgig" not in known_methods(False)


def test_the_code_of_other_tabs_gives_the_same(network, picture):
    space: dict[str, Any] = {}
    exec(truth_code("white", "ring", 3, ["gradient", "pgig"]), space)
    shown = explained(network, picture, ["gradient", "pgig"])
    for name, one in space["found"].items():
        numpy.testing.assert_allclose(one.attribution, shown[name].attribution, rtol=1e-5, atol=1e-8)


def test_two_visitors_do_not_see_each_others_pictures(port):
    one, other = Page(port), Page(port)
    one.picked(png(seed=1), "mine.png", ["gradient"])
    assert "choose a picture first" in str(other.asked([0], ["gradient"])[0])
    other.picked(png(seed=2), "yours.png", ["gradient"])
    photos = [page.asked([0], ["gradient"])[1][0]["photo"] for page in (one, other)]
    assert photos[0] != photos[1]


@pytest.mark.slow
def test_twenty_visitors_are_answered_or_told_that_it_is_busy():
    """Each explains one picture and asks nine things that are cached or quick; then all leave, and memory is flat."""
    with served() as server:
        sizes = []
        for turn in range(3):
            counts = _visited(server.port, 20, turn)
            assert counts["result"] + counts["busy"] == counts["asked"] == 200
            assert counts["result"] > 100
            end = time.monotonic() + 20
            while server.visitors and time.monotonic() < end:
                time.sleep(0.1)
            assert server.visitors == 0, "who leaves is forgotten"
            sizes.append(server.resident)
        assert sizes[2] - sizes[1] < 40 * 2**20, sizes


def _visited(port: int, visitors: int, turn: int) -> dict[str, int]:
    counts = {"asked": 0, "result": 0, "busy": 0}
    lock = threading.Lock()

    def visit(number: int) -> None:
        page = Page(port).open()
        answers = [page.picked(png(seed=100 * turn + number), f"{number}.png", ["gradient", "integrated_gradients"])[1]]
        for quick in range(9):
            if quick % 3 == 2:
                answers.append(page.call("brush", "painted", {"cells": "0" * 256, "fill": "grey"}))
            else:
                answers.append(page.asked([quick % 3], ["gradient", "integrated_gradients"])[1])
        page.leave()
        with lock:
            counts["asked"] += len(answers)
            counts["busy"] += sum(answer == "busy" for answer in answers)
            counts["result"] += sum(isinstance(answer, list) for answer in answers)

    threads = [threading.Thread(target=visit, args=(number,)) for number in range(visitors)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    return counts


# the command


def test_loopback_is_known_by_its_address():
    for host in ("127.0.0.1", "127.8.0.1", "localhost", "::1"):
        assert is_loopback(host)
    for host in ("0.0.0.0", "::", "192.168.0.7", "example.org", ""):
        assert not is_loopback(host)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--host", "0.0.0.0"], "--auth USER"),
        (["--auth", " "], "needs a name"),
        (["--model", "net:wrong", "--size", "32", "--resize", "32"], "the model failed"),
        (["--model", "nothing"], "unknown model"),
        (["--model", "net:make", "--classes", "short.txt", "--size", "32", "--resize", "32"], "names, and the model"),
        (["--patterns", "no.safetensors"], "no patterns file"),
    ],
)
def test_bad_options_get_one_line(tmp_path, given, told, monkeypatch):
    with_pictures(tmp_path)
    (tmp_path / "short.txt").write_text("one\ntwo\n")
    monkeypatch.setenv("PGIG_APP_PASSWORD", "x")
    done = run(tmp_path, "app", *given)
    assert done.returncode == 2
    assert told in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 2  # where patterns were found is a line of its own


def test_a_port_that_is_taken_is_named(tmp_path):
    with_pictures(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = str(taken.getsockname()[1])
        done = run(tmp_path, "app", "--model", "net:make", "--size", "32", "--resize", "32", "--port", number)
    assert done.returncode == 2
    assert f"port {number}" in done.stderr


def test_the_untrained_network_knows_nothing_of_patterns():
    base = load_network("squeezenet1_1", "random", Preprocess(size=64, resize=64), None)
    assert untrained(base) is None, "it is untrained already"
    other = untrained(Network("squeezenet1_1", None, base.subject, base.preprocess, base.names, None, 1000))
    assert other is not None
    assert "pgig" not in other.methods
    assert "integrated_gradients" in other.methods
    same = untrained(Network("squeezenet1_1", None, base.subject, base.preprocess, base.names, None, 1000))
    assert same is not None
    for one, two in zip(other.subject.module.parameters(), same.subject.module.parameters(), strict=True):
        assert torch.equal(one, two)


def test_several_classes_are_scored_as_one_after_another(network, picture):
    """The evaluators take several classes at once: what the page's curves rest on."""
    evaluator = DenseEvaluator(scored_by(network.subject.module, "probability"))
    grid = network.protocol.grid(picture.x)
    order = torch.randperm(len(grid), generator=torch.Generator().manual_seed(0))[:6].reshape(1, 1, 6, 1)
    filled = grid.means(picture.x)
    for each in (evaluator, network.evaluator()):
        together = each.curves(picture.x, filled, order, torch.arange(5)[None], grid)
        apart = [each.curves(picture.x, filled, order, torch.tensor([index]), grid) for index in range(5)]
        torch.testing.assert_close(together, torch.stack(apart, -1))
