"""Patterns: how far they can be trusted, and what they look like."""

import gradio

from pgig.app.desk import Desk
from pgig.app.layers import shown_layers
from pgig.app.views import view


def patterns_tab(desk: Desk) -> None:
    if len(desk.networks) == 1:
        view("layers", shown_layers(desk.network), elem_id="layers")
        return
    labels = [network.label for network in desk.networks]
    which = gradio.Dropdown(labels, value=labels[0], label="Network")
    layers = view("layers", shown_layers(desk.network), elem_id="layers")
    which.input(lambda label: shown_layers(desk.networks[labels.index(label)]), which, layers, queue=False)
