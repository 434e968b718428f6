"""Docstrings of this project as Markdown: arguments as a list, examples as code. They are plain prose for `help()`."""

import re
from typing import Any

from griffe import Extension, Object

_ARGUMENT = re.compile(r"^([a-z_]\w*(?:=\S+)?(?:, [a-z_]\w*)*): (.*)")


class Docstrings(Extension):
    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    found: list[str] = []
    in_code = in_list = False
    for line in text.splitlines():
        argument = _ARGUMENT.match(line)
        if line.startswith(">>>") and not in_code:
            found += ["", "```pycon"]
            in_code, in_list = True, False
        elif not line and in_code:
            found.append("```")
            in_code = False
        elif argument and not in_code:
            found += ([] if in_list else [""]) + [f"- `{argument[1]}`: {argument[2]}"]
            in_list = True
            continue
        elif not line:
            in_list = False
        found.append(line)
    return "\n".join([*found, *(["```"] if in_code else [])])
