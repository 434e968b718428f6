"""Compare: two networks on one picture, two pictures on one network, methods with one another."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gradio

from pgig.app.answers import answers, in_order, question_of
from pgig.app.desk import BUSY, QUICK, SLOW, WAITING, Desk, Tick, followed, sentence, stop
from pgig.app.network import Network
from pgig.app.shown import shown_agreement, shown_map, thumbnail
from pgig.app.tabs.explain import computed
from pgig.app.views import view
from pgig.app.visitors import Stopped, Visitor
from pgig.errors import PgigError
from pgig.runs.explain import photo
from pgig.vision.pictures import Picture

_SKIP: Any = gradio.skip()
FIRST = {"text": "explain a picture first: then compare here"}


def compare_tab(desk: Desk, methods: gradio.CheckboxGroup) -> list[gradio.HTML]:
    """Gives what is of no picture but the one that it was made for: status, matrix and maps."""
    labels = [network.label for network in desk.networks]
    with gradio.Row():
        with gradio.Column(min_width=280):
            gradio.Markdown("### Two networks on this picture")
            if labels[1:]:
                other = gradio.Dropdown(labels[1:], value=labels[1], label="against", elem_id="other-network")
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
    with gradio.Row(equal_height=True):
        status = view("status", FIRST, elem_id="compare-status", scale=5)
        stop(desk, status, elem_id="compare-stop", scale=1, min_width=90)
    maps = view("maps", elem_id="compared")

    def networks(label: str, names: list[str], request: gradio.Request) -> dict[str, Any]:
        visitor, number = desk.visitor(request), labels.index(label)
        if visitor.look is None:
            return FIRST
        pairs = [(desk.networks[n], visitor.look.pictures[n], labels[n]) for n in (0, number)]
        visitor.wish("compare", (pairs, names))
        return WAITING

    def took(names: list[str], event: gradio.EventData, request: gradio.Request) -> tuple[Any, Any]:
        visitor, sent = desk.visitor(request), event._data or {}
        visitor.is_latest("other", sent.get("turn"))
        try:
            second = desk.quickly(lambda: desk.read(sent)).picture
        except Exception as error:
            return {"error": sentence(error)["text"]}, _SKIP
        if visitor.look is None:
            return {"error": ""}, FIRST
        if visitor.is_latest("other", sent.get("turn")):
            first = visitor.look.picture
            title = second.name if second.name != first.name else f"{second.name}, the other"
            pairs = [(desk.network, first, first.name), (desk.network, second, title)]
            visitor.wish("compare", (pairs, names))
        return {"error": ""}, WAITING

    def compare(request: gradio.Request) -> Iterator[tuple[Any, Any]]:
        visitor = desk.visitor(request)
        if (wish := visitor.take("compare")) is None:
            yield _SKIP, _SKIP
            return
        (pairs, names), check = wish
        yield from _compared(desk, visitor, pairs, names, check)

    def agreement(names: list[str], request: gradio.Request) -> dict[str, Any]:
        try:
            return shown_agreement(computed(desk, desk.visitor(request), names))
        except PgigError as error:
            return {"error": str(error)}

    wishes = [picker.picked(took, methods, [picker, status], **QUICK)]
    if labels[1:]:
        wishes.append(both.click(networks, [other, methods], status, **QUICK))
    for wish in wishes:
        wish.then(compare, None, [maps, status], **SLOW).failure(lambda: BUSY, None, status, **QUICK)
    status.nudged(compare, None, [maps, status], **SLOW)
    agree.click(agreement, methods, matrix, **SLOW)
    return [status, matrix, maps]


def _compared(
    desk: Desk,
    visitor: Visitor,
    pairs: Sequence[tuple[Network, Picture, str]],
    names: list[str],
    check: Callable[[], None],
) -> Iterator[tuple[Any, Any]]:
    """Each network's own likeliest class is explained, by the methods that it has."""
    cards: dict[tuple[str, str], dict[str, Any]] = {}
    told: list[str] = []
    left_out: dict[str, str] = {}
    try:
        check()
        if not names:
            raise PgigError("choose at least one method")
        for network, picture, label in pairs:
            (index, share), *_ = desk.quickly(lambda: network.likeliest(picture))  # noqa: B023
            told.append(f"{label}: {network.name_of(index)}, {share:.1%}")
            own = [name for name in names if name in network.methods]
            left_out |= {f"{name} · {label}": "it needs patterns" for name in names if name not in own}
            question = question_of(network, [index])
            work = (network, visitor, picture, question, own)
            for step in followed(desk, lambda say: answers(*work, say, check)) if own else ():  # noqa: B023
                check()
                if isinstance(step, Tick):
                    yield _SKIP, {"text": f"in work: {label}, {step.text}", "share": step.share}
                    continue
                for name, one in in_order(step.made, own).items():
                    if (name, label) not in cards:
                        cards[name, label] = shown_map(one, picture, title=f"{name} · {label}", own_photo=True)
                left_out |= {f"{name} · {label}": why for name, why in step.made.left_out.items()}
                # pairs stand together, before those that only one network has
                order = sorted(names, key=lambda n: n not in pairs[-1][0].methods)
                shown = [cards[n, of] for n in order for _, _, of in pairs if (n, of) in cards]
                value = {"title": "Side by side", "told": "; ".join(told), "photo": photo(picture)}
                yield {**value, "maps": shown, "left_out": left_out, "pairs": True}, {"text": ""}
    except Stopped:
        yield _SKIP, _SKIP
    except Exception as error:
        yield _SKIP, sentence(error)
