"""Doubt: take away what a method ranks highest, or paint over the picture, and see the prediction change."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import gradio

from pgig.app.answers import answers
from pgig.app.desk import BUSY, QUICK, SLOW, WAITING, Desk, Tick, followed, sentence, stop
from pgig.app.painting import canvas, painted
from pgig.app.removal import FILLS, Removal, removals, shown_removal
from pgig.app.saving import removal_code
from pgig.app.views import view
from pgig.app.visitors import Look, Stopped, Visitor, bytes_of
from pgig.errors import PgigError
from pgig.runs.explain import is_blank

_SKIP: Any = gradio.skip()
FIRST = {"text": "explain a picture first: then take parts of it away here"}
T = TypeVar("T")


def doubt_tab(desk: Desk, tab: gradio.Tab) -> list[gradio.HTML]:
    """Gives what is of no picture but the one that it was made for: status and curves."""
    known = desk.network.methods
    usual = [name for name in ("pgig", "occlusion", "integrated_gradients") if name in known] or known
    with gradio.Row():
        one = gradio.Dropdown(known, value=usual[0], label="Order by", elem_id="order-one")
        other = gradio.Dropdown(["none", *known], value=usual[1] if len(usual) > 1 else "none", label="against",
                                elem_id="order-two")  # fmt: skip
        fill = gradio.Dropdown([(told, name) for name, told in FILLS.items()], value="mean", label="put in its place",
                               elem_id="fill")  # fmt: skip
    status = view("status", FIRST, elem_id="doubt-status")
    with gradio.Row():
        go = gradio.Button("Take away", variant="primary", elem_id="take-away")
        stop(desk, status, elem_id="doubt-stop")
    curves = view("removal", elem_id="removal")
    with gradio.Accordion("Show me the code", open=False):
        code = gradio.Code(language="python", label="The same curves in Python", elem_id="removal-code")
    gradio.Markdown("### Paint over it by hand")
    brush = view("brush", elem_id="brush")

    def begin(first: str, second: str, what: str, request: gradio.Request) -> dict[str, Any]:
        visitor = desk.visitor(request)
        if visitor.look is None:
            return FIRST
        visitor.wish("take away", (list(dict.fromkeys(name for name in (first, second) if name != "none")), what))
        return WAITING

    def take(request: gradio.Request) -> Iterator[tuple[Any, ...]]:
        visitor = desk.visitor(request)
        if (wish := visitor.take("take away")) is None or visitor.look is None:
            yield _SKIP, _SKIP, _SKIP
            return
        (names, what), check = wish
        try:
            yield from _taken(desk, visitor, visitor.look, names, what, check)
        except Stopped:
            yield _SKIP, _SKIP, _SKIP
        except Exception as error:
            yield _SKIP, sentence(error), _SKIP

    def opened(request: gradio.Request) -> tuple[Any, Any]:
        visitor = desk.visitor(request)
        look = visitor.look
        if look is None or visitor.painting is look:
            return _SKIP, _SKIP
        try:
            found = desk.quickly(lambda: canvas(desk.network, look.picture))
        except Exception as error:
            return _SKIP, sentence(error)
        visitor.painting = look
        return found, _SKIP

    def paint(event: gradio.EventData, request: gradio.Request) -> tuple[Any, Any]:
        visitor, sent = desk.visitor(request), event._data or {}
        visitor.is_latest("painted", sent.get("turn"))
        look = visitor.painting or visitor.look
        if look is None:
            return _SKIP, FIRST
        cells, what = str(sent.get("cells")), str(sent.get("fill"))
        try:
            found = desk.quickly(lambda: painted(desk.network, look.picture, cells, what))
        except Exception as error:
            return _SKIP, sentence(error)
        return (found if visitor.is_latest("painted", sent.get("turn")) else _SKIP), _SKIP

    go.click(begin, [one, other, fill], status, **QUICK).then(take, None, [curves, status, code], **SLOW).failure(
        lambda: BUSY, None, status, **QUICK
    )
    status.nudged(take, None, [curves, status, code], **SLOW)
    tab.select(opened, None, [brush, status], **QUICK)
    brush.painted(paint, None, [brush, status], **QUICK)
    return [status, curves]


def _taken(
    desk: Desk, visitor: Visitor, look: Look, names: list[str], fill: str, check: Callable[[], None]
) -> Iterator[tuple[Any, ...]]:
    network, picture, question = desk.network, look.picture, desk.question(look)
    check()
    if fill not in FILLS:
        raise PgigError(f"unknown fill {fill!r}; choose one of: {', '.join(FILLS)}")
    code = removal_code(network, picture, look.file, look.asked, names, fill)
    pixels = hash(picture.pixels.numpy().tobytes())
    key = "removal", id(network), picture.name, pixels, question.slug, tuple(names), fill
    if (kept := visitor.find(key)) is not None:
        yield shown_removal(network, picture, kept, look.asked), {"text": "as computed before: move the slider"}, code
        return
    found = None
    for step in followed(desk, lambda say: answers(network, visitor, picture, question, names, say, check)):
        if isinstance(step, Tick):
            yield _SKIP, {"text": f"in work: {step.text}", "share": step.share / 2}, _SKIP
        else:
            found = step.made
    assert found is not None
    for name in names:
        if name in found.left_out:
            raise PgigError(f"{name}: {found.left_out[name]}")
        if is_blank(found.explanations[name]):
            raise PgigError(f"{name} is zero everywhere here: it ranks nothing")
    ranked = {name: found.explanations[name] for name in names}
    last: Removal | None = None
    for taken in followed(desk, lambda say: _checked(removals(network, picture, ranked, fill), check)):
        check()
        if isinstance(taken, Tick):
            continue
        last = taken.made
        done = len(next(iter(last.shares.values()))) / (len(next(iter(last.orders.values()))) + 1)
        shown = shown_removal(network, picture, last, look.asked)
        yield shown, {"text": "taking away", "share": 0.5 + done / 2}, code
    if last is not None:
        visitor.keep(key, last, bytes_of(last.filled, *last.shares.values()))
        yield _SKIP, {"text": "done: move the slider"}, _SKIP


def _checked(made: Iterator[T], check: Callable[[], object]) -> Iterator[T]:
    """As long as it is wanted."""
    for each in made:
        check()
        yield each
