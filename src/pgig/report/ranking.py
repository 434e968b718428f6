"""One ranking over many settings: every measure of every run is a setting, and counts by ranks, not by its numbers.

Images are drawn with replacement, the same for all measures of a run, and everything is computed anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy
from numpy.typing import NDArray

from pgig.errors import PgigError
from pgig.report.run import Run
from pgig.statistics import LEVEL, Interval, comparisons, holm, resampled_means

RESAMPLES = 2000
ALPHA = 0.05
Numbers = NDArray[numpy.float64]


@dataclass(frozen=True)
class Cell:
    """What one measure of one run says of the methods."""

    run: str
    label: str
    images: int
    means: Numbers  # [methods], of the column that ranks
    ranks: Numbers  # [methods], 1 is best; equals share their mean rank
    drawn: Numbers  # [resamples, methods], ranks of images drawn with replacement
    best_group: NDArray[numpy.bool_]  # [methods]: not told apart from the best (paired, Holm)
    p: Numbers  # [methods], against the best; 1 for the best itself
    is_complete: bool  # the run

    def interval(self, place: int) -> Interval:
        return _interval(float(self.ranks[place]), self.drawn[:, place])


@dataclass(frozen=True)
class Agreement:
    """How two measures' rankings go together, over all runs that have both."""

    first: str
    second: str
    correlation: Interval


@dataclass(frozen=True)
class Ranking:
    methods: tuple[str, ...]
    cells: tuple[Cell, ...]
    left_out: Mapping[str, Sequence[str]]  # run -> methods that not all runs have
    not_counted: tuple[str, ...]  # labels of controls and of what others say already

    @staticmethod
    def shared_methods(runs: Mapping[str, Run]) -> list[str]:
        return [m for m in next(iter(runs.values())).methods if all(m in run.methods for run in runs.values())]

    @staticmethod
    def of(runs: Mapping[str, Run], seed: int = 0) -> "Ranking":
        shared = Ranking.shared_methods(runs)
        if len(shared) < 2:
            raise PgigError("a ranking needs at least two methods that all runs have")
        cells: list[Cell] = []
        skipped = dict.fromkeys(
            label for run in runs.values() for label, asked in run.asked.items() if asked.measure.role != "measure"
        )
        for number, group in enumerate(_on_the_same_images(runs)):
            found = [each for name, run in group.items() for each in _cells(name, run, shared, seed)]
            cells += _with_draws(found, seed + number)
        cells.sort(key=lambda cell: list(runs).index(cell.run))
        if not cells:
            raise PgigError("the runs measure nothing that ranks methods")
        left_out = {name: [m for m in run.methods if m not in shared] for name, run in runs.items()}
        return Ranking(tuple(shared), tuple(cells), {n: m for n, m in left_out.items() if m}, tuple(skipped))

    @cached_property
    def twice(self) -> list[str]:
        """Settings that say the same as an earlier one: the same numbers for all methods."""
        found = []
        for number, cell in enumerate(self.cells):
            for earlier in self.cells[:number]:
                if earlier.label == cell.label and numpy.array_equal(earlier.means, cell.means):
                    found.append(f"{cell.label} of {cell.run} is that of {earlier.run}")
                    break
        return found

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell.label for cell in self.cells))

    @cached_property
    def mean_ranks(self) -> dict[str, Interval]:
        """Over all settings, the best first."""
        ranks, drawn = self._means(self.cells)
        found = {m: _interval(float(ranks[n]), drawn[:, n]) for n, m in enumerate(self.methods)}
        return dict(sorted(found.items(), key=lambda item: item[1].mean))

    def lead(self, first: str, second: str) -> Interval:
        """How far the mean rank of the first is below that of the second, with both drawn together."""
        one, two = self.methods.index(first), self.methods.index(second)
        ranks, drawn = self._means(self.cells)
        return _interval(float(ranks[two] - ranks[one]), drawn[:, two] - drawn[:, one])

    @cached_property
    def in_best_group(self) -> dict[str, int]:
        """In how many settings a method cannot be told from the best."""
        return {m: sum(bool(cell.best_group[n]) for cell in self.cells) for n, m in enumerate(self.methods)}

    @cached_property
    def wins(self) -> dict[str, int]:
        """In how many settings a method is the best alone, by its mean."""
        return {m: sum(cell.ranks[n] == 1 for cell in self.cells) for n, m in enumerate(self.methods)}

    @cached_property
    def without(self) -> dict[str, dict[str, float]]:
        """label left out -> method -> its place by mean rank over what is left."""
        found = {}
        for label in self.labels if len(self.labels) > 1 else ():
            ranks, _ = self._means([cell for cell in self.cells if cell.label != label])
            found[label] = dict(zip(self.methods, _ranks(ranks[None])[0].tolist(), strict=True))
        return found

    @cached_property
    def agreements(self) -> list[Agreement]:
        found = []
        for number, first in enumerate(self.labels):
            for second in self.labels[number + 1 :]:
                pairs = [
                    (a, b) for a in self.cells if a.label == first for b in self.cells
                    if b.label == second and b.run == a.run
                ]  # fmt: skip
                pairs = [(a, b) for a, b in pairs if numpy.ptp(a.ranks) and numpy.ptp(b.ranks)]  # all equal: no order
                if pairs:
                    now = numpy.mean([_correlation(a.ranks[None], b.ranks[None])[0] for a, b in pairs])
                    drawn = numpy.mean([_correlation(a.drawn, b.drawn) for a, b in pairs], axis=0)
                    found.append(Agreement(first, second, _interval(float(now), drawn)))
        return found

    @property
    def critical_difference(self) -> float:
        """Nemenyi's, of mean ranks over settings as if these were independent (Demsar 2006)."""
        from scipy.stats import studentized_range

        k, n = len(self.methods), len(self.cells)
        q = float(studentized_range.ppf(1 - ALPHA, k, numpy.inf)) / 2**0.5
        return float(q * (k * (k + 1) / (6 * n)) ** 0.5)

    def _means(self, cells: Sequence[Cell]) -> tuple[Numbers, Numbers]:
        drawn = sum((cell.drawn for cell in cells), start=numpy.zeros_like(cells[0].drawn)) / len(cells)
        return numpy.mean([cell.ranks for cell in cells], axis=0), drawn


def _on_the_same_images(runs: Mapping[str, Run]) -> list[dict[str, Run]]:
    """Runs on the same images are drawn anew together: their results hang together."""
    groups: dict[tuple[str, ...], dict[str, Run]] = {}
    for name, run in runs.items():
        groups.setdefault(run.images, {})[name] = run
    return list(groups.values())


def _cells(name: str, run: Run, methods: Sequence[str], seed: int) -> list[tuple[Cell, Numbers]]:
    """One for each measure that counts, not drawn yet; with its numbers, of which lower ones are better."""
    places = [run.methods.index(m) for m in methods]
    found = []
    for label, asked in run.asked.items():
        if asked.measure.role != "measure":
            continue
        sign = 1 if asked.measure.better == "lower" else -1
        values = sign * run.ranked_by(label)[:, places]
        means = values.mean(0)
        best = int(means.argmin())
        others = [m for m in range(len(methods)) if m != best]
        pairs = comparisons(values[:, others] - values[:, [best]], seed, RESAMPLES)
        mended = holm({str(m): pair.p for m, pair in zip(others, pairs, strict=True)})
        p = numpy.array([mended.get(str(m), 1.0) for m in range(len(methods))])
        ranks = _ranks(means[None])
        cell = Cell(
            run=name, label=label, images=len(run.images), means=sign * means, ranks=ranks[0], drawn=ranks,
            best_group=p >= ALPHA, p=p, is_complete=run.is_complete,
        )  # fmt: skip
        found.append((cell, values))
    return found


def _with_draws(found: Sequence[tuple[Cell, Numbers]], seed: int) -> list[Cell]:
    """Images drawn anew, the same for all."""
    if not found:
        return []
    drawn = resampled_means(numpy.concatenate([values for _, values in found], 1), seed, RESAMPLES)
    own = numpy.split(drawn, len(found), axis=1)
    return [replace(cell, drawn=_ranks(each)) for (cell, _), each in zip(found, own, strict=True)]


def _ranks(values: Numbers) -> Numbers:  # [rows, methods] -> the same
    """1 for the smallest; equals share their mean rank."""
    smaller = (values[:, :, None] > values[:, None, :]).sum(2)
    same = (values[:, :, None] == values[:, None, :]).sum(2)
    return numpy.asarray(smaller + (same + 1) / 2)


def _correlation(one: Numbers, other: Numbers) -> Numbers:  # ranks, [rows, methods] each -> [rows]
    a, b = one - one.mean(1, keepdims=True), other - other.mean(1, keepdims=True)
    scale = numpy.sqrt((a**2).sum(1) * (b**2).sum(1))
    return numpy.where(scale > 0, (a * b).sum(1) / numpy.where(scale > 0, scale, 1), 0.0)


def _interval(value: float, drawn: Numbers) -> Interval:
    low, high = numpy.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(value, min(float(low), value), max(float(high), value))
