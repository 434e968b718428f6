"""Truth: an image whose truth is known, and which method finds it."""

from collections.abc import Iterator
from typing import Any

import gradio

from pgig.app.desk import BUSY, QUICK, SLOW, WAITING, Desk, Tick, followed, sentence, stop
from pgig.app.network import known_methods
from pgig.app.saving import truth_code
from pgig.app.truths import truths
from pgig.app.views import view
from pgig.app.visitors import Stopped
from pgig.explainers.registry import QUICK_METHODS
from pgig.synthetic.images import CLASSES, SETTINGS

_SKIP: Any = gradio.skip()


def truth_tab(desk: Desk) -> None:
    gradio.Markdown(
        "Generated shapes under noise, with a small network that was trained on them: here it is known which pixels "
        "carry the class."
    )
    with gradio.Row():
        setting = gradio.Dropdown(list(SETTINGS), value="suppressor", label="Noise", elem_id="setting")
        wanted = gradio.Dropdown(["any", *CLASSES], value="any", label="Class", elem_id="wanted")
        seed = gradio.Number(0, label="Seed", precision=0, elem_id="seed")
    gradio.Markdown("; ".join(f"*{name}*: {each.about}" for name, each in SETTINGS.items()) + ".")
    methods = gradio.CheckboxGroup(known_methods(True), value=list(QUICK_METHODS), label="Methods")
    status = view("status", {"text": ""}, elem_id="truth-status")
    with gradio.Row():
        go = gradio.Button("Draw", variant="primary", elem_id="draw")
        stop(desk, status, elem_id="truth-stop")
    maps = view("maps", elem_id="truths")
    with gradio.Accordion("Show me the code", open=False):
        code = gradio.Code(language="python", label="The same in Python", elem_id="truth-code")

    def begin(name: str, of: str, number: float, names: list[str], request: gradio.Request) -> dict[str, Any]:
        desk.visitor(request).wish("truth", (name, of, int(number or 0), names))
        return WAITING

    def draw(request: gradio.Request) -> Iterator[tuple[Any, ...]]:
        visitor = desk.visitor(request)
        if (wish := visitor.take("truth")) is None:
            yield _SKIP, _SKIP, _SKIP
            return
        (name, of, number, names), check = wish
        try:
            check()
            made = truth_code(name, of, number, names)
            for step in followed(desk, lambda say: truths(desk.small, visitor, name, of, number, names, say, check)):
                check()
                if isinstance(step, Tick):
                    yield _SKIP, {"text": f"in work: {step.text}", "share": step.share}, _SKIP
                else:
                    yield step.made, {"text": ""}, made
        except Stopped:
            yield _SKIP, _SKIP, _SKIP
        except Exception as error:
            yield _SKIP, sentence(error), _SKIP

    go.click(begin, [setting, wanted, seed, methods], status, **QUICK).then(
        draw, None, [maps, status, code], **SLOW
    ).failure(lambda: BUSY, None, status, **QUICK)
    status.nudged(draw, None, [maps, status, code], **SLOW)
