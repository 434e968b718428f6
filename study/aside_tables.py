"""The tables of what decides nothing: stability, randomisation, patterns from less or other data, speed."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from analysis import Network
from measured import Results
from published import read_rows
from settings import STABILITY
from study_tables import PAPER, TITLES, code, table

from pgig.statistics import Interval, interval


def stability_table(found: Sequence[Network]) -> str:
    rows: dict[str, list[object]] = {}
    shown = [n for n in found if n.results.count("pgig", "max_sensitivity")]
    for network in shown:
        run = network.results.run(STABILITY)
        for method, values in zip(run.methods, run.ranked_by(STABILITY[0]).T, strict=True):
            rows.setdefault(method, []).append(interval(values))
    rows.pop("random", None)  # its noise is the same for any input
    head = [f"{TITLES[n.results.network]}, {len(n.results.run(STABILITY).images)}" for n in shown]
    return table(["largest change", *head], [[code(m), *of] for m, of in rows.items()]) if rows else NOT_YET


def survivors_table(tables: Path, networks: Sequence[str]) -> tuple[str, dict[str, list[str]]]:
    """Rank correlation of sizes with the classifier alone random, and with all stages; those that survive the last."""
    rows: dict[str, list[object]] = {}
    head: list[str] = []
    survivors: dict[str, list[str]] = {}
    for network in networks:
        of = randomised(tables, network)
        if not of:
            continue
        stages = sorted({stage for stage, _ in of})
        draws, photographs = numpy.array(next(iter(of.values()))).shape
        on = f"{TITLES[network]}, {photographs} images, {drawn(draws)}"
        head += [f"{on}: classifier", f"{on}: all {stages[-1]} layers"]
        for method in dict.fromkeys(method for _, method in of):
            first, last = (over_draws(of[stage, method]) for stage in (stages[0], stages[-1]))
            rows.setdefault(method, []).extend([first, last])
            for kind, found in (("classifier", first), ("everything", last)):
                if found.low > 0.5:
                    survivors.setdefault(f"{TITLES[network]}, {kind}", []).append(method)
    if not rows:
        return NOT_YET, {}
    return table(["rank correlation of sizes", *head], [[code(m), *of] for m, of in rows.items()]), survivors


def drawn(count: int) -> str:
    return f"{count} draw{'' if count == 1 else 's'} of weights"


def randomised(tables: Path, network: str) -> dict[tuple[int, str], list[list[float]]]:
    """(layers randomised, method) -> draw -> photograph -> rank correlation of sizes."""
    found: dict[tuple[int, str], list[list[float]]] = {}
    for path in sorted((tables / "randomised").glob(f"{network}-*.csv")):
        of_draw: dict[tuple[int, str], list[float]] = {}
        for row in read_rows(path):
            key = int(row["randomised"]), row["method"]
            of_draw.setdefault(key, []).append(float(row["spearman_absolute"]))
        for key, values in of_draw.items():
            found.setdefault(key, []).append(values)
    return found


def over_draws(values: Sequence[Sequence[float]], resamples: int = 2000) -> Interval:
    """The mean over draws of weights and photographs; both are drawn anew."""
    array = numpy.array(values)  # [draws, photographs]
    rng = numpy.random.default_rng(0)
    draws = rng.integers(0, len(array), (resamples, len(array)))
    photographs = rng.integers(0, array.shape[1], (resamples, array.shape[1]))
    means = array[draws[:, :, None], photographs[:, None, :]].mean((1, 2))
    low, high = numpy.quantile(means, [0.025, 0.975])
    return Interval(float(array.mean()), float(low), float(high))


@dataclass(frozen=True)
class FromData:
    """PGIG by patterns of one kind: area and likeness to PGIG by those of 250 photographs, for each photograph."""

    name: str
    images: int  # behind the patterns
    verdict: Mapping[str, str]
    areas: Mapping[str, Mapping[str, float]]  # method -> photograph -> MoRF
    alike: Mapping[str, Mapping[str, float]]
    animals: frozenset[str]  # photographs of animals

    def told(self, method: str, animals: bool | None = None) -> str:
        """MoRF, of all photographs, of those of animals, or of the others."""
        some = [a for name, a in self.areas[method].items() if animals is None or (name in self.animals) == animals]
        return f"{interval(some)}" if len(some) > 1 else ""

    @property
    def doubtful(self) -> tuple[int, int, int]:
        """Layers that the report doubts without and with held-out images, of how many."""
        return tuple(int(self.verdict[c]) for c in ("doubtful", "doubtful by rho too", "layers"))  # type: ignore[return-value]


def from_data(tables: Path, network: str) -> list[FromData]:
    """As it was measured, in the order of the plan; nothing where it was not."""
    path = tables / "patterns" / f"{network}.csv"
    if not path.is_file():
        return []
    rows, found = read_rows(path), []
    for verdict in read_rows(path.with_name(f"{network}-verdicts.csv")):
        own = [row for row in rows if row["patterns"] == verdict["patterns"]]
        areas, alike = (
            {m: {r["photograph"]: float(r[c]) for r in own if r["method"] == m} for m in ("pgig", "pgig+absolute")}
            for c in ("morf", "correlation")
        )
        animals = frozenset(row["photograph"] for row in own if row["animal"] == "True")
        found.append(FromData(verdict["patterns"], int(verdict["images"]), verdict, areas, alike, animals))
    return found


def counts_table(tables: Path, results: Mapping[str, Results]) -> str:
    """PGIG by how many photographs are behind its patterns, with the report's verdict."""
    rows = []
    for network, measured in results.items():
        for found in from_data(tables, network):
            if "photographs" in found.name:
                rows.append([TITLES[network], found.images, *_what_comes_of(found, measured), *_verdicts(found)])
    head = ["network", "photographs", *COMES_OF, "verdict", "verdict with held-out images"]
    return table(head, rows) if rows else NOT_YET


