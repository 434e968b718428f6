"""What was measured, read from the tables that are published with the page."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy
from claims import Areas
from embedded import NETWORKS
from embedded import PROTOCOLS as EMBEDDED_PROTOCOLS
from plan import ABLATIONS, CENTRED

from pgig.methods.table import PAPER_METHODS
from pgig.statistics import RESAMPLES, Interval
from pgig.synthetic.images import SETTINGS
from pgig.synthetic.metrics import COLUMNS


@dataclass(frozen=True)
class Network:
    """Areas under the curve on a network, by protocol. Rivals are the paper's methods on the images of the variants."""

    name: str
    methods: Mapping[str, Areas]
    variants: Mapping[str, Areas]
    rivals: Mapping[str, Areas]
    truth: Mapping[str, Areas]  # measure -> agreement with the truth, higher is better; empty where it is not known

    def place(self, variant: str, protocol: str = "paper") -> Interval | None:
        """Which place the variant would take where PGIG stands, with a bootstrap interval over images; None where it
        or the others were not measured.
        """
        if protocol not in self.rivals or variant not in self.variants[protocol]:
            return None
        others = [areas for method, areas in self.rivals[protocol].items() if method != "pgig"]
        behind = self.variants[protocol][variant] - numpy.stack(others)  # [others, images]
        rng = numpy.random.default_rng(0)
        rows = rng.integers(0, behind.shape[1], (RESAMPLES, behind.shape[1]))
        drawn = 1 + numpy.stack([(one[rows].mean(1) > 0) for one in behind]).sum(0)
        low, high = numpy.quantile(drawn, [0.025, 0.975])
        return Interval(float(1 + (behind.mean(1) > 0).sum()), float(low), float(high))

    @property
    def images(self) -> int:
        return len(self.methods["paper"]["pgig"])


def networks(folder: Path) -> list[Network]:
    """SqueezeNet, which photographs were shown to, and the embedded networks, which generated images were shown to."""
    return [_photographs(folder), *(_generated(folder, network) for network in NETWORKS)]


def _photographs(folder: Path) -> Network:
    methods = _by_image(_rows(folder / "areas-methods.csv"))
    variants = _by_image(_rows(folder / "areas-variants.csv"))
    images = list(variants["paper"]["pgig"])
    rivals = {protocol: _areas(found, images) for protocol, found in methods.items()}
    return Network(
        "SqueezeNet 1.0",
        {protocol: _areas(found, list(found["pgig"])) for protocol, found in methods.items()},
        {protocol: _areas(found, images) for protocol, found in variants.items()},
        rivals,
        {},
    )


def _generated(folder: Path, network: str) -> Network:
    rows = [row for setting in SETTINGS for row in _rows(folder / f"embedded-{network}-{setting}.csv")]
    columns = {
        column: {
            method: numpy.array([float(row[column]) for row in rows if row["method"] == method])
            for method in dict.fromkeys(row["method"] for row in rows)
        }
        for column in (*EMBEDDED_PROTOCOLS, *COLUMNS)
    }
    known = ABLATIONS.split(",")
    methods, variants = {}, {}
    for protocol in EMBEDDED_PROTOCOLS:
        found = columns[protocol]
        methods[protocol] = {method: found[method] for method in PAPER_METHODS}
        variants[protocol] = {m: areas for m, areas in found.items() if m in known or m.endswith(CENTRED)}
    return Network(f"embedded, {network}", methods, variants, methods, {column: columns[column] for column in COLUMNS})


def signs(folder: Path) -> dict[str, Areas]:
    """measure -> of which patches or order -> [images]."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in _rows(folder / "signs.csv"):
        found.setdefault(row["measure"], {}).setdefault(row["of"], []).append(float(row["value"]))
    return {measure: {of: numpy.array(v) for of, v in values.items()} for measure, values in found.items()}


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _by_image(rows: Sequence[Mapping[str, str]]) -> dict[str, dict[str, dict[str, float]]]:
    """protocol -> method -> image -> area."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for row in rows:
        found.setdefault(row["protocol"], {}).setdefault(row["method"], {})[row["image"]] = float(row["AUC"])
    return found


def _areas(found: Mapping[str, Mapping[str, float]], images: Sequence[str]) -> Areas:
    return {method: numpy.array([values[image] for image in images]) for method, values in found.items()}
