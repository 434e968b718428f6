"""Pages that need no network: everything they show is inside."""

import json
import re
import warnings
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.figure import Figure

from pgig.files import written
from pgig.statistics import shown


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
    environment.filters["number"] = shown
    environment.filters["json"] = _json
    with written(path) as temporary:
        temporary.write_text(environment.get_template(template).render(**content), encoding="utf-8")


def _json(value: Any) -> Markup:
    """Data that a page's script reads; nothing in it can end the script."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def _plain(text: object) -> str:
    """Text that Markdown shows as it is, in a table too."""
    return re.sub(r"([\\`*\[\]<>|~&]|(?<!\w)_|_(?!\w))", r"\\\1", " ".join(str(text).split()))


@dataclass(frozen=True)
class Size:
    """Of a figure and what is written on it: inches, points."""

    width: float
    text: float
    title: float
    label: float
    line: float  # times as wide


PAGE = Size(9.5, 10, 11, 9, 1.0)
COLUMN = Size(3.4, 7, 7, 6, 0.6)  # of a paper with two


def publish(draw: Callable[[Size], Figure], path: Path) -> str:
    """Write a figure as PNG for the page, and as SVG and PDF for a paper's column; gives the PNG as an address."""
    figure = draw(COLUMN)
    fonts: Any = {"pdf.fonttype": 42, "svg.fonttype": "path", "svg.hashsalt": "pgig"}
    with rc_context(fonts), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")
        for ending, told in (("svg", {"Date": None}), ("pdf", {"CreationDate": None})):
            with written(path.with_suffix(f".{ending}")) as temporary:
                figure.savefig(temporary, format=ending, metadata=told)
    return write_figure(draw(PAGE), path)


def write_figure(figure: Figure, path: Path) -> str:
    """Write a figure as PNG, and give it as an address that a page can hold."""
    buffer = BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a name in letters that the font does not have
        figure.savefig(buffer, dpi=130, format="png")
    with written(path) as temporary:
        temporary.write_bytes(buffer.getvalue())
    return "data:image/png;base64," + b64encode(buffer.getvalue()).decode()
