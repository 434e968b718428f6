"""Explain: a picture, a class, methods, and what mattered."""

from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import gradio

from pgig.app.answers import answers, in_order, key_of
from pgig.app.desk import BUSY, QUICK, SLOW, WAITING, Desk, Tick, followed, sentence, stop
from pgig.app.saving import arrays_of, code_of, page_of
from pgig.app.shown import shown_classes, shown_map, thumbnail
from pgig.app.views import view
from pgig.app.visitors import Look, Stopped, Visitor
from pgig.errors import PgigError
from pgig.explainers.registry import QUICK_METHODS
from pgig.records.explanation import Explanation
from pgig.runs.explain import photo

_SKIP: Any = gradio.skip()
_FIRST = {"text": "Choose a picture, or one of the examples."}


class ExplainTab(NamedTuple):
    """What other tabs need of it."""

    methods: gradio.CheckboxGroup
    looks: list[Any]  # events after which something else is looked at


def explain_tab(desk: Desk) -> ExplainTab:
    network = desk.network
    examples = [{"name": path.stem, "picture": thumbnail(path.read_bytes())} for path in desk.examples]
    with gradio.Row():
        with gradio.Column(scale=1, min_width=300):
            picker = view("picker", {"examples": examples}, elem_id="picker")
            classes = view("classes", elem_id="classes")
            methods = gradio.CheckboxGroup(
                network.methods, value=[name for name in QUICK_METHODS if name in network.methods], label="Methods",
                info=_lacking(desk), elem_id="methods",
            )  # fmt: skip
        with gradio.Column(scale=3, min_width=320):
            with gradio.Row(equal_height=True):
                status = view("status", _FIRST, elem_id="status", scale=5)
                stop(desk, status, elem_id="stop", scale=1, min_width=90)
            maps = view("maps", elem_id="maps")
            with gradio.Accordion("Save, and show me the code", open=False, elem_id="saving"):
                saver = view("saver", elem_id="saver")
                code = gradio.Code(language="python", label="The same result in Python", elem_id="code")

    def took(names: list[str], event: gradio.EventData, request: gradio.Request) -> tuple[Any, ...]:
        visitor, sent = desk.visitor(request), event._data or {}
        turn = sent.get("turn")
        visitor.is_latest("picked", turn)
        try:
            look = desk.quickly(lambda: desk.read(sent))
        except Exception as error:
            return {"error": sentence(error)["text"]}, _SKIP, _SKIP, _SKIP
        if not visitor.is_latest("picked", turn):
            return _SKIP, _SKIP, _SKIP, _SKIP
        visitor.look = look
        _wish(visitor, names, turn)
        return {"error": ""}, _classes(desk, look), {"photo": photo(look.picture)}, WAITING

    def asked(names: list[str], event: gradio.EventData, request: gradio.Request) -> tuple[Any, ...]:
        visitor, sent = desk.visitor(request), event._data or {}
        if not visitor.is_latest("asked", sent.get("turn")):
            return _SKIP, _SKIP
        chosen = tuple(sent.get("classes", ()))
        if visitor.look is None or not _are_classes(chosen, network.classes):
            return _SKIP, {"text": "choose a picture first", "error": True}
        visitor.look = replace(visitor.look, asked=chosen)
        _wish(visitor, names, sent.get("turn"))
        return _classes(desk, visitor.look), WAITING

    def chosen(names: list[str], turn: float, request: gradio.Request) -> Any:
        visitor = desk.visitor(request)
        if visitor.look is None:
            return _FIRST
        return WAITING if _wish(visitor, names, turn, is_new=False) else _SKIP

    def explain(request: gradio.Request) -> Iterator[tuple[Any, ...]]:
        visitor = desk.visitor(request)
        if (wish := visitor.take("explain")) is None or visitor.look is None:
            yield _SKIP, _SKIP, _SKIP
            return
        names, check = wish
        yield from _explained(desk, visitor, visitor.look, names, check)

    def save(event: gradio.EventData, names: list[str], request: gradio.Request) -> dict[str, Any]:
        return _saved(desk, desk.visitor(request), names, str((event._data or {}).get("what")))

    looks = [
        picker.picked(took, methods, [picker, classes, maps, status], **QUICK),
        classes.asked(asked, methods, [classes, status], **QUICK),
    ]
    clock = gradio.Number(visible=False)
    now = "names => [names, performance.now()]"
    for wish in (*looks, methods.input(chosen, [methods, clock], status, js=now, **QUICK)):
        wish.then(explain, None, [maps, status, code], **SLOW).failure(lambda: BUSY, None, status, **QUICK)
    status.nudged(explain, None, [maps, status, code], **SLOW)
    saver.wanted(save, methods, saver, **SLOW)
    return ExplainTab(methods, looks)


