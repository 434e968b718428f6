"""The paper's claims as comparisons of areas under the curve, and what became of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy
from numpy.typing import NDArray

from pgig.statistics import Comparison, comparisons, corrected

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
class Verdict:
    claim: Claim
    failed: tuple[str, ...]  # pairs that are not as claimed, in words

    @property
    def holds(self) -> bool:
        return not self.failed


def compared(areas: Areas) -> dict[tuple[str, str], Comparison]:
    """Every two methods: the area of the second minus that of the first; p-values corrected for all pairs."""
    pairs = list(combinations(areas, 2))
    found = comparisons(numpy.stack([areas[other] - areas[one] for one, other in pairs], 1))
    mended = corrected({f"{one}|{other}": each for (one, other), each in zip(pairs, found, strict=True)})
    return dict(zip(pairs, mended.values(), strict=True))


def verdicts(areas: Areas) -> list[Verdict]:
    found = compared(areas)
    return [Verdict(claim, tuple(filter(None, (_failure(pair, found) for pair in claim.pairs)))) for claim in CLAIMS]


def _failure(pair: Pair, found: Mapping[tuple[str, str], Comparison]) -> str | None:
    """What was found in place of what is claimed, or None."""
    turned = (pair.one, pair.other) not in found
    measured = found[(pair.other, pair.one) if turned else (pair.one, pair.other)]
    sign = -1 if turned else 1
    ahead = sign * measured.difference.mean  # by how much the first is better
    low, high = sorted((sign * measured.difference.low, sign * measured.difference.high))
    if pair.kind == "better":
        if ahead > 0 and measured.p < LEVEL:
            return None
        how = "worse" if ahead < 0 and measured.p < LEVEL else "not clearly better"
        return f"{pair.one} is {how} than {pair.other} ({ahead:+.3f} [{low:+.3f}, {high:+.3f}])"
    if low <= 0 <= high or (low > -ALIKE and high < ALIKE):
        return None
    better, worse = (pair.one, pair.other) if ahead > 0 else (pair.other, pair.one)
    return f"{better} is better than {worse} ({abs(ahead):.3f})"


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
    return float(numpy.corrcoef(*ranks)[0, 1])
