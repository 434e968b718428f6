"""The report of a randomisation run: a figure, a table with intervals, a page in Markdown."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pgig.errors import PgigError
from pgig.records.tables import write_csv
from pgig.report.curves import looks
from pgig.report.page import write_figure, write_page
from pgig.statistics import Interval, intervals

MEASURES = {"spearman": "rank correlation", "spearman_absolute": "rank correlation of magnitudes", "ssim": "SSIM"}
# stage -> method (with what became of its patterns) -> measure -> [images]
Found = Mapping[str, Mapping[str, Mapping[str, NDArray[numpy.float64]]]]


def write_randomization(folder: Path) -> Path:
    """A pure function of the run folder. Gives the page."""
    stages = _stages(folder)
    found = {stage["stage"]: _read(folder / "stages" / f"{stage['stage']}.csv") for stage in stages}
    shapes = {stage: [(m, len(v["ssim"])) for m, v in of_stage.items()] for stage, of_stage in found.items()}
    most = max(shapes.values(), key=lambda shape: (len(shape), shape[0][1]))
    for stage, shape in shapes.items():
        if shape != most:
            raise _damaged(folder / "stages" / f"{stage}.csv")
    means = {stage: _means(of_stage) for stage, of_stage in found.items()}
    modes = list(dict.fromkeys(stage["mode"] for stage in stages))
    write_csv(
        folder / "table.csv", ["mode", "layer", "randomised", "method", *_columns()],
        (
            [stage["mode"], stage["layer"], stage["randomised"], method, *_cells(row)]
            for stage in stages for method, row in means[stage["stage"]].items()
        ),
    )  # fmt: skip
    write_figure(_figure(stages, modes, means), folder / "randomization.png")
    methods = list(dict.fromkeys(method for of_stage in means.values() for method in of_stage))
    last = {mode: [stage for stage in stages if stage["mode"] == mode] for mode in modes}
    write_page(
        folder / "report.md", "randomization.md", modes=modes, methods=methods, means=means, measures=MEASURES,
        first={mode: found_stages[0] for mode, found_stages in last.items()},
        last={mode: found_stages[-1] for mode, found_stages in last.items()},
        images=len(next(iter(next(iter(found.values())).values()))["ssim"]), doubt=_doubt(found),
    )  # fmt: skip
    return folder / "report.md"


def doubt_of(folder: Path) -> str:
    """What is to be said of attributions without an order; nothing where there are none."""
    return _doubt({stage["stage"]: _read(folder / "stages" / f"{stage['stage']}.csv") for stage in _stages(folder)})


def _doubt(found: Found) -> str:
    """A correlation of exactly zero, both ways, is that of an attribution that is the same everywhere."""
    every = [
        (values["spearman"] == 0) & (values["spearman_absolute"] == 0)
        for of_stage in found.values() for values in of_stage.values()
    ]  # fmt: skip
    blank, count = sum(int(one.sum()) for one in every), sum(map(len, every))
    if not blank:
        return ""
    return (
        f"{blank} of {count} attributions have no order: they are the same everywhere, most likely zero, since the "
        "probability of a class that random weights rule out, and its gradient, round to zero: explain the logit"
    )


def _stages(folder: Path) -> list[dict[str, str]]:
    try:
        with (folder / "stages.csv").open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise PgigError(f"{folder} is not a finished randomisation run: it has no stages.csv") from error


def _read(path: Path) -> dict[str, dict[str, NDArray[numpy.float64]]]:
    collected: dict[str, dict[str, list[float]]] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                label = f"{row['method']} ({row['patterns']})" if row["patterns"] else row["method"]
                values = collected.setdefault(label, {measure: [] for measure in MEASURES})
                for measure in MEASURES:
                    values[measure].append(float(row[measure]))
    except (OSError, KeyError, TypeError, ValueError, csv.Error) as error:
        raise _damaged(path) from error
    if len({len(values["ssim"]) for values in collected.values()}) != 1:
        raise _damaged(path)
    return {label: {m: numpy.array(v) for m, v in values.items()} for label, values in collected.items()}


def _damaged(path: Path) -> PgigError:
    return PgigError(f"{path} is damaged: delete it, and the same command makes it anew")


def _means(found: Mapping[str, Mapping[str, NDArray[numpy.float64]]]) -> dict[str, dict[str, Interval]]:
    return {
        method: dict(zip(MEASURES, intervals(numpy.stack([values[m] for m in MEASURES], 1)), strict=True))
        for method, values in found.items()
    }


def _columns() -> list[str]:
    return [f"{measure}{end}" for measure in MEASURES for end in ("", " low", " high")]


def _cells(row: Mapping[str, Interval]) -> list[float]:
    return [value for measure in MEASURES for value in (row[measure].mean, row[measure].low, row[measure].high)]


def _looks(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A method has one colour; with patterns estimated anew its line is dotted and its marks are crosses."""
    plain = {method: method.removesuffix(" (frozen)").removesuffix(" (anew)") for method in methods}
    own = looks(list(dict.fromkeys(plain.values())))
    anew = {"linestyle": (0, (1, 1)), "marker": "x"}
    return {
        method: {"marker": ".", **own[name], **(anew if method.endswith(" (anew)") else {})}
        for method, name in plain.items()
    }


def _figure(stages: Sequence[Mapping[str, str]], modes: Sequence[str], means: Mapping[str, Any]) -> Figure:
    """A row per measure, a column per mode: how alike attributions stay, layer by layer from the top."""
    methods = list(dict.fromkeys(method for of_stage in means.values() for method in of_stage))
    look = _looks(methods)
    figure = Figure(
        figsize=(6.2 * len(modes), 3.1 * len(MEASURES) + 0.3 * (-(-len(methods) // 3))), layout="constrained"
    )
    axes = figure.subplots(len(MEASURES), len(modes), squeeze=False, sharey="row", sharex="col")
    for column, mode in enumerate(modes):
        own = [stage for stage in stages if stage["mode"] == mode]
        places = numpy.arange(len(own))
        for row, (measure, title) in enumerate(MEASURES.items()):
            ax = axes[row][column]
            for method in methods:
                values = [means[stage["stage"]][method][measure] for stage in own]
                low, high = [v.low for v in values], [v.high for v in values]
                ax.fill_between(places, low, high, color=look[method]["color"], alpha=0.08, linewidth=0)
                ax.plot(places, [v.mean for v in values], label=method, **look[method])
            ax.axhline(0, color="0.7", linewidth=0.8)
            ax.spines[["top", "right"]].set_visible(False)
            if column == 0:
                ax.set_ylabel(title)
        axes[0][column].set_title(f"{mode}, from the top", fontsize=11)
        axes[-1][column].set_xticks(places, [stage["layer"] for stage in own], rotation=60, ha="right", fontsize=7)
        axes[-1][column].set_xlabel("layer, from the top down")
    handles, names = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure
