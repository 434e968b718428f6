"""The tests of study/questions.md on what was measured."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy
from measured import Results, named, only
from settings import CHOSEN_FROM, FAITHFULNESS, GOES_ON, MAIN, SLOW

from pgig.report.ranking import ALPHA, Ranking
from pgig.report.run import Run
from pgig.statistics import comparisons, holm

WANTED = 0.75  # share of the faithfulness measures in whose best group a winner is
# of the paper's section on image degradation, the worst first; those it calls alike share a place
PAPER_ORDER: Mapping[str, int] = {
    "random": 0, "gradient": 1, "gradient_x_input": 2, "integrated_gradients": 2, "vargrad": 3,
    "smoothgrad_squared": 4, "smoothgrad_ig": 4, "expected_gradients": 4, "guided_backprop": 4,
    "pattern_attribution": 4, "pgig": 5,
}  # fmt: skip


def settings_of(results: Results, methods: Sequence[str], images: Sequence[str] | None = None) -> dict[str, Run]:
    """Measures that count, as a ranking takes them: those on many photographs, and those on few."""
    found = {}
    counts = counting(results)
    for use, is_main in (("many", True), ("few", False)):
        labels = [label for label in counts if (label in MAIN) == is_main]
        run = results.run(labels, methods)
        run = run if images is None else only(run, images)
        if labels and len(run.images) > 1:
            found[f"{results.network}, {use}"] = run
    return found


def compared(results: Results) -> list[str]:
    """Methods that were measured by all that counts, on as many photographs as `random` was."""
    counts = counting(results)
    return [m for m in results.methods if all(results.count(m, f) == results.count("random", f) for f in counts)]


def begun(results: Results) -> list[str]:
    """Methods that were measured by all that counts, on some photographs, without the slow ones."""
    counts = counting(results)
    return [m for m in results.methods if m not in SLOW and all(results.count(m, f) for f in counts)]


def with_slow(results: Results) -> list[str]:
    """All that was measured on the few, with the slow ones; nothing where those were not measured yet."""
    counts = counting(results)
    if not all(results.count(m, f) for m in SLOW for f in counts):
        return []
    few = min(results.count(m, f) for m in SLOW for f in counts)
    return [m for m in results.methods if all(results.count(m, f) >= few for f in counts)]


def counting(results: Results) -> list[str]:
    """The faithfulness measures that a network was measured by, so far."""
    return [label for label in FAITHFULNESS if results.count("random", label)]


@dataclass(frozen=True)
class Standing:
    """How a method stands on a network: its mean rank over the measures, and in how many it is in the best group."""

    mean_rank: float
    best_in: tuple[str, ...]
    of: tuple[str, ...]

    @property
    def wins(self) -> bool:
        return len(self.best_in) >= WANTED * len(self.of)


@dataclass(frozen=True)
class Network:
    """What is said of one network."""

    results: Results
    images: tuple[str, ...] | None = None  # of these alone
    of: Callable[[Results], list[str]] = compared  # the methods; all on those photographs alone that they share

    @cached_property
    def runs(self) -> dict[str, Run]:
        return settings_of(self.results, self.of(self.results), self.images)

    @property
    def counts(self) -> str:
        """On how many images: of the measures on many, and of those on few."""
        return " and ".join(str(len(run.images)) for run in self.runs.values())

    @cached_property
    def ranking(self) -> Ranking:
        return Ranking.of(self.runs)

    @cached_property
    def standings(self) -> dict[str, Standing]:
        """The best first."""
        ranking = self.ranking
        return {
            method: Standing(
                rank.mean,
                tuple(c.label for c in ranking.cells if c.best_group[ranking.methods.index(method)]),
                tuple(c.label for c in ranking.cells),
            )
            for method, rank in ranking.mean_ranks.items()
        }  # fmt: skip

    @cached_property
    def worse_than_random(self) -> list["Worse"]:
        return [worse for run in self.runs.values() for worse in worse_than_random(run)]


@dataclass(frozen=True)
class Worse:
    label: str
    method: str
    images: int
    by: float
    p: float


def worse_than_random(run: Run) -> list[Worse]:
    """One-sided sign flips, Holm over the methods, for each measure of the run."""
    found = []
    others = [method for method in run.methods if method != "random"]
    for label, asked in run.asked.items():
        sign = 1 if asked.measure.better == "lower" else -1
        values = sign * run.ranked_by(label)
        behind = values[:, [run.methods.index(m) for m in others]] - values[:, [run.methods.index("random")]]
        pairs = comparisons(behind)
        one_sided = {m: pair.p / 2 if pair.difference.mean > 0 else 1.0 for m, pair in zip(others, pairs, strict=True)}
        for method, p in holm(one_sided).items():
            if p < ALPHA:
                found.append(Worse(label, method, len(run.images), float(behind.mean(0)[others.index(method)]), p))
    return found


def chosen(found: Mapping[str, Standing]) -> str:
    """The candidate with the best mean rank. It must be one of those that all networks were measured with."""
    found_best = next(method for method in found if method in CHOSEN_FROM)
    if found_best not in {named(method, "main-0") for method in GOES_ON}:
        raise RuntimeError(f"{found_best} is chosen, but was stopped: let it go on (settings.py), and measure it")
    return found_best


def paper_agreement(run: Run) -> float:
    """Rank correlation of the paper's order with that of `morf`."""
    areas = run.ranked_by("morf").mean(0)
    return rank_correlation([-PAPER_ORDER[m] for m in run.methods], areas.tolist())


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's; equal values share their mean rank."""
    from scipy.stats import spearmanr

    return float(numpy.asarray(spearmanr(one, other).statistic))
