"""Scripts and styles of the views, as text."""

from functools import cache
from importlib.resources import files


@cache
def asset(name: str) -> str:
    return files("pgig.app.assets").joinpath(name).read_text(encoding="utf-8")
