"""What the degradation benchmark says of methods, on networks that it was run on."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class Benchmarked:
    """Areas under the degradation curve on one network: lower is better."""

    network: str
    weights_digest: str
    images: int
    areas: Mapping[str, float]
    spread: float  # a typical standard error of the difference between two methods

    def place(self, method: str, signed: bool) -> str:
        """Where a method stands as it is drawn, with its sign or by magnitude, in words: `2nd of 15`."""
        if not signed and f"{method}+absolute" in self.areas:
            method = f"{method}+absolute"
        if method not in self.areas:
            return "not measured"
        place = sorted(self.areas, key=lambda name: self.areas[name]).index(method) + 1
        return f"{_ordinal(place)} of {len(self.areas)}"


def benchmarked(model: str, weights_digest: str) -> Benchmarked | None:
    """Of a network by its name, if it was measured with these weights."""
    known = json.loads(files("pgig.report").joinpath("benchmarked.json").read_text(encoding="utf-8"))
    found = Benchmarked(**known[model]) if model in known else None
    return found if found is not None and found.weights_digest == weights_digest else None


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
