"""Truth: an image whose truth is known, and which method finds it."""

from collections.abc import Iterator
from typing import Any

import gradio

from pgig.app.desk import SLOW, Desk, Tick, followed, sentence
from pgig.app.truths import truths
from pgig.app.views import view
from pgig.explainers.registry import QUICK_METHODS
from pgig.synthetic.images import CLASSES, SETTINGS

_SKIP: Any = gradio.skip()


def truth_tab(desk: Desk) -> None:
    gradio.Markdown(
        "Generated shapes under noise, with a small network that was trained on them: here it is known which pixels "
        "carry the class."
    )
    with gradio.Row():
        setting = gradio.Dropdown(
            [(f"{name}: {each.about}", name) for name, each in SETTINGS.items()], value="suppressor", label="Noise",
            elem_id="setting",
        )  # fmt: skip
        wanted = gradio.Dropdown(["any", *CLASSES], value="any", label="Class", elem_id="wanted")
        seed = gradio.Number(0, label="Seed", precision=0, elem_id="seed")
        go = gradio.Button("Draw", variant="primary", elem_id="draw")
    methods = gradio.CheckboxGroup(desk.network.methods, value=list(QUICK_METHODS), label="Methods")
    status = view("status", {"text": ""}, elem_id="truth-status")
    maps = view("maps", elem_id="truths")

    def draw(name: str, of: str, number: float, names: list[str], request: gradio.Request) -> Iterator[tuple[Any, Any]]:
        visitor = desk.visitor(request)
        check = visitor.wanted()
        try:
            yield _SKIP, {"text": "getting ready"}
            for step in followed(desk, lambda say: truths(visitor, name, of, int(number or 0), names, say, check)):
                if isinstance(step, Tick):
                    yield _SKIP, {"text": f"in work: {step.text}", "share": step.share}
                else:
                    yield step.made, {"text": ""}
        except Exception as error:
            yield _SKIP, sentence(error)

    go.click(draw, [setting, wanted, seed, methods], [maps, status], **SLOW)
