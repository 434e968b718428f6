"""Doubt: take away what a method ranks highest, or paint over the picture, and see the prediction change."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import gradio

from pgig.app.answers import answers
from pgig.app.desk import QUICK, SLOW, Desk, Tick, followed, sentence
from pgig.app.painting import canvas, painted
from pgig.app.removal import FILLS, Removal, removals, shown_removal
from pgig.app.views import view
from pgig.app.visitors import Visitor, bytes_of
from pgig.errors import PgigError
from pgig.runs.explain import is_blank

_SKIP: Any = gradio.skip()
T = TypeVar("T")
_FIRST = {"text": "explain a picture first: then take parts of it away here", "error": False}


def doubt_tab(desk: Desk, tab: gradio.Tab) -> gradio.HTML:
    """Gives what is of no picture but the one that it was made for."""
    known = desk.network.methods
    usual = [name for name in ("pgig", "occlusion", "integrated_gradients") if name in known] or known
    status = view("status", _FIRST, elem_id="doubt-status")
    with gradio.Row():
        one = gradio.Dropdown(known, value=usual[0], label="Order by", elem_id="order-one")
        other = gradio.Dropdown(["none", *known], value=usual[1] if len(usual) > 1 else "none", label="against",
                                elem_id="order-two")  # fmt: skip
        fill = gradio.Dropdown([(told, name) for name, told in FILLS.items()], value="mean", label="put in its place",
                               elem_id="fill")  # fmt: skip
        go = gradio.Button("Take away", variant="primary", elem_id="take-away")
        stop = gradio.Button("Stop")
    curves = view("removal", elem_id="removal")
    gradio.Markdown("### Paint over it by hand")
    brush = view("brush", elem_id="brush")

    def begin(request: gradio.Request) -> tuple[Any, Any]:
        visitor = desk.visitor(request)
        if visitor.picture is None:
            return _FIRST, _SKIP
        visitor.begin()
        return {"text": "waiting for its turn"}, _SKIP

    def take(first: str, second: str, what: str, request: gradio.Request) -> Iterator[tuple[Any, Any]]:
        visitor = desk.visitor(request)
        if visitor.picture is None:
            yield _SKIP, _SKIP
            return
        names = list(dict.fromkeys(name for name in (first, second) if name != "none"))
        try:
            yield from _taken(desk, visitor, names, what)
        except Exception as error:
            yield _SKIP, sentence(error)

    def opened(request: gradio.Request) -> Any:
        visitor = desk.visitor(request)
        picture = visitor.picture
        return _SKIP if picture is None else desk.quickly(lambda: canvas(desk.network, picture))

    def paint(event: gradio.EventData, request: gradio.Request) -> tuple[Any, Any]:
        visitor, sent = desk.visitor(request), event._data or {}
        picture = visitor.picture
        if picture is None:
            return _SKIP, _FIRST
        visitor.is_latest("painted", sent.get("turn"))
        cells, what = str(sent.get("cells")), str(sent.get("fill"))
        try:
            found = desk.quickly(lambda: painted(desk.network, picture, cells, what))
            return found if visitor.is_latest("painted", sent.get("turn")) else _SKIP, _SKIP
        except Exception as error:
            return _SKIP, sentence(error)

    taking = [one, other, fill]
    go.click(begin, None, [status, curves], **QUICK).then(take, taking, [curves, status], **SLOW)
    stop.click(_halt(desk), None, None, **QUICK)
    tab.select(opened, None, brush, **QUICK)
    brush.painted(paint, None, [brush, status], **QUICK)
    return curves


def _halt(desk: Desk) -> Any:
    def halt(request: gradio.Request) -> None:
        desk.visitor(request).begin()

    return halt


def _taken(desk: Desk, visitor: Visitor, names: list[str], fill: str) -> Iterator[tuple[Any, Any]]:
    network, picture = desk.network, visitor.picture
    assert picture is not None
    if fill not in FILLS:
        raise PgigError(f"unknown fill {fill!r}; choose one of: {', '.join(FILLS)}")
    question, check = desk.question(visitor), visitor.wanted()
    key = "removal", id(network), hash(picture.pixels.numpy().tobytes()), question.slug, tuple(names), fill
    if (kept := visitor.find(key)) is not None:
        yield shown_removal(network, picture, kept, visitor.asked), {"text": "as computed before"}
        return
    found = None
    for step in followed(desk, lambda say: answers(network, visitor, picture, question, names, say, check)):
        if isinstance(step, Tick):
            yield _SKIP, {"text": f"in work: {step.text}", "share": step.share / 2}
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
        if isinstance(taken, Tick):
            continue
        last = taken.made
        done = len(next(iter(last.shares.values()))) / (len(next(iter(last.orders.values()))) + 1)
        yield shown_removal(network, picture, last, visitor.asked), {"text": "taking away", "share": 0.5 + done / 2}
    if last is not None:
        visitor.keep(key, last, bytes_of(last.filled, *last.shares.values()))
        yield _SKIP, {"text": "done: move the slider"}


def _checked(made: Iterator[T], check: Callable[[], object]) -> Iterator[T]:
    """As long as it is wanted."""
    for each in made:
        check()
        yield each
