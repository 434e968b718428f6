"""Options from a TOML file, such as a run's own config.toml."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer

from pgig.errors import PgigError
from pgig.vision.names import is_elsewhere


def options_from_file(context: typer.Context, path: Path | None) -> Path | None:
    """Options of a file are defaults: those on the command line win."""
    if path is None:
        return None
    from pgig.records.config import read_toml

    sections = read_toml(path)
    known = {parameter.name for parameter in context.command.params} - {"config"}
    found: dict[str, Any] = {}
    for name, section in sections.items():
        if name == "measures" and isinstance(section, dict):
            section = {"measures": list(section), **_shared(section)}
        values = section if isinstance(section, dict) else {name: section}
        found |= {_OPTION.get(key, key.replace("-", "_")): value for key, value in values.items()}
    # where attributions come from another run, theirs and this run's own can differ
    found |= {own: found[run] for own, run in (("seed", "order_seed"), ("target", "scored")) if run in found}
    for name in ("mean", "std", "methods", "measures"):
        if isinstance(found.get(name), list):
            found[name] = ",".join(map(str, found[name]))
    own = {
        "digest", "weights_digest", "patterns_digest", "labels_digest", "references_digest", "references_contents",
        "masks_digest", "explained_score", "order_seed", "scored", "pgig", "torch", "numpy", "pillow",
    }  # fmt: skip
    if unknown := found.keys() - known - own:
        raise PgigError(f"{path} has the unknown option {sorted(unknown)[0]!r}")
    if "address" in found:  # what a cluster sends back is unpickled
        raise PgigError(
            f"{path} names a cluster to connect to, which a file may not: give --address on the command line"
        )
    found = {name: value for name, value in found.items() if name in known}
    _check_types(path, found, context.command.callback)
    context.default_map = {**(context.default_map or {}), **found}
    return path


def _shared(measures: Mapping[str, Any]) -> dict[str, Any]:
    """The constants that all measures of a run have alike where they have them, such as the patch."""
    found = [constants for constants in measures.values() if isinstance(constants, dict)]
    values = {key: [one[key] for one in found if key in one] for key in ("patch", "steps")}
    return {key: these[0] for key, these in values.items() if these and all(value == these[0] for value in these)}


def _check_types(path: Path, found: Mapping[str, Any], command: Callable[..., Any] | None) -> None:
    """TOML has types of its own: a list where one value belongs, or 2.5 steps, are a mistake."""
    hints = get_type_hints(command)
    for name, value in found.items():
        kinds = set(get_args(hints[name])) or {hints[name]}
        wanted = next((kind for kind in (bool, int, float) if kind in kinds), str)
        text = str if Path in kinds else str | int | float  # a fill may be a number
        fitting: Any = {float: int | float, str: text}.get(wanted, wanted)
        if not isinstance(value, fitting) or (isinstance(value, bool) and wanted is not bool):
            raise PgigError(f"{path}: {name} = {value!r} is no {_KINDS[wanted]}")


_KINDS = {bool: "true or false", int: "whole number", float: "number", str: "text"}


def check_no_code(context: typer.Context, config: Path | None, model: str, methods: str) -> None:
    """A file may not name code to run: whoever wrote it need not be the one who runs it."""
    for option, named in (("model", [model]), ("methods", methods.split(","))):
        source = context.get_parameter_source(option)
        code = [name for name in named if ":" in name and not is_elsewhere(name)]
        if code and source is not None and source.name == "DEFAULT_MAP":
            raise PgigError(
                f"{config} names code to run, {code[0].strip()}, which a file may not: repeat it on the command line, "
                f"--{option} {','.join(named)}, if you trust it"
            )


_OPTION = {"departure": "protocol", "count": "limit"}  # what a run's own config.toml calls otherwise
