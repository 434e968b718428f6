"""A run's configuration: what determines the result, what it was made from, and how it was executed."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pgig.errors import PgigError
from pgig.files import read_text, written

Section = Mapping[str, Any]
SECTIONS = "images", "model", "attributions", "degradation"
# only where and how, not what: these may differ when a run is continued
NOT_COMPARED = "files", "execution"
# which runs of earlier versions do not have, and are continued all the same
_ADDED_LATER = "max_pixels", "references_contents", "contents"


def write_config(path: Path, sections: Mapping[str, Section]) -> None:
    lines = []
    for name, section in sections.items():
        lines.append(f"[{name}]")
        lines += [f"{_key(key)} = {_toml(value)}" for key, value in section.items() if value is not None]
        lines.append("")
    with written(path) as temporary:
        temporary.write_text("\n".join(lines), encoding="utf-8")


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise PgigError(f"cannot read the configuration {path}: {error or type(error).__name__}") from error


def read_config(path: Path, needed: Sequence[str] = SECTIONS) -> dict[str, dict[str, Any]]:
    found = read_toml(path)
    if "randomization" in found and "randomization" not in needed:
        raise PgigError(f"{path} is that of a randomisation run, not of a degradation run")
    if "degradation" in found and "degradation" not in needed:
        raise PgigError(f"{path} is that of a degradation run, not of a randomisation run")
    if missing := [name for name in needed if not isinstance(found.get(name), dict)]:
        raise PgigError(f"the configuration {path} is damaged: it has no section [{missing[0]}]")
    if odd := [name for name, section in found.items() if not isinstance(section, dict)]:
        raise PgigError(f"the configuration {path} is damaged: {odd[0]!r} belongs to no section")
    return found


def number_of(config: Mapping[str, Section], folder: Path, section: str, key: str) -> int:
    found = config[section].get(key)
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise PgigError(f"the configuration in {folder} is damaged: [{section}] has no number {key}")
    return found


def check_same(folder: Path, sections: Mapping[str, Section], *, partly: bool = False) -> None:
    """Refuse to go on with a run that was begun with another configuration.

    partly: only as far as `sections` say, since the rest is not known yet.
    """
    before = read_config(folder / "config.toml", [name for name in sections if name not in NOT_COMPARED])
    differences = []
    for name in dict.fromkeys([*(() if partly else before), *sections]):
        if name in NOT_COMPARED:
            continue
        old, new = before.get(name, {}), {k: v for k, v in sections.get(name, {}).items() if v is not None}
        for key in dict.fromkeys([*(() if partly else old), *new]):
            added = key in _ADDED_LATER and key not in old
            if not added and _plain(old.get(key)) != _plain(new.get(key)):
                differences.append(f"{key} was {_shown(old.get(key))}, now {_shown(new.get(key))}")
    if differences:
        raise PgigError(
            f"{folder} holds a run with another configuration: {'; '.join(differences)}", lacks="another folder"
        )


def config_digest(config: Mapping[str, Section]) -> str:
    """Of all that determines the result, as it stands in a run's config.toml."""
    told = {name: dict(section) for name, section in config.items() if name not in NOT_COMPARED}
    return blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=8).hexdigest()


def _key(name: str) -> str:
    return name if name.replace("_", "").isalnum() and name.isascii() else json.dumps(name)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return repr(value) if isinstance(value, int | float) else json.dumps(str(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _shown(value: Any) -> str:
    return "not set" if value is None else repr(value)
