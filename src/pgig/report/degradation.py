"""The report of degradation runs: figures, tables, a Markdown and an HTML page."""

from collections.abc import Mapping, Sequence
from itertools import chain, count
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy
from matplotlib.figure import Figure

from pgig.errors import PgigError
from pgig.files import check_target
from pgig.records.tables import write_csv
from pgig.report.curves import curves_figure
from pgig.report.page import write_figure, write_page
from pgig.report.run import Run
from pgig.report.side_by_side import areas_table, differences, panels, write_areas
from pgig.report.truth import truth_sheet
from pgig.statistics import Comparison, Interval

_JOINT = "side-by-side"  # the name of the files on all runs together


def write_report(folders: Sequence[Path], out: Path) -> Path:
    """A pure function of the run folders. Gives the page."""
    if not folders:
        raise PgigError("no run given")
    check_target(out / "index.html")
    runs = [Run.read(folder) for folder in folders]
    names = _distinct(runs)
    sections = [_section(run, name, out) for run, name in zip(runs, names, strict=True)]
    joint = _joint(dict(zip(names, runs, strict=True)), sections, out) if len(runs) > 1 else None
    for file, template in (("index.html", "degradation.html"), ("report.md", "degradation.md")):
        write_page(out / file, template, sections=sections, joint=joint)
    return out / "index.html"


def _distinct(runs: Sequence[Run]) -> list[str]:
    names: list[str] = []
    for run in runs:
        tried = chain([run.name], (f"{run.name}-{number}" for number in count(2)))
        names.append(next(name for name in tried if name not in names))
    return names


def _joint(runs: Mapping[str, Run], sections: Sequence[Mapping[str, Any]], out: Path) -> dict[str, Any]:
    areas = areas_table({section["name"]: section["measures"] for section in sections})
    write_areas(out / f"{_JOINT}.csv", areas)
    return {
        "names": list(runs),
        "differences": differences(runs),
        "areas": areas,
        "figure": write_figure(panels(runs), out / f"{_JOINT}.png"),
        "figure_file": f"{_JOINT}.png",
        "table_file": f"{_JOINT}.csv",
    }


def _section(run: Run, name: str, out: Path) -> dict[str, Any]:
    measures, pairs = run.measures(), run.comparisons()
    _write_tables(run, measures, pairs, out, name)
    return {
        "name": name,
        "complete": run.is_complete,
        "images": len(run.images),
        "wanted": run.config["images"]["count"],
        "skipped": run.skipped,
        "unsealed": run.unsealed,
        "config": {section: dict(values) for section, values in run.config.items()},
        "border": _border(run),
        "figure": write_figure(_figure(run), out / f"{name}-curves.png"),
        "figure_file": f"{name}-curves.png",
        "head": list(next(iter(measures.values()))),
        "measures": measures,
        "seconds": run.seconds,
        "pairs": _shown_pairs(pairs, "pgig" if "pgig" in measures else next(iter(measures))),
        "sheet": _sheet(run, out / f"{name}-examples.png"),
        "sheet_file": f"{name}-examples.png",
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
        ([step * run.patches_per_step, *(means[m][step] for m in means)] for step in range(run.steps + 1)),
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


def _figure(run: Run) -> Figure:
    title = f"{run.name}: {len(run.images)} images, {run.config['model']['model']}"
    axis = run.measure.axis.format(score=run.config["degradation"].get("score", "score"))
    return curves_figure(run.curves, title, axis, run.patches_per_step)


def _border(run: Run) -> int:
    return int(run.config["images"]["size"]) % int(run.config["attributions"]["patch"])


def _shown_pairs(pairs: Any, method: str) -> list[tuple[str, str, Any]]:
    return [(one, two, pair) for (one, two), pair in pairs.items() if method in (one, two)]


def _sheet(run: Run, path: Path) -> str | None:
    loaded, files = [], []
    for file in sorted((run.folder / "heatmaps").glob("[!.]*.npz"))[:4]:
        try:
            with numpy.load(file, allow_pickle=False) as arrays:
                loaded.append({name: arrays[name] for name in arrays.files})
                files.append(file)
        except (OSError, ValueError, EOFError, BadZipFile):  # examples are not worth a report
            continue
    if not files:
        return None
    methods = [name for name in loaded[0] if name != "image"]
    figure = truth_sheet(
        [arrays["image"] for arrays in loaded], None, {m: [a[m] for a in loaded] for m in methods},
        [file.stem.partition("-")[2][:14] for file in files],
    )  # fmt: skip
    return write_figure(figure, path)
