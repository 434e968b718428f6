"""What the runs measured, read from their folders."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy
from claims import Areas
from embedded import NETWORKS
from embedded import PROTOCOLS as EMBEDDED_PROTOCOLS
from plan import ABLATIONS, FILLS, RELEASED

from pgig.curves import auc
from pgig.methods import PAPER_METHODS
from pgig.report.run import Run
from pgig.synthetic.images import SETTINGS
from pgig.synthetic.metrics import COLUMNS

CENTRED = ", centred patterns"


@dataclass(frozen=True)
class Network:
    """Areas under the curve on a network, by protocol. Rivals are the paper's methods on the images of the variants."""

    name: str
    methods: Mapping[str, Areas]
    variants: Mapping[str, Areas]
    rivals: Mapping[str, Areas]
    truth: Mapping[str, Areas]  # measure -> agreement with the truth, higher is better; empty where it is not known

    def rank(self, variant: str, protocol: str = "paper") -> int | None:
        """Which place the variant would take where PGIG stands; None where the rivals were not measured."""
        if protocol not in self.rivals or variant not in self.variants[protocol]:
            return None
        own = self.variants[protocol][variant].mean()
        return 1 + sum(float(a.mean()) < own for m, a in self.rivals[protocol].items() if m != "pgig")


def areas_of(run: Run, images: Sequence[str] | None = None) -> Areas:
    places = slice(None) if images is None else [run.images.index(image) for image in images]
    return {method: auc(curves)[places] for method, curves in run.curves.items()}


def photographs(runs: Path, name: str) -> Network:
    """The network that the photographs were shown to."""
    methods = {"paper": Run.read(runs / "main"), **{p: Run.read(runs / p) for p in RELEASED}}
    ablations = Run.read(runs / "ablations")
    variants = {"paper": areas_of(ablations)}
    for protocol in (*RELEASED, *FILLS):
        variants[protocol] = areas_of(Run.read(runs / f"ablations-{protocol}"), ablations.images)
    centred = areas_of(Run.read(runs / "centred"), ablations.images)
    variants["paper"] |= {method + CENTRED: areas for method, areas in centred.items()}
    rivals = {protocol: areas_of(run, ablations.images) for protocol, run in methods.items()}
    return Network(name, {protocol: areas_of(run) for protocol, run in methods.items()}, variants, rivals, {})


def generated(runs: Path) -> list[Network]:
    """The embedded networks, which generated images were shown to."""
    return [_generated(runs / "embedded", network) for network in NETWORKS]


def _generated(folder: Path, network: str) -> Network:
    rows = []
    for setting in SETTINGS:
        with (folder / f"{network}-{setting}.csv").open(newline="") as file:
            rows += list(csv.DictReader(file))
    columns = {
        column: {
            method: numpy.array([float(row[column]) for row in rows if row["method"] == method])
            for method in dict.fromkeys(row["method"] for row in rows)
        }
        for column in (*EMBEDDED_PROTOCOLS, *COLUMNS)
    }
    areas = {protocol: columns[protocol] for protocol in EMBEDDED_PROTOCOLS}
    methods = {protocol: {m: found[m] for m in PAPER_METHODS} for protocol, found in areas.items()}
    known = ABLATIONS.split(",")
    variants = {
        protocol: {m: a for m, a in found.items() if m in known or m.endswith(CENTRED)}
        for protocol, found in areas.items()
    }
    return Network(f"embedded, {network}", methods, variants, methods, {column: columns[column] for column in COLUMNS})
