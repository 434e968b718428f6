"""The paper's claims as comparisons of areas under the curve, and what became of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy
from numpy.typing import NDArray

from pgig.statistics import Comparison, Interval, comparisons, corrected

ALIKE = 0.02
LEVEL = 0.05
Areas = Mapping[str, NDArray[numpy.float64]]  # method -> [images]; lower is better

_PLAIN = "gradient_x_input", "integrated_gradients"
_FIVE = "smoothgrad_squared", "smoothgrad_ig", "expected_gradients", "guided_backprop", "pattern_attribution"
_ALL = ("random", "gradient", *_PLAIN, "vargrad", *_FIVE)


@dataclass(frozen=True)
class Pair:
    kind: Literal["better", "alike"]
    one: str
    other: str


@dataclass(frozen=True)
class Claim:
    text: str
    pairs: tuple[Pair, ...]


CLAIMS = (
    Claim("Random is the worst", tuple(Pair("better", m, "random") for m in (*_ALL[1:], "pgig"))),
    Claim("The vanilla gradient is next", tuple(Pair("better", m, "gradient") for m in (*_ALL[2:], "pgig"))),
    Claim("IG and gradient times input are alike", (Pair("alike", *_PLAIN),)),
    Claim("They are better than the vanilla gradient", tuple(Pair("better", m, "gradient") for m in _PLAIN)),
    Claim("VarGrad is better than those two", tuple(Pair("better", "vargrad", m) for m in _PLAIN)),
    Claim("The five are better than VarGrad", tuple(Pair("better", m, "vargrad") for m in _FIVE)),
    Claim("The five are alike", tuple(Pair("alike", a, b) for a, b in combinations(_FIVE, 2))),
    Claim("PGIG is better than every other method", tuple(Pair("better", "pgig", m) for m in _ALL)),
)


@dataclass(frozen=True)
class Measured:
    """A pair, and by how much its first method is better."""

    pair: Pair
    ahead: Interval
    p: float

    @property
    def as_claimed(self) -> bool:
        if self.pair.kind == "better":
            return self.ahead.mean > 0 and self.p < LEVEL
        within = self.ahead.low > -ALIKE and self.ahead.high < ALIKE
        return within or self.ahead.low <= 0 <= self.ahead.high

    def __str__(self) -> str:
        clear = self.p < LEVEL if self.pair.kind == "better" else not self.as_claimed
        unclear = "not clearly better than" if self.pair.kind == "better" else "like"
        how = ("better than" if self.ahead.mean > 0 else "worse than") if clear else unclear
        d = self.ahead
        return f"`{self.pair.one}` {how} `{self.pair.other}`, {d.mean:+.3f} [{d.low:+.3f}, {d.high:+.3f}]"


@dataclass(frozen=True)
class Verdict:
    claim: Claim
    measured: tuple[Measured, ...]

    @property
    def holds(self) -> bool:
        return not self.failed

    @property
    def failed(self) -> tuple[Measured, ...]:
        """Pairs that are not as claimed, the furthest from it first."""
        wrong = [pair for pair in self.measured if not pair.as_claimed]
        if self.claim.pairs[0].kind == "better":
            return tuple(sorted(wrong, key=lambda each: each.ahead.mean))
        return tuple(sorted(wrong, key=lambda each: -abs(each.ahead.mean)))

    @property
    def closest(self) -> Measured:
        """The pair that is nearest to the contrary: the smallest lead, or the largest difference."""
        if self.claim.pairs[0].kind == "better":
            return min(self.measured, key=lambda each: each.ahead.mean)
        return max(self.measured, key=lambda each: abs(each.ahead.mean))


def paired(areas: Areas, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Comparison]:
    """By how much the first of each two is better: the area of the second minus its own; corrected for all pairs."""
    found = comparisons(numpy.stack([areas[other] - areas[one] for one, other in pairs], 1))
    mended = corrected({f"{one}|{other}": each for (one, other), each in zip(pairs, found, strict=True)})
    return dict(zip(pairs, mended.values(), strict=True))


def verdicts(areas: Areas) -> list[Verdict]:
    found = paired(areas, list(combinations(areas, 2)))
    return [Verdict(claim, tuple(_measured(pair, found) for pair in claim.pairs)) for claim in CLAIMS]


def _measured(pair: Pair, found: Mapping[tuple[str, str], Comparison]) -> Measured:
    if (pair.one, pair.other) in found:
        each = found[pair.one, pair.other]
        return Measured(pair, each.difference, each.p)
    each = found[pair.other, pair.one]
    d = each.difference
    return Measured(pair, Interval(-d.mean, -d.high, -d.low), each.p)


def rank_correlation(one: Areas, other: Areas, methods: Sequence[str], seed: int = 0) -> tuple[float, float, float]:
    """Spearman's over methods of two measures of the same images, with a bootstrap interval over those images."""
    first = numpy.stack([one[method] for method in methods], 1)
    second = numpy.stack([other[method] for method in methods], 1)
    rng = numpy.random.default_rng(seed)
    draws = [order_agreement(first[rows].mean(0), second[rows].mean(0))
             for rows in (rng.integers(0, len(first), len(first)) for _ in range(2000))]  # fmt: skip
    low, high = numpy.quantile(draws, [0.025, 0.975])
    return order_agreement(first.mean(0), second.mean(0)), float(low), float(high)


def order_agreement(one: NDArray[numpy.float64], other: NDArray[numpy.float64]) -> float:
    """Spearman's rank correlation, without ties."""
    ranks = [numpy.argsort(numpy.argsort(values)).astype(float) for values in (one, other)]
    return float(numpy.corrcoef(ranks[0], ranks[1])[0, 1])
