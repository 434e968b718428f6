"""The page: its tabs, put together."""

from typing import Any

import gradio

from pgig.app.desk import MOST_WAITING, QUICK, Desk
from pgig.app.tabs import compare, doubt
from pgig.app.tabs.explain import explain_tab
from pgig.app.tabs.patterns import patterns_tab
from pgig.app.tabs.truth import truth_tab
from pgig.app.visitors import MOST_VISITORS

_FONT = ["system-ui", "sans-serif"]  # the machine's own: nothing is fetched
_MONO = ["ui-monospace", "monospace"]


def page_of(desk: Desk) -> gradio.Blocks:
    with gradio.Blocks(analytics_enabled=False, title="pgig: ask the network", fill_width=True) as page:
        gradio.Markdown(f"# Ask the network\nWhat mattered to `{desk.network.label}` in a picture, by several methods.")
        with gradio.Tabs():
            with gradio.Tab("Explain", id="explain"):
                explained = explain_tab(desk)
            with gradio.Tab("Doubt", id="doubt") as tab:
                taken = doubt.doubt_tab(desk, tab)
            with gradio.Tab("Compare", id="compare"):
                compared = compare.compare_tab(desk, explained.methods)
            with gradio.Tab("Patterns", id="patterns"):
                patterns_tab(desk)
            with gradio.Tab("Truth", id="truth"):
                truth_tab(desk)

        def cleared(request: gradio.Request) -> list[Any]:
            """What was made for another picture or class goes."""
            visitor = desk.visitor(request)
            if visitor.look is visitor.showing:
                return [gradio.skip()] * 5
            visitor.showing = visitor.look
            return [{"text": "Take parts of this picture away"}, {}, {"text": "Compare what is explained"}, {}, {}]

        for look in explained.looks:
            look.then(cleared, None, [*taken, *compared], **QUICK)

        def leave(request: gradio.Request) -> None:
            desk.visitors.leave(request.session_hash or "")
            forget(page, desk)

        page.unload(leave)
    page.state_session_capacity = MOST_VISITORS
    page.queue(max_size=MOST_WAITING, api_open=False)
    return page  # type: ignore[no-any-return]


def forget(page: gradio.Blocks, desk: Desk) -> None:
    """Gradio would keep for an hour what it last showed to those who have left."""
    for session in list(page.state_holder.session_data):
        if session not in desk.visitors:
            page.state_holder.session_data.pop(session, None)


def theme() -> Any:
    return gradio.themes.Default(font=_FONT, font_mono=_MONO)
