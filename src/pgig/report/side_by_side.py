"""Several runs side by side: what differs between them, their curves, and each method's area and rank in each."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from pgig.records.tables import write_csv
from pgig.report.curves import draw_curves, looks
from pgig.report.names import short_name
from pgig.report.run import Run
from pgig.statistics import Interval

_ACROSS = 3  # panels in a row
_SAID_ELSEWHERE = "digest", "methods", "count"
Measures = Mapping[str, Mapping[str, Interval]]


def areas_table(measures: Mapping[str, Measures]) -> dict[str, dict[str, tuple[int, Interval] | None]]:
    """method -> run -> rank and what ranks, or None where the run did not have it; as the first run ranks."""
    methods = dict.fromkeys(method for of_run in measures.values() for method in of_run)
    return {
        method: {
            run: (list(of_run).index(method) + 1, next(iter(of_run[method].values()))) if method in of_run else None
            for run, of_run in measures.items()
        }
        for method in methods
    }


def write_areas(path: Path, table: Mapping[str, Mapping[str, tuple[int, Interval] | None]]) -> None:
    rows = [
        [method, run, rank, area.mean, area.low, area.high]
        for method, of_run in table.items()
        for run, found in of_run.items()
        if found is not None
        for rank, area in [found]
    ]
    write_csv(path, ["method", "run", "rank", "AUC", "AUC low", "AUC high"], rows)


def differences(runs: Mapping[str, Run]) -> dict[str, dict[str, Any]]:
    """What the runs were asked for differently: setting -> run -> value."""
    found: dict[str, dict[str, Any]] = {}
    for section in ("images", "model", "attributions", "degradation", "measures"):
        keys = dict.fromkeys(key for run in runs.values() for key in run.config.get(section, {}))
        for key in keys:
            values = {name: run.config.get(section, {}).get(key, "") for name, run in runs.items()}
            told = not key.endswith(_SAID_ELSEWHERE)
            if told and any(value != next(iter(values.values())) for value in values.values()):
                found[key] = values
    if "departure" in found:
        found["protocol"] = found.pop("departure")  # what the command calls it
    found = {key: values for key, values in found.items() if not any(isinstance(v, dict) for v in values.values())}
    return {"images": {name: len(run.images) for name, run in runs.items()}, **found}


def panels(runs: Mapping[str, Run]) -> Figure:
    """The curves of every run in a panel of its own, with the same look for a method in all."""
    methods = list(dict.fromkeys(method for run in runs.values() for method in run.methods))
    look = looks(methods)
    across = 2 if len(runs) == 4 else min(_ACROSS, len(runs))
    down = -(-len(runs) // across)
    figure = Figure(figsize=(4.2 * across, 3.4 * down + 0.3 * (-(-len(methods) // 4))), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False, sharey=_same_score(list(runs.values())))
    for ax in axes.flat[len(runs) :]:
        ax.set_visible(False)
    for ax, (name, run) in zip(axes.flat, runs.items(), strict=False):
        draw_curves(ax, run.bands(run.first), look, run.asked[run.first].patches_per_step)
        ax.set_title(f"{short_name(name)}: {len(run.images)} images", fontsize=10, parse_math=False)
        ax.set_xlabel(run.measure.steps)
    for ax in axes[:, 0]:
        ax.set_ylabel("mean score of the class")
    handles = {line.get_gid(): line for ax in axes.flat for line in ax.get_lines() if line.get_gid()}
    legend = figure.legend(
        [handles[m] for m in methods], [short_name(m) for m in methods],
        loc="outside lower center", ncols=4, frameon=False, fontsize=9,
    )  # fmt: skip
    for text in legend.get_texts():
        text.set_parse_math(False)
    return figure


def _same_score(runs: Sequence[Run]) -> bool:
    return len({run.config["degradation"].get("score") for run in runs}) == 1
