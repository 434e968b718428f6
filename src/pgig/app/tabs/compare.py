"""Compare: two networks on one picture, two pictures on one network, methods with one another."""

from collections.abc import Iterator, Sequence
from typing import Any

import gradio

from pgig.app.answers import answers, in_order, question_of
from pgig.app.desk import QUICK, SLOW, Desk, Tick, followed, sentence
from pgig.app.network import Network
from pgig.app.shown import shown_agreement, shown_map, thumbnail
from pgig.app.tabs.explain import computed
from pgig.app.views import view
from pgig.app.visitors import Visitor
from pgig.errors import PgigError
from pgig.runs.explain import photo
from pgig.vision.pictures import Picture

_SKIP: Any = gradio.skip()
_FIRST = {"text": "explain a picture first: then compare here"}


def compare_tab(desk: Desk, methods: gradio.CheckboxGroup) -> list[gradio.HTML]:
    """Gives what is of no picture but the one that it was made for."""
    status = view("status", _FIRST, elem_id="compare-status")
    with gradio.Row():
        with gradio.Column(min_width=280):
            gradio.Markdown("### Two networks on this picture")
            others = [network.label for network in desk.networks[1:]]
            if others:
                other = gradio.Dropdown(others, value=others[0], label="against", elem_id="other-network")
                both = gradio.Button("Compare the networks", elem_id="compare-networks")
            else:
                gradio.Markdown(desk.how_to_compare)
        with gradio.Column(min_width=280):
            gradio.Markdown("### Two pictures on this network")
            examples = [{"name": path.stem, "picture": thumbnail(path.read_bytes())} for path in desk.examples]
            picker = view("picker", {"examples": examples}, elem_id="other-picker")
        with gradio.Column(min_width=280):
            gradio.Markdown("### Methods with one another")
            agree = gradio.Button("How far do they agree?", elem_id="agree")
    matrix = view("matrix", elem_id="matrix")
    maps = view("maps", elem_id="compared")

    def networks(label: str, names: list[str], request: gradio.Request) -> Iterator[tuple[Any, Any]]:
        visitor = desk.visitor(request)
        found = next((network for network in desk.networks[1:] if network.label == label), None)
        if visitor.picture is None or found is None:
            yield _SKIP, _FIRST
            return
        pairs = [(network, visitor.picture, network.label) for network in (desk.network, found)]
        yield from _compared(desk, visitor, pairs, names)

    def took(event: gradio.EventData, request: gradio.Request) -> dict[str, Any]:
        visitor = desk.visitor(request)
        try:
            visitor.other = desk.quickly(lambda: desk.read(event))[0]
        except Exception as error:
            visitor.other = None
            return sentence(error)
        return {"text": "waiting for its turn"} if visitor.picture is not None else _FIRST

    def pictures(names: list[str], request: gradio.Request) -> Iterator[tuple[Any, Any]]:
        visitor = desk.visitor(request)
        if visitor.picture is None or visitor.other is None:
            yield _SKIP, _SKIP
            return
        shown = [visitor.picture, visitor.other]
        yield from _compared(desk, visitor, [(desk.network, picture, picture.name) for picture in shown], names)

    def agreement(names: list[str], request: gradio.Request) -> dict[str, Any]:
        try:
            return shown_agreement(computed(desk, desk.visitor(request), names))
        except PgigError as error:
            return {"error": str(error)}

    if others:
        both.click(networks, [other, methods], [maps, status], **SLOW)
    picker.picked(took, None, status, **QUICK).then(pictures, methods, [maps, status], **SLOW)
    agree.click(agreement, methods, matrix, **SLOW)
    return [matrix, maps]


def _compared(
    desk: Desk, visitor: Visitor, pairs: Sequence[tuple[Network, Picture, str]], names: list[str]
) -> Iterator[tuple[Any, Any]]:  # fmt: skip
    """Each network's own likeliest class is explained, by the methods that it has."""
    cards: list[dict[str, Any]] = []
    told = []
    check = visitor.wanted()
    try:
        for network, picture, label in pairs:
            (index, share), *_ = desk.quickly(lambda: network.likeliest(picture))  # noqa: B023
            told.append(f"{label}: {network.name_of(index)}, {share:.0%}")
            own = [name for name in names if name in network.methods]
            if not own:
                raise PgigError(f"none of the methods chosen can be had on {label}")
            question = question_of(network, [index])
            last = None
            for step in followed(desk, lambda say: answers(network, visitor, picture, question, own, say, check)):  # noqa: B023
                if isinstance(step, Tick):
                    yield _SKIP, {"text": f"in work: {label}, {step.text}", "share": step.share}
                else:
                    last = step.made
            assert last is not None
            cards += [
                shown_map(one, picture, title=f"{name} · {label}", own_photo=True)
                for name, one in in_order(last, own).items()
            ]
            value = {"title": "Side by side", "told": "; ".join(told), "photo": photo(picture)}
            yield {**value, "maps": sorted(cards, key=lambda card: _place(card["name"], names))}, {"text": ""}
    except Exception as error:
        yield _SKIP, sentence(error)


def _place(title: str, names: Sequence[str]) -> int:
    """Cards of one method stand together."""
    return names.index(title.partition(" · ")[0])
