"""The views of the page: a script and plain values, as a component of Gradio's."""

from typing import Any

import gradio

from pgig.app.assets import asset

# each has a script of its own name, with a function `NAMEView(root, send)` that gives a function of values
VIEWS = "status", "picker", "classes", "maps", "removal", "brush", "saver", "matrix", "layers"


def view(name: str, value: Any = None, **options: Any) -> gradio.HTML:
    """Events that a view's script sends are attributes of it: `view("classes").asked(...)`."""
    return gradio.HTML(
        value,
        html_template=f'<div class="pg pg-{name}-view"></div>',
        js_on_load=f"""{asset("common.js")}
{asset(f"{name}.js")}
const send = (event, data) => trigger(event, {{...data, turn: performance.now()}});
const update = {name}View(element.querySelector(".pg"), send);
const renew = () => {{ if (props.value && typeof props.value === "object") update(props.value); }};
renew();
watch("value", renew);
""",
        apply_default_css=False,
        **options,
    )
