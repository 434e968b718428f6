"""What a run measures, by its configuration."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pgig.errors import PgigError
from pgig.records.config import number_of
from pgig.records.measure import AskedMeasure
from pgig.records.measures import BY_ORDER, MEASURES, asked_measure


def measures_of(config: Mapping[str, Mapping[str, Any]], folder: Path) -> dict[str, AskedMeasure]:
    """What a run measures, by its configuration. Without a section on measures, the one of its order of patches."""
    if "measures" not in config:
        section = config["degradation"]
        order = section.get("order", "descending")
        if order not in BY_ORDER:
            raise PgigError(f"the configuration in {folder} is damaged: no measure has the order {order!r}")
        for key in ("steps", "patches_per_step"):
            number_of(config, folder, "degradation", key)
        measure = MEASURES[BY_ORDER[order]]
        patch = number_of(config, folder, "attributions", "patch")
        found = {c.name: section.get(c.name, c.default) for c in measure.constants} | {"patch": patch}
        return {measure.name: AskedMeasure(measure.name, measure, found)}
    return {label: _recorded(label, constants, folder) for label, constants in config["measures"].items()}


def _recorded(label: str, constants: Any, folder: Path) -> AskedMeasure:
    asked = asked_measure(label, {})
    fits = isinstance(constants, dict) and constants.keys() == asked.constants.keys()
    if not fits or any(type(value) is not type(asked.constants[key]) for key, value in constants.items()):
        raise PgigError(f"the configuration in {folder} is damaged: {label} has other constants than it should")
    return AskedMeasure(label, asked.measure, constants)