def _wish(visitor: Visitor, names: list[str], turn: Any, is_new: bool = True) -> bool:
    """By the methods that were chosen last; False where these are not, and nothing else is new: picture or class."""
    latest = visitor.is_latest("methods", turn)
    if latest:
        visitor.methods = names
    if latest or is_new:
        visitor.wish("explain", visitor.methods)
    return latest or is_new


def _lacking(desk: Desk) -> str | None:
    """What cannot be chosen here, and how far the patterns of what can are to be trusted."""
    patterns = desk.network.patterns
    if patterns is None:
        return "Those that need patterns are not here: there are none of these weights."
    verdict = patterns.health().verdict
    return None if verdict.startswith("good") else f"Patterns, behind pgig and its like: {verdict.partition(':')[0]}."


def _explained(
    desk: Desk, visitor: Visitor, look: Look, names: list[str], check: Callable[[], None]
) -> Iterator[tuple[Any, ...]]:
    network, picture, question = desk.network, look.picture, desk.question(look)
    value: dict[str, Any] = {"photo": photo(picture), "title": question.title}
    cards: dict[str, Any] = {}
    try:
        check()
        for step in followed(desk, lambda say: answers(network, visitor, picture, question, names, say, check)):
            check()
            if isinstance(step, Tick):
                yield _SKIP, {"text": f"in work: {step.text}", "share": step.share}, _SKIP
                continue
            found = step.made
            for name, one in in_order(found, names).items():
                if name not in cards:
                    cards[name] = shown_map(one, picture)
            shown = [cards[name] for name in names if name in cards]
            score = f"{found.before:.1%}" if question.target is not None else f"{found.before:.2f}"
            value |= {"told": f"{picture.name}. {question.told}: {score}", "maps": shown, "waiting": found.waiting}
            value |= {"left_out": found.left_out, "order": names}
            made = code_of(network, picture, look.file, look.asked, [n for n in names if n not in found.left_out])
            yield dict(value), _standing(len(shown), len(names), bool(found.waiting)), made
    except Stopped:  # what comes instead, or that nothing does, is said by who stopped it
        same = visitor.look is look and cards
        yield ({**value, "waiting": []} if same else _SKIP), _SKIP, _SKIP
    except Exception as error:
        yield {"photo": photo(picture), "title": question.title}, sentence(error), ""


def _standing(done: int, count: int, goes_on: bool) -> dict[str, Any]:
    if goes_on:
        return {"text": f"{done} of {count} maps", "share": done / count}
    return {"text": "1 map" if done == 1 else f"{done} maps"}


def computed(desk: Desk, visitor: Visitor, names: list[str]) -> dict[str, Explanation]:
    """What was explained already of these methods, for what the visitor looks at."""
    look = visitor.look
    if look is None:
        raise PgigError("explain a picture first")
    question = desk.question(look)
    found = {name: visitor.find(key_of(desk.network, look.picture, question, name)) for name in names}
    return {name: one for name, one in found.items() if one is not None}


def _saved(desk: Desk, visitor: Visitor, names: list[str], what: str) -> dict[str, Any]:
    try:
        found, look = computed(desk, visitor, names), visitor.look
        assert look is not None
        if what == "page":
            asked = desk.network, look.picture, desk.question(look), found
            data, name, kind = desk.long.submit(page_of, *asked).result(), "explained.html", "text/html"
        else:
            code = code_of(desk.network, look.picture, look.file, look.asked, list(found))
            data, name, kind = arrays_of(found, code), "explanations.zip", "application/zip"
    except Exception as error:
        return {"error": sentence(error)["text"]}
    visitor.saved += 1
    return {"number": visitor.saved, "name": name, "type": kind, "data": b64encode(data).decode()}


def _classes(desk: Desk, look: Look) -> dict[str, Any]:
    names = [desk.network.name_of(index) for index, _ in look.likeliest]
    return shown_classes(look.likeliest, names, look.asked)


def _are_classes(asked: tuple[Any, ...], count: int) -> bool:
    numbers = all(type(index) is int and 0 <= index < count for index in asked)
    return 1 <= len(asked) <= 2 and numbers and len(set(asked)) == len(asked)
