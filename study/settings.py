"""What is run, as study/questions.md names it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

NETWORKS = "squeezenet1_0", "efficientnet_lite0", "efficientnet_lite2"  # in the order of the budget
BY_MAGNITUDE = "pgig+absolute", "integrated_pattern_attribution+absolute", "integrated_gradients+absolute"
CONSENSUS = "consensus", "consensus_ipa", "expected_consensus", "removal_consensus", "removal_control"
CANDIDATES = tuple(f"candidates:{name}" for name in ("mean_pgig", "expected_pgig", "smoothed_pgig", *CONSENSUS))
QUICK = (
    "random", "gradient", "gradient_x_input", "integrated_gradients", "vargrad", "smoothgrad_squared",
    "expected_gradients", "guided_backprop", "pattern_attribution", "pgig", "smoothgrad", "smooth_taylor", "patternnet",
    "integrated_pattern_attribution", *BY_MAGNITUDE, "candidates:occlusion", *CANDIDATES,
)  # fmt: skip
SLOW = "smoothgrad_ig", "igos"  # on the few photographs only
# under other patterns than those by tracing; the files are named so
OTHER_PATTERNS: Mapping[str, Sequence[str]] = {
    "quality": ("pgig", "pgig+absolute"), "shared": ("pgig", "pgig+absolute"), "blended": ("pgig", "pgig+absolute"),
}  # fmt: skip
MAIN = "morf", "lerf", "insertion", "deletion"
FURTHER = (
    "road", "sensitivity_n", "infidelity", "morf+fill=image_mean", "lerf+fill=image_mean", "morf+fill=blur",
    "lerf+fill=blur", "morf+departure=released",
)  # fmt: skip
FAITHFULNESS = (*MAIN, "road", "sensitivity_n", "infidelity")
# as study/questions.md names them; other patterns are told behind a comma
CHOSEN_FROM = (
    "pgig+absolute", "mean_pgig", "expected_pgig", "smoothed_pgig",
    "consensus", "consensus_ipa", "expected_consensus", "removal_consensus",
    *(f"{method}, {patterns}" for patterns, methods in OTHER_PATTERNS.items() for method in methods),
)  # fmt: skip
STABILITY = ("max_sensitivity",)  # explains eleven times: a run of its own, without the slow ones
MANY, FEW = 50, 12  # photographs of each half
PARTS = {"many": 5, "few": 2}  # runs are split so, and a finished part's table is published


@dataclass(frozen=True)
class Planned:
    """Some methods under some measures, on photographs of a use, with the patterns of a file."""

    name: str
    methods: Sequence[str]
    measures: Sequence[str]
    use: str = "few"
    patterns: str = "traced"


DECIDES = (
    Planned("main", QUICK, MAIN, "many"),
    *(Planned(f"main-{name}", methods, MAIN, "many", name) for name, methods in OTHER_PATTERNS.items()),
    Planned("further", QUICK, FURTHER),
    *(Planned(f"further-{name}", methods, FURTHER, patterns=name) for name, methods in OTHER_PATTERNS.items()),
)
# Of the candidates, the one that was chosen and its control go on; the others stop where choosing ends, and behind the
# second network's first parts.
STOPPED = {f"candidates:{name}" for name in (
    "mean_pgig", "expected_pgig", "smoothed_pgig", "consensus", "consensus_ipa", "expected_consensus",
)}  # fmt: skip
GOES_ON = tuple(method for method in QUICK if method not in STOPPED)
CONFIRMS = Planned("main", GOES_ON, MAIN, "many"), Planned("further", GOES_ON, FURTHER)
DECIDES_NOTHING = Planned("slow", SLOW, (*MAIN, *FURTHER)), Planned("stability", GOES_ON, STABILITY)


def plan(networks: Sequence[str]) -> Iterator[tuple[str, Planned, int]]:
    """Networks, runs that decide, and their parts in the order of the budget.

    All on the first network, which chooses; then of the others, first parts of all of them, then second ones, ...
    """
    chooses = [network for network in networks if network == NETWORKS[0]]
    for group in (chooses, [network for network in networks if network not in chooses]):
        for part in range(max(PARTS.values())):
            for network in group:
                with_all = network == NETWORKS[0] or (network == NETWORKS[1] and part == 0)
                runs = DECIDES if with_all else CONFIRMS
                yield from ((network, planned, part) for planned in runs if part < PARTS[planned.use])


def plan_aside(networks: Sequence[str]) -> Iterator[tuple[str, Planned, int]]:
    """What decides nothing, in the order of the budget."""
    for planned in DECIDES_NOTHING:
        for network in networks:
            yield from ((network, planned, part) for part in range(PARTS[planned.use]))


DRAWS, STAGES, RANDOMISED = 3, 8, 10  # of random weights; layers from the top down; photographs, of `few-0`
# without noise, which no weights change, and without those that take as long as all others together (SLOW)
RANDOMISED_METHODS = (
    *(m for m in QUICK if "+" not in m and ":" not in m and m != "random"),
    "occlusion",
    "pattern_consensus",
)
ASIDE = "efficientnet_lite2"  # from randomisation and from the questions on patterns
REFERENCES = 64  # photographs that expected gradients draw from, of those for patterns
HELD_OUT = 50  # photographs for patterns that judge them


def uses(photographs: Sequence[Path]) -> dict[str, list[Path]]:
    """The photographs, in order, by their use. Halves of `many` and `few` are told apart by `half_of`."""
    patterns, measuring = list(photographs[::2]), list(photographs[1::2])
    halves = measuring[::2], measuring[1::2]
    many = [evenly(half, MANY) for half in halves]
    found = {"patterns": patterns, "references": evenly(patterns, REFERENCES)}
    for use, some in (("many", many), ("few", [evenly(half, FEW) for half in many])):
        for part in range(PARTS[use]):
            found[f"{use}-{part}"] = sorted(path for half in some for path in half[part :: PARTS[use]])
    return found


def half_of(name: str, photographs: Sequence[Path]) -> str:
    """Whether a photograph is for choosing or for confirming, by the name of its file."""
    place = [path.name for path in photographs[1::2]].index(name)
    return "selection" if place % 2 == 0 else "confirmation"


def evenly(some: Sequence[Path], count: int) -> list[Path]:
    """So many, evenly spread; all where there are no more."""
    if len(some) <= count:
        return list(some)
    return [some[number * len(some) // count] for number in range(count)]
