"""Docstrings of this project as Markdown: arguments as a list, examples as code. They are plain prose for `help()`."""

import re
from typing import Any

from griffe import Extension, Module, Object, ParameterKind, Parameters

_ARGUMENT = re.compile(r"^([a-z_]\w*(?:=\S+)?(?:, [a-z_]\w*)*): (.*)")


class Docstrings(Extension):
    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)

    def on_module_members(self, *, mod: Module, **_: Any) -> None:
        """`**options` of a typed dictionary are spelled out, with defaults, as by the neighbour that has them."""
        for function in mod.functions.values():
            if not any("Unpack[" in str(each.annotation) for each in function.parameters):
                continue
            every = (
                [e for e in each.parameters if e.kind is ParameterKind.keyword_only] for each in mod.functions.values()
            )
            keywords = max(every, key=len)
            own = [each for each in function.parameters if each.kind is not ParameterKind.var_keyword]
            function.parameters = Parameters(*own, *keywords)


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
