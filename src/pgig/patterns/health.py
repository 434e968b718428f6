"""Health: how far the patterns of each layer can be trusted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LayerHealth:
    """How far a layer's pattern can be trusted."""

    regime: str
    units: int
    samples: int  # windows or rows seen
    active_share: float  # of them, in the regime; mean over units
    dead: int  # units never in the regime, or cut off by a zero norm: their pattern is zero
    weak: int  # units whose denominator is nearly zero: their pattern is the covariance within the regime
    negative: int  # units whose denominator is negative: likewise
    largest: float  # |p|
    error: float  # |w.p - 1|, over live units
    few: int = 0  # other units that were in the regime too few times


@dataclass(frozen=True)
class Health:
    """A table with one row per layer; `print` it."""

    layers: Mapping[str, LayerHealth]
    facts: Mapping[str, Any]

    def __str__(self) -> str:
        if not self.layers:
            return "nothing is known of the health of these patterns: they were not estimated here"
        head = [
            "layer",
            "regime",
            "units",
            "active",
            "dead",
            "weak",
            "negative",
            "few",
            "max |p|",
            "max |w.p-1|",
            "samples",
        ]
        head += ["rho(w)", "rho(p)", "rho(random)"] if "quality" in self.facts else []
        rows = [
            [
                name, r.regime, f"{r.units}", f"{r.active_share:.0%}", f"{r.dead}", f"{r.weak}", f"{r.negative}",
                f"{r.few}", f"{r.largest:.3g}", f"{r.error:.1e}", f"{r.samples}", *self._rho(name),
            ]
            for name, r in self.layers.items()
        ]  # fmt: skip
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        lines = [
            "  ".join(
                cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
            )
            for row in [head, *rows]
        ]
        unsupported = self.facts.get("unsupported")
        return "\n".join(lines + ([f"without a pattern: {', '.join(unsupported)}"] if unsupported else []))

    def _rho(self, name: str) -> list[str]:
        if "quality" not in self.facts:
            return []
        return [f"{rho:.2f}" for rho in self.facts["quality"].get(name, [])] or ["", "", ""]
