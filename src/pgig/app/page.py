"""The page: its tabs, put together."""

from typing import Any

import gradio

from pgig.app.desk import MOST_WAITING, QUICK, Desk
from pgig.app.tabs.compare import compare_tab
from pgig.app.tabs.doubt import doubt_tab
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
            with gradio.Tab("Doubt", id="doubt") as doubt:
                curves = doubt_tab(desk, doubt)
            with gradio.Tab("Compare", id="compare"):
                compared = compare_tab(desk, explained.methods)
            with gradio.Tab("Patterns", id="patterns"):
                patterns_tab(desk)
            with gradio.Tab("Truth", id="truth"):
                truth_tab(desk)

        # what was made for another picture or class goes
        stale = [curves, *compared]
        for event in (explained.picker.picked, explained.classes.asked):
            event(lambda: [{}] * len(stale), None, stale, **QUICK)

        def leave(request: gradio.Request) -> None:
            desk.visitors.leave(request.session_hash)
            # Gradio would keep what it last showed for an hour
            page.state_holder.session_data.pop(request.session_hash, None)

        page.unload(leave)
    page.state_session_capacity = MOST_VISITORS
    page.queue(max_size=MOST_WAITING, api_open=False)
    return page  # type: ignore[no-any-return]


def theme() -> Any:
    return gradio.themes.Default(font=_FONT, font_mono=_MONO)
