"""The reference of commands, from their own help."""

from importlib import import_module
from typing import Any


def commands_page() -> str:
    from typer.main import get_command

    from pgig.cli import COMMANDS
    from pgig.cli.command import app

    for name in COMMANDS:
        import_module(f"pgig.cli.{name}")

    group: Any = get_command(app)
    parts = ["# Commands", "", group.help or "", ""]
    for name in COMMANDS:
        parts += _command(name, group.commands[name])
    return "\n".join(parts)


def _command(name: str, command: Any) -> list[str]:
    found = [f"## pgig {name}", "", (command.help or "").strip(), ""]
    if command.params:
        found += ["| option | | default |", "| --- | --- | --- |"]
    for parameter in command.params:
        if getattr(parameter, "hidden", False):
            continue
        names = ", ".join(f"`{each}`" for each in [*parameter.opts, *parameter.secondary_opts])
        told = " ".join((getattr(parameter, "help", None) or "").split()).replace("|", "\\|")
        found.append(f"| {names} | {told} | {_default(parameter)} |")
    return [*found, ""]


def _default(parameter: Any) -> str:
    if parameter.required:
        return "must be given"
    value = parameter.default
    return "" if value is None or value is False or callable(value) or value == "" else f"`{value}`"
