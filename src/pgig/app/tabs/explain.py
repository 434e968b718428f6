"""Explain: a picture, a class, methods, and what mattered."""

from base64 import b64encode
from collections.abc import Iterator
from typing import Any, NamedTuple

import gradio

from pgig.app.answers import answers, in_order, key_of
from pgig.app.desk import QUICK, SLOW, Desk, Tick, followed, sentence
from pgig.app.saving import arrays_of, code_of, page_of
from pgig.app.shown import shown_classes, shown_map, thumbnail
from pgig.app.views import view
from pgig.app.visitors import Visitor
from pgig.errors import PgigError
from pgig.explainers.registry import QUICK_METHODS
from pgig.records.explanation import Explanation
from pgig.runs.explain import photo

_SKIP: Any = gradio.skip()


class ExplainTab(NamedTuple):
    """What other tabs listen to."""

    picker: gradio.HTML
    classes: gradio.HTML
    methods: gradio.CheckboxGroup


def explain_tab(desk: Desk) -> ExplainTab:
    network = desk.network
    examples = [{"name": path.stem, "picture": thumbnail(path.read_bytes())} for path in desk.examples]
    with gradio.Row():
        with gradio.Column(scale=1, min_width=300):
            picker = view("picker", {"examples": examples}, elem_id="picker")
            classes = view("classes", elem_id="classes")
            methods = gradio.CheckboxGroup(
                network.methods, value=[name for name in QUICK_METHODS if name in network.methods], label="Methods",
                elem_id="methods",
            )  # fmt: skip
            stop = gradio.Button("Stop", elem_id="stop")
        with gradio.Column(scale=3, min_width=320):
            status = view("status", {"text": "Choose a picture, or one of the examples."}, elem_id="status")
            maps = view("maps", elem_id="maps")
            with gradio.Accordion("Save, and show me the code", open=False, elem_id="saving"):
                saver = view("saver", elem_id="saver")
                code = gradio.Code(language="python", label="The same result in Python", elem_id="code")

    def took(event: gradio.EventData, request: gradio.Request) -> tuple[Any, ...]:
        visitor = desk.visitor(request)
        try:
            picture, file = desk.quickly(lambda: desk.read(event))
            likeliest = desk.quickly(lambda: network.likeliest(picture))
        except Exception as error:
            visitor.due = False
            return _SKIP, _SKIP, sentence(error)
        visitor.begin()
        visitor.picture, visitor.file, visitor.likeliest = picture, file, likeliest
        visitor.asked, visitor.due = (likeliest[0][0],), True
        return _classes(desk, visitor), {"photo": photo(picture)}, {"text": "waiting for its turn"}

    def asked(event: gradio.EventData, request: gradio.Request) -> tuple[Any, ...]:
        visitor = desk.visitor(request)
        sent = event._data or {}
        if not visitor.is_latest("asked", sent.get("turn")):
            return _SKIP, _SKIP
        chosen = tuple(sent.get("classes", ()))
        visitor.due = visitor.picture is not None and _are_classes(chosen, network.classes)
        if not visitor.due:
            return _SKIP, {"text": "choose a picture first", "error": True}
        visitor.begin()
        visitor.asked = chosen
        return _classes(desk, visitor), {"text": "waiting for its turn"}

    def chosen(request: gradio.Request) -> dict[str, Any]:
        visitor = desk.visitor(request)
        visitor.begin()
        visitor.due = visitor.picture is not None
        return {"text": "waiting for its turn" if visitor.due else "Choose a picture, or one of the examples."}

    def explain(names: list[str], request: gradio.Request) -> Iterator[tuple[Any, ...]]:
        visitor = desk.visitor(request)
        if not visitor.due or visitor.picture is None:
            yield _SKIP, _SKIP, _SKIP
            return
        yield from _explained(desk, visitor, names)

    def halt(request: gradio.Request) -> None:
        desk.visitor(request).begin()

    def save(event: gradio.EventData, names: list[str], request: gradio.Request) -> dict[str, Any]:
        return _saved(desk, desk.visitor(request), names, str((event._data or {}).get("what")))

    into = [maps, status, code]
    picker.picked(took, None, [classes, maps, status], **QUICK).then(explain, methods, into, **SLOW)
    classes.asked(asked, None, [classes, status], **QUICK).then(explain, methods, into, **SLOW)
    methods.input(chosen, None, status, **QUICK).then(explain, methods, into, **SLOW)
    stop.click(halt, None, None, **QUICK)
    saver.wanted(save, methods, saver, **SLOW)
    return ExplainTab(picker, classes, methods)


def _explained(desk: Desk, visitor: Visitor, names: list[str]) -> Iterator[tuple[Any, ...]]:
    network, picture = desk.network, visitor.picture
    assert picture is not None
    question, check = desk.question(visitor), visitor.wanted()
    value: dict[str, Any] = {"photo": photo(picture), "title": question.title}
    cards: dict[str, Any] = {}
    try:
        code = code_of(network, picture, visitor.file, visitor.asked, names)
        for step in followed(desk, lambda say: answers(network, visitor, picture, question, names, say, check)):
            if isinstance(step, Tick):
                yield _SKIP, {"text": f"in work: {step.text}", "share": step.share}, _SKIP
                continue
            found = step.made
            for name, one in in_order(found, names).items():
                cards.setdefault(name, shown_map(one, picture))
            shown = [cards[name] for name in names if name in cards]
            score = f"{found.before:.1%}" if question.target is not None else f"{found.before:.2f}"
            told = f"{question.told}: {score}"
            value = {**value, "told": told, "maps": shown, "waiting": found.waiting, "left_out": found.left_out}
            text = f"{len(shown)} of {len(names)} maps" if found.waiting else f"{len(shown)} maps"
            yield value, {"text": text, **({"share": len(shown) / len(names)} if found.waiting else {})}, code
    except Exception as error:
        yield {**value, "waiting": []}, sentence(error), _SKIP


def computed(desk: Desk, visitor: Visitor, names: list[str]) -> dict[str, Explanation]:
    """What was explained already of these methods, for what the visitor looks at."""
    if visitor.picture is None:
        return {}
    question = desk.question(visitor)
    found = {name: visitor.find(key_of(desk.network, visitor.picture, question, name)) for name in names}
    return {name: one for name, one in found.items() if one is not None}


def _saved(desk: Desk, visitor: Visitor, names: list[str], what: str) -> dict[str, Any]:
    found = computed(desk, visitor, names)
    try:
        if visitor.picture is None:
            raise PgigError("there is nothing to save yet: explain a picture first")
        if what == "page":
            asked = desk.network, visitor.picture, desk.question(visitor), found
            data = desk.long.submit(page_of, *asked).result()
            name, kind = "explained.html", "text/html"
        else:
            code = code_of(desk.network, visitor.picture, visitor.file, visitor.asked, list(found))
            data, name, kind = arrays_of(found, code), "explanations.zip", "application/zip"
    except Exception as error:
        return {"error": sentence(error)["text"]}
    visitor.saved += 1
    return {"number": visitor.saved, "name": name, "type": kind, "data": b64encode(data).decode()}


def _classes(desk: Desk, visitor: Visitor) -> dict[str, Any]:
    names = [desk.network.name_of(index) for index, _ in visitor.likeliest]
    return shown_classes(visitor.likeliest, names, visitor.asked)


def _are_classes(asked: tuple[Any, ...], count: int) -> bool:
    numbers = all(type(index) is int and 0 <= index < count for index in asked)
    return 1 <= len(asked) <= 2 and numbers and len(set(asked)) == len(asked)
