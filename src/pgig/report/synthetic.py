"""What the stress test and the known-truth test leave behind: tables and figures in a folder."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy

from pgig.records.tables import write_csv
from pgig.report.page import write_figure
from pgig.report.stress import stress_figure
from pgig.report.truth import truth_sheet
from pgig.statistics import Comparison, Interval


class Stress(Protocol):
    """What is needed of a `StressTest`."""

    @property
    def attributions(self) -> Mapping[str, Any]: ...

    def columns(self) -> dict[str, Any]: ...

    def verdicts(self) -> dict[str, Any]: ...


class Truth(Protocol):
    """What is needed of a `TruthTest`."""

    @property
    def ids(self) -> tuple[int, ...]: ...

    @property
    def scores(self) -> Mapping[str, Mapping[str, Any]]: ...

    def table(self) -> dict[str, dict[str, Interval]]: ...

    def against(self, method: str) -> dict[str, dict[str, Comparison]]: ...


VERDICT_HEAD = (
    "method", "signal on the plateau", "output there", "follows the target", "distractor", "of IG's",
    "leaves the distractor alone",
)  # fmt: skip


def write_stress(test: Stress, out: Path) -> str:
    """stress.csv, verdicts.csv and stress.png; the figure is also given for a page."""
    columns = {name: numpy.asarray(values) for name, values in test.columns().items()}
    write_csv(out / "stress.csv", list(columns), zip(*columns.values(), strict=True))
    write_csv(out / "verdicts.csv", VERDICT_HEAD, verdict_rows(test))
    return write_figure(stress_figure(columns, list(test.attributions)), out / "stress.png")


def verdict_rows(test: Stress) -> list[list[object]]:
    return [
        [
            name, round(v.signal, 4), round(v.output, 4), "yes" if v.follows_target else "no", round(v.distractor, 4),
            round(v.distractor / v.distractor_of_ig, 4), "yes" if v.leaves_distractor else "no",
        ]
        for name, v in test.verdicts().items()
    ]  # fmt: skip


def write_truth(tests: Mapping[str, Truth], out: Path, reference: str | None) -> None:
    """truth.csv (means with intervals), truth-images.csv (every image), truth-comparisons.csv (`reference` against
    the others), one row each per setting, method and column.
    """
    summaries, images, pairs = [], [], []
    for setting, test in tests.items():
        for method, row in test.table().items():
            summaries += [[setting, method, c, f.mean, f.low, f.high, len(test.ids)] for c, f in row.items()]
        for method, scores in test.scores.items():
            images += [
                [setting, number, method, *values] for number, *values in zip(test.ids, *scores.values(), strict=True)
            ]
        for other, pair in test.against(reference).items() if reference else ():
            pairs += [
                [setting, reference, other, c, f.difference.mean, f.difference.low, f.difference.high, f.wins, f.p]
                for c, f in pair.items()
            ]
    head = ["setting", "method", "measure", "mean", "low", "high", "images"]
    write_csv(out / "truth.csv", head, summaries)
    columns = list(next(iter(next(iter(tests.values())).scores.values())))
    write_csv(out / "truth-images.csv", ["setting", "image", "method", *columns], images)
    if reference:
        head = ["setting", "method", "other", "measure", "difference", "low", "high", "wins", "p (Holm)"]
        write_csv(out / "truth-comparisons.csv", head, pairs)


def write_sheet(
    path: Path,
    pixels: Sequence[Any],
    masks: Sequence[Any],
    attributions: Mapping[str, Sequence[Any]],
    titles: Sequence[str],
    magnitudes: Collection[str] = (),
) -> str:
    return write_figure(truth_sheet(pixels, masks, attributions, titles, magnitudes), path)
