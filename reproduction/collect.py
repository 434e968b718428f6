"""From the folders of the runs, the tables and figures that are published with the page."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from shutil import copyfile

from plan import ALL_METHODS, CENTRED, DIGITS, PHOTOGRAPH_FILLS, RELEASED
from signs import sign_rows

from pgig.errors import PgigError
from pgig.records.tables import write_csv
from pgig.report.curves import bands_of, curves_figure
from pgig.report.page import write_figure
from pgig.report.run import Run
from pgig.statistics import auc

HEAD = ["image", "protocol", "method", "AUC"]
Rows = Iterator[list[object]]


def collect(runs: Path, folder: Path) -> None:
    methods = {"paper": _finished(runs / "main"), **{p: _finished(runs / p) for p in ALL_METHODS}}
    variants = {"paper": _finished(runs / "ablations")}
    variants |= {protocol: _finished(runs / f"ablations-{protocol}") for protocol in (*RELEASED, *PHOTOGRAPH_FILLS)}
    write_csv(folder / "areas-methods.csv", HEAD, _rows(methods))
    centred = _rows({"paper": _finished(runs / "centred")}, CENTRED)
    write_csv(folder / "areas-variants.csv", HEAD, [*_rows(variants), *centred])
    write_csv(folder / "signs.csv", ["image", "measure", "of", "value"], sign_rows(runs))
    for path in sorted((runs / "embedded").glob("*.csv")):
        copyfile(path, folder / f"embedded-{path.name}")
    copyfile(runs / "randomized" / "table.csv", folder / "randomization.csv")
    copyfile(runs / "randomized" / "randomization.png", folder / "randomization.png")
    title = f"SqueezeNet 1.0, {len(methods['paper'].images)} photographs"
    write_figure(curves_figure(bands_of(methods["paper"].curves), title), folder / "curves.png")


def _finished(folder: Path) -> Run:
    run = Run.read(folder)
    if not run.is_complete:
        raise PgigError(f"{folder} is not finished: run reproduce.py again")
    return run


def _rows(runs: Mapping[str, Run], suffix: str = "") -> Rows:
    for protocol, run in runs.items():
        for method, curves in run.curves.items():
            for image, area in zip(run.images, auc(curves), strict=True):
                yield [image, protocol, method + suffix, round(float(area), DIGITS)]
