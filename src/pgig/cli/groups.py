"""Groups of options: dataclasses whose fields are options, declared once and taken by several commands."""

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The same command with every parameter that is a group spread out into the group's options."""
    hints = get_type_hints(command, include_extras=True)
    spread: dict[str, list[str]] = {}
    parameters: list[Parameter] = []
    for name, parameter in signature(command).parameters.items():
        group = hints[name]
        if not is_dataclass(group):
            parameters.append(parameter.replace(annotation=group, kind=Parameter.KEYWORD_ONLY))
            continue
        own = get_type_hints(group, include_extras=True)
        spread[name] = [field.name for field in fields(group)]
        for field in fields(group):
            default = Parameter.empty if field.default is MISSING else field.default
            parameters.append(
                Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=own[field.name])
            )

    @wraps(command)
    def run(**given: Any) -> None:
        for name, options in spread.items():
            given[name] = hints[name](**{option: given.pop(option) for option in options})
        command(**given)

    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
