"""Patterns: how far they can be trusted, and what they look like."""

from typing import Any

import gradio

from pgig.app.desk import QUICK, Desk
from pgig.app.layers import shown_layers
from pgig.app.views import view


def patterns_tab(desk: Desk) -> None:
    labels = [network.label for network in desk.networks]
    which = gradio.Dropdown(labels, value=labels[0], label="Network", visible=len(labels) > 1)
    layers = view("layers", shown_layers(desk.network), elem_id="layers")

    def chosen(label: str) -> dict[str, Any]:
        return shown_layers(desk.networks[labels.index(label)])

    which.input(chosen, which, layers, **QUICK)
