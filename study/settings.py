"""What is run, as study/questions.md names it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

NETWORKS = "squeezenet1_0", "efficientnet_lite0", "efficientnet_lite2"  # in the order of the budget
BY_MAGNITUDE = "pgig+absolute", "integrated_pattern_attribution+absolute", "integrated_gradients+absolute"
CANDIDATES = tuple(f"candidates:{name}" for name in ("mean_pgig", "expected_pgig", "smoothed_pgig", "consensus"))
QUICK = (
    "random", "gradient", "gradient_x_input", "integrated_gradients", "vargrad", "smoothgrad_squared",
    "expected_gradients", "guided_backprop", "pattern_attribution", "pgig", "smoothgrad", "smooth_taylor", "patternnet",
    "integrated_pattern_attribution", *BY_MAGNITUDE, "occlusion", *CANDIDATES,
)  # fmt: skip
SLOW = "smoothgrad_ig", "igos"  # on the few photographs only
# under other patterns than those by tracing; the files are named so
OTHER_PATTERNS: Mapping[str, Sequence[str]] = {
    "quality": ("pgig", "pgig+absolute"), "shared": ("pgig", "pgig+absolute"), "blended": ("pgig", "pgig+absolute"),
}  # fmt: skip
MAIN = "morf", "lerf", "insertion", "deletion"
FURTHER = (
    "road", "sensitivity_n", "infidelity", "max_sensitivity", "morf+fill=image_mean", "lerf+fill=image_mean",
    "morf+fill=blur", "lerf+fill=blur", "morf+departure=released",
)  # fmt: skip
MANY, FEW = 50, 12  # photographs of each half
REFERENCES = 64  # photographs that expected gradients draw from, of those for patterns
HELD_OUT = 50  # photographs for patterns that judge them


def uses(photographs: Sequence[Path]) -> dict[str, list[Path]]:
    """The photographs, in order, by their use. Halves of `many` and `few` are told apart by `half_of`."""
    patterns, measuring = list(photographs[::2]), list(photographs[1::2])
    halves = measuring[::2], measuring[1::2]
    return {
        "patterns": patterns, "references": evenly(patterns, REFERENCES),
        "many": sorted(path for half in halves for path in evenly(half, MANY)),
        "few": sorted(path for half in halves for path in evenly(evenly(half, MANY), FEW)),
    }  # fmt: skip


def half_of(name: str, photographs: Sequence[Path]) -> str:
    """Whether a photograph is for choosing or for confirming, by the name of its file."""
    place = [path.name for path in photographs[1::2]].index(name)
    return "selection" if place % 2 == 0 else "confirmation"


def evenly(some: Sequence[Path], count: int) -> list[Path]:
    """So many, evenly spread; all where there are no more."""
    if len(some) <= count:
        return list(some)
    return [some[number * len(some) // count] for number in range(count)]
