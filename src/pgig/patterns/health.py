"""Health: how far the patterns of each layer can be trusted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MANY_PATHS = 1000.0  # on which branches come together: attributions may grow by as much


def growth(paths: float) -> str | None:
    """A warning where patterns would restore the signal on too many paths."""
    if paths < MANY_PATHS:
        return None
    return (
        f"attributions may explode: branches are added on {paths:.2g} paths, and patterns restore the signal on each "
        "of them. Patterns with joins='shared' share it out"
    )


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


DOUBTFUL_SHARE = 0.2  # of a layer's units that are weak, negative, or seen too few times
LARGE = 100.0  # an entry of a pattern, beside which others hardly count


@dataclass(frozen=True)
class Health:
    """A table with one row per layer; `print` it. `verdict` is one line."""

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
        head += ["rho by regime"] if "choice" in self.facts else []
        rows = [
            [
                name, r.regime, f"{r.units}", f"{r.active_share:.0%}", f"{r.dead}", f"{r.weak}", f"{r.negative}",
                f"{r.few}", f"{r.largest:.3g}", f"{r.error:.1e}", f"{r.samples}", *self._rho(name),
                *self._choice(name),
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
        lines += [f"without a pattern: {', '.join(unsupported)}"] if unsupported else []
        return "\n".join([*lines, *self._growth()])

    @property
    def verdict(self) -> str:
        """Good, or doubtful: which layers, why, and what to do about it."""
        if not self.layers:
            return "unknown: these patterns were not estimated here"
        doubts = self._doubtful
        told = [f"{name} ({', '.join(reasons)})" for name, reasons in list(doubts.items())[:3]]
        more = f" and {len(doubts) - 3} more" if len(doubts) > 3 else ""
        rows = [f"doubtful in {len(doubts)} of {len(self.layers)} layers: {'; '.join(told)}{more}"] if doubts else []
        if any("few" in reason for reasons in doubts.values() for reason in reasons):
            rows.append("give more images")
        rows += self._growth()
        return "; ".join(rows) or f"good: {len(self.layers)} layers, w.p = 1, nothing out of the ordinary"

    @property
    def doubtful(self) -> int:
        """How many layers' patterns cannot be relied on."""
        return len(self._doubtful)

    @property
    def _doubtful(self) -> dict[str, list[str]]:
        return {name: reasons for name, layer in self.layers.items() if (reasons := self._doubts(name, layer))}

    def _doubts(self, name: str, layer: LayerHealth) -> list[str]:
        """Why a layer's patterns cannot be relied on. Dead units pass nothing on: they do harm in numbers only."""
        found = []
        for what, count in (("weak", layer.weak + layer.negative), ("seen too few times", layer.few)):
            if count > DOUBTFUL_SHARE * layer.units:
                found.append(f"{count / layer.units:.0%} of the units {what}")
        if layer.dead > layer.units / 2:
            found.append(f"{layer.dead / layer.units:.0%} of the units dead")
        if layer.largest > LARGE:
            found.append(f"max |p| {layer.largest:.2g}")
        rho = self.facts.get("quality", {}).get(name)
        if rho and rho[1] < rho[0]:
            found.append(f"rho {rho[1]:.2f}, the weight's own is {rho[0]:.2f}")
        return found

    def _growth(self) -> list[str]:
        """Where attributions explode, and what to do about it."""
        if self.facts.get("joins") == "shared":
            return []
        remark = growth(self.facts.get("paths", 1.0))
        return [remark] if remark else []

    def _choice(self, name: str) -> list[str]:
        if "choice" not in self.facts:
            return []
        rhos = self.facts["choice"].get(name, {})
        return [", ".join(f"{regime} {rho:.2f}" for regime, rho in rhos.items()) or "not judged"]

    def _rho(self, name: str) -> list[str]:
        if "quality" not in self.facts:
            return []
        return [f"{rho:.2f}" for rho in self.facts["quality"].get(name, [])] or ["", "", ""]
