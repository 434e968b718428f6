"""The report of degradation runs: figures, tables, a Markdown and an HTML page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
from matplotlib.figure import Figure

from pgig.errors import PgigError
from pgig.files import check_target
from pgig.report.names import short_name
from pgig.report.page import write_figure, write_page
from pgig.report.run import Run
from pgig.report.tables import write_csv
from pgig.report.truth import truth_sheet
from pgig.statistics import Comparison, Interval, band

# Okabe and Ito's colours, which colour-blind readers can tell apart; beyond eight, with another dash
_COLOURS = "#000000", "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#cc79a7", "#8c8c00"
_DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)))


def curves_figure(run: Run) -> Figure:
    """All mean curves with bands of 95 %, labelled at their ends."""
    figure = Figure(figsize=(9.5, 5.8), layout="constrained")
    ax = figure.subplots()
    steps = numpy.arange(run.steps + 1)
    order = sorted(run.curves, key=lambda method: -float(run.curves[method][:, -1].mean()))
    ends = []
    for number, method in enumerate(run.curves):
        mean, low, high = band(run.curves[method])
        colour, dash = _COLOURS[number % len(_COLOURS)], _DASHES[number // len(_COLOURS) % len(_DASHES)]
        width = 2.6 if method == "pgig" else 1.4
        ax.fill_between(steps, low, high, color=colour, alpha=0.08, linewidth=0)
        ax.plot(steps, mean, color=colour, linestyle=dash, linewidth=width, label=method)
        ends.append((order.index(method), method, float(mean[-1]), colour))
    bottom, top = ax.get_ylim()
    _label_ends(ax, sorted(ends), run.steps, bottom, top)
    ax.set_xlim(0, run.steps)
    ax.set_xlabel("patches replaced")
    score = run.config["degradation"].get("score", "score")
    ax.set_ylabel(f"mean {score} of the class")
    ax.set_title(f"{run.name}: {len(run.images)} images, {run.config['model']['model']}", fontsize=11)
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def _label_ends(ax: Any, ends: list[tuple[int, str, float, str]], steps: int, bottom: float, top: float) -> None:
    """Names beside the ends of the lines, moved apart where they would overlap."""
    gap = (top - bottom) / 24
    places: list[float] = []
    for _, _, value, _ in ends:  # from the top down
        places.append(value if not places else min(value, places[-1] - gap))
    lift = max(0.0, bottom - places[-1]) if places else 0.0
    for (_, method, value, colour), place in zip(ends, places, strict=True):
        ax.annotate(
            short_name(method), (steps, value), (steps * 1.03, place + lift), color=colour, fontsize=9,
            va="center", annotation_clip=False, weight="bold" if method == "pgig" else "normal",
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5},
        )  # fmt: skip


def write_report(folders: Sequence[Path], out: Path) -> Path:
    """A pure function of the run folders. Gives the page."""
    if not folders:
        raise PgigError("no run given")
    check_target(out / "index.html")
    runs = [Run.read(folder) for folder in folders]
    names = _distinct(runs)
    sections = [_section(run, name, out) for run, name in zip(runs, names, strict=True)]
    write_page(out / "index.html", "degradation.html", sections=sections)
    write_page(out / "report.md", "degradation.md", sections=sections)
    return out / "index.html"


def _distinct(runs: Sequence[Run]) -> list[str]:
    names: list[str] = []
    for run in runs:
        names.append(run.name if run.name not in names else f"{run.name}-{len(names) + 1}")
    return names


def _section(run: Run, name: str, out: Path) -> dict[str, Any]:
    measures, pairs = run.measures(), run.comparisons()
    _write_tables(run, measures, pairs, out, name)
    return {
        "name": name,
        "complete": run.is_complete,
        "images": len(run.images),
        "wanted": run.config["images"]["count"],
        "skipped": run.skipped,
        "config": {section: dict(values) for section, values in run.config.items()},
        "border": _border(run),
        "figure": write_figure(curves_figure(run), out / f"{name}-curves.png"),
        "figure_file": f"{name}-curves.png",
        "head": list(next(iter(measures.values()))),
        "measures": measures,
        "seconds": run.seconds,
        "pairs": _shown_pairs(pairs, "pgig" if "pgig" in measures else next(iter(measures))),
        "sheet": _sheet(run, out / f"{name}-examples.png"),
    }


def _write_tables(
    run: Run,
    measures: Mapping[str, Mapping[str, Interval]],
    pairs: Mapping[tuple[str, str], Comparison],
    out: Path,
    prefix: str,
) -> None:
    means = {method: curves.mean(0) for method, curves in run.curves.items()}
    write_csv(
        out / f"{prefix}-curves.csv", ["patches", *means],
        ([step, *(means[m][step] for m in means)] for step in range(run.steps + 1)),
    )  # fmt: skip
    columns = list(next(iter(measures.values())))
    head = [f"{column}{end}" for column in columns for end in ("", " low", " high")]
    rows = []
    for rank, (method, row) in enumerate(measures.items(), 1):
        values = [value for column in columns for value in (row[column].mean, row[column].low, row[column].high)]
        rows.append([rank, method, *values, run.seconds[method]])
    write_csv(out / f"{prefix}-table.csv", ["rank", "method", *head, "seconds per image"], rows)
    write_csv(
        out / f"{prefix}-pairs.csv",
        ["better", "worse", "difference", "low", "high", "wins", "p of the sign test (Holm)", "p of the mean (Holm)"],
        (
            [one, two, f.difference.mean, f.difference.low, f.difference.high, f.wins, f.sign, f.p]
            for (one, two), f in pairs.items()
        ),
    )


def _border(run: Run) -> int:
    patch = int(run.config["attributions"].get("patch", run.config["degradation"].get("patch", 9)))
    return int(run.config["images"]["size"]) % patch


def _shown_pairs(pairs: Any, method: str) -> list[tuple[str, str, Any]]:
    return [(one, two, pair) for (one, two), pair in pairs.items() if method in (one, two)]


def _sheet(run: Run, path: Path) -> str | None:
    files = sorted((run.folder / "heatmaps").glob("*.npz"))[:4]
    if not files:
        return None
    loaded = []
    for file in files:
        with numpy.load(file, allow_pickle=False) as arrays:
            loaded.append({name: arrays[name] for name in arrays.files})
    methods = [name for name in loaded[0] if name != "image"]
    figure = truth_sheet(
        [arrays["image"] for arrays in loaded], None, {m: [a[m] for a in loaded] for m in methods},
        [file.stem[:14] for file in files],
    )  # fmt: skip
    return write_figure(figure, path)