COMES_OF = "MoRF of PGIG", "its place", "MoRF of its sizes", "rank correlation of sizes with 250's"
NOT_YET = "*Not measured yet.*"


def _what_comes_of(found: FromData, measured: Results) -> list[str]:
    alike = interval(list(found.alike["pgig+absolute"].values()))
    return [found.told("pgig"), _place(measured, found.areas["pgig"]), found.told("pgig+absolute"), str(alike)]


def _verdicts(found: FromData) -> list[str]:
    *doubtful, layers = found.doubtful
    return [f"doubtful in {some} of {layers}" if some else "good" for some in doubtful]


def good_from(tables: Path, networks: Sequence[str]) -> str:
    """From how many photographs on the report says good, and PGIG's sizes are ranked as with all."""
    told = []
    for network in networks:
        found = [each for each in from_data(tables, network) if "photographs" in each.name]
        if not found:
            continue
        own = interval(list(found[-1].areas["pgig+absolute"].values()))
        means = [float(numpy.mean(list(each.areas["pgig+absolute"].values()))) for each in found]
        level = _from_when(found, [own.low <= mean <= own.high for mean in means])
        good = [_at(each.images for each in found if each.doubtful[which] == 0) for which in (0, 1)]
        told.append(
            f"{TITLES[network]}: MoRF of PGIG's sizes is within the interval of that by {found[-1].images} {level}; "
            f"the report says good at {good[0]}, and with held-out images at {good[1]}."
        )
    return " ".join(told) if told else NOT_YET


def _at(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def _from_when(found: Sequence[FromData], holds: Sequence[bool]) -> str:
    """The first number from which on it holds for all."""
    since = next((n for n in range(len(found)) if all(holds[n:])), None)
    return "at no number tried" if since is None else f"from {found[since].images} photographs on"


def other_data_table(tables: Path, results: Mapping[str, Results]) -> str:
    """PGIG by patterns of other data, beside those of 100 and 250 photographs; animals and all else apart."""
    rows = []
    for network, measured in results.items():
        for found in from_data(tables, network):
            if "photographs" in found.name and found.images < 100:
                continue
            apart = [found.told("pgig", animals=which) for which in (True, False)]
            rows.append([TITLES[network], found.name, found.images, *_what_comes_of(found, measured), *apart])
    head = ["network", "patterns of", "images", *COMES_OF, "MoRF of PGIG on animals", "on all else"]
    return table(head, rows) if rows else NOT_YET


def _place(measured: Results, areas: Mapping[str, float]) -> str:
    """Where PGIG with these areas stands among the paper's others, on the same photographs."""
    others = [m for m in PAPER if m != "pgig"]
    run = measured.run(["morf"], others)
    places = [n for n, image in enumerate(run.images) if image in areas]
    if not places:
        return ""
    own = float(numpy.mean([areas[run.images[n]] for n in places]))
    return f"{1 + int((run.ranked_by('morf')[places].mean(0) < own).sum())} of {len(PAPER)} (on {len(places)} images)"


def speed_table(measured: Path) -> str:
    """Seconds of each method for an image, and the whole experiment against Captum and Quantus, as it was measured."""
    if not measured.is_file():
        return NOT_YET
    found = json.loads(measured.read_text())
    networks = {name: found["networks"][name] for name in TITLES if name in found["networks"]}
    seconds = {TITLES[name]: of["seconds of a method"] for name, of in networks.items()}
    methods = dict.fromkeys(method for of in seconds.values() for method in of)
    rows = [[code(m), *(f"{of[m]:.2f}" if m in of else "" for of in seconds.values())] for m in methods]
    processor = f"Processor: {found['machine']['processor']}, {found['machine']['threads']} threads."
    told = [_ratio(TITLES[name], of["whole experiment"]) for name, of in networks.items() if "whole experiment" in of]
    return "\n\n".join([*told, processor, table(["seconds for an image", *seconds], rows)])


def _ratio(title: str, found: Mapping[str, Any]) -> str:
    images = f"{found['images']} {'photographs' if found['photographs'] else 'generated images'}"
    methods = ", ".join(code(method) for method in found["methods"])
    return (
        f"On {title}, {images} by {methods} under `morf`: Captum and Quantus take "
        f"**{found['ratio']:.1f} times as long** "
        f"({sum(found['seconds']['Captum and Quantus']):.0f} seconds)."
    )
