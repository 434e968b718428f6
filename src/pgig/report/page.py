"""Pages that need no network: everything they show is inside."""

import re
import warnings
from base64 import b64encode
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

from pgig.files import written


def write_page(path: Path, template: str, **content: Any) -> None:
    """Fill a template of this package; in HTML, text is escaped."""
    environment = Environment(
        loader=PackageLoader("pgig.report"),
        autoescape=template.endswith(".html"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["address"] = quote
    environment.filters["plain"] = _plain
    with written(path) as temporary:
        temporary.write_text(environment.get_template(template).render(**content), encoding="utf-8")


def _plain(text: object) -> str:
    """Text that Markdown shows as it is, in a table too."""
    return re.sub(r"([\\`*\[\]<>|~&]|(?<!\w)_|_(?!\w))", r"\\\1", " ".join(str(text).split()))


def write_figure(figure: Figure, path: Path) -> str:
    """Write a figure as PNG, and give it as an address that a page can hold."""
    buffer = BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a name in letters that the font does not have
        figure.savefig(buffer, dpi=130, format="png")
    with written(path) as temporary:
        temporary.write_bytes(buffer.getvalue())
    return "data:image/png;base64," + b64encode(buffer.getvalue()).decode()
