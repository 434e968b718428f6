"""The report of runs: figures, tables, a Markdown and an HTML page, and what a paper needs of them."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy

from pgig.errors import PgigError
from pgig.files import check_target
from pgig.report.curves import COLOURS, curves_figure, looks
from pgig.report.differences import differences_figure, to_the_best
from pgig.report.examples import examples_of
from pgig.report.measure_tables import write_images, write_tables
from pgig.report.page import publish, write_figure, write_page
from pgig.report.publication import write_publication
from pgig.report.ranking import Ranking
from pgig.report.ranking_report import ranking_section
from pgig.report.run import Run
from pgig.report.side_by_side import areas_table, differences, panels, write_areas
from pgig.report.truth import truth_sheet

_JOINT = "side-by-side"  # the name of the files on all runs together
_DIGITS = 5  # of the page's curves


def write_report(folders: Sequence[Path], out: Path) -> Path:
    """A pure function of the run folders. Gives the page."""
    if not folders:
        raise PgigError("no run given")
    check_target(out / "index.html")
    runs = named_runs(folders)
    stems: set[str] = set()  # of files
    sections = [_section(run, name, out, stems) for name, run in runs.items()]
    joint = _joint(runs, sections, out) if len(runs) > 1 else None
    ranking = None
    settings = sum(asked.measure.role == "measure" for run in runs.values() for asked in run.asked.values())
    if settings > 1 and len(Ranking.shared_methods(runs)) > 1:
        ranking = ranking_section(Ranking.of(runs), runs, out)
    paper = write_publication(runs, out, sections, ranking)
    for file, template in (("index.html", "benchmark.html"), ("report.md", "benchmark.md")):
        write_page(out / file, template, sections=sections, joint=joint, ranking=ranking, paper=paper)
    return out / "index.html"


def named_runs(folders: Sequence[Path]) -> dict[str, Run]:
    """By their names, made distinct."""
    runs: dict[str, Run] = {}
    for run in [Run.read(folder) for folder in folders]:
        tried = chain([run.name], (f"{run.name}-{number}" for number in count(2)))
        runs[next(name for name in tried if name not in runs)] = run
    return runs


def _joint(runs: Mapping[str, Run], sections: Sequence[Mapping[str, Any]], out: Path) -> dict[str, Any] | None:
    if len({run.first for run in runs.values()}) > 1 or not all(run.first in run.streamed for run in runs.values()):
        return None
    areas = areas_table({section["name"]: section["measures"][0]["table"] for section in sections})
    write_areas(out / f"{_JOINT}.csv", areas)
    return {
        "names": list(runs),
        "differences": differences(runs),
        "areas": areas,
        "figure": write_figure(panels(runs), out / f"{_JOINT}.png"),
        "figure_file": f"{_JOINT}.png",
        "table_file": f"{_JOINT}.csv",
    }


def _section(run: Run, name: str, out: Path, stems: set[str]) -> dict[str, Any]:
    write_images(run, out / f"{name}-images.csv")
    measures = []
    for label in run.asked:
        stem = _free(name if len(run.asked) == 1 else f"{name}-{_file_name(label)}", stems)
        measures.append(_measure(run, label, out, stem))
    look = looks(run.methods)
    return {
        "name": name,
        "complete": run.is_complete,
        "images": len(run.images),
        "wanted": run.config["images"]["count"],
        "skipped": run.skipped,
        "unsealed": run.unsealed,
        "config": {section: dict(values) for section, values in run.config.items()},
        "border": int(run.config["images"]["size"]) % int(run.config["attributions"]["patch"]),
        "measures": measures,
        "seconds": run.seconds,
        "sheet": _sheet(run, out / f"{name}-examples.png"),
        "sheet_file": f"{name}-examples.png",
        "data": {
            "methods": list(run.methods),
            "colours": {method: look[method]["color"] for method in run.methods},
            "dashes": {method: number // len(COLOURS) % 3 for number, method in enumerate(run.methods)},
            "measures": [measure["data"] for measure in measures],
            "examples": examples_of(run),
        },
    }


def _measure(run: Run, label: str, out: Path, stem: str) -> dict[str, Any]:
    asked = run.asked[label]
    measure, table, pairs = asked.measure, run.measures(label), run.comparisons(label)
    write_tables(run, label, table, pairs, out, stem)
    axis = measure.axis.format(score=run.config["degradation"].get("score", "score"))
    title = f"{label}: {len(run.images)} images, {run.config['model']['model']}"
    best = next(iter(table)) if measure.role != "control" else None  # methods do not differ by a control
    behind = to_the_best(pairs) if pairs and best else {}
    bands = run.bands(label) if label in run.streamed else {}
    figures: dict[str, str | None] = {"curves": None, "differences": None}
    if bands:
        figures["curves"] = publish(
            lambda size: curves_figure(bands, title, axis, asked.patches_per_step, measure.steps, size),
            out / f"{stem}-curves.png",
        )
    if best and behind:
        draw = partial(differences_figure, best, behind, measure.ranks_by, title)
        figures["differences"] = publish(lambda size: draw(size), out / f"{stem}-differences.png")
    rounded = {m: [_rounded(part) for part in (b.mean, b.low, b.high)] for m, b in bands.items()}
    return {
        "label": label,
        "about": measure.about,
        "better": measure.better,
        "role": measure.role,
        "column": measure.ranks_by,
        "constants": [(c, asked.constants[c.name]) for c in measure.constants],
        "share": _share(run, label),
        "stem": stem,
        "figures": figures,
        "head": list(next(iter(table.values()))),
        "table": table,
        "best": best,
        "tied": run.tied(label) if best else [],
        "behind": behind,
        "pairs": {two: p for (one, two), p in pairs.items() if behind and one == "pgig" and best != "pgig"},
        "ahead": {one: p for (one, two), p in pairs.items() if behind and two == "pgig" and one != best},
        "data": {
            "label": label, "better": measure.better, "column": measure.ranks_by, "axis": axis, "steps": measure.steps,
            "each": asked.patches_per_step, "curves": rounded,
            "rows": {m: [row[measure.ranks_by].mean, row[measure.ranks_by].low, row[measure.ranks_by].high]
                     for m, row in table.items()},
        },
    }  # fmt: skip


def _free(stem: str, taken: set[str]) -> str:
    """A name of files that no other run or measure has."""
    found = next(name for name in chain([stem], (f"{stem}-{number}" for number in count(2))) if name not in taken)
    taken.add(found)
    return found


def _share(run: Run, label: str) -> str | None:
    """What share of the image is replaced in the end, in words."""
    constants, size = run.asked[label].constants, int(run.config["images"]["size"])
    if constants.get("unit") == "patch":
        side = max(1, size // int(constants["across"]))
        left = size % side
        rest = f"; {left} rows and columns at the border belong to none" if left else ""
        return f"patches are {side} x {side} pixels, {(size // side) ** 2} of them{rest}"
    if "steps" not in constants:
        return None
    patches, side = int(constants["steps"]) * run.asked[label].patches_per_step, int(constants["patch"])
    share = f"{patches * side**2 / size**2:.0%}"
    return f"{patches} patches of {side} x {side} pixels are {share} of the image; what is left of it is never replaced"


def _rounded(values: Any) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in values]


def _file_name(label: str) -> str:
    return "".join(c if c.isalnum() or c in "-_.=" else "-" for c in label)


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
