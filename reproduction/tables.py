"""The page's tables, in Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
from claims import CLAIMS, Areas, Verdict, order_agreement, paired, rank_correlation
from plan import PROTOCOL_METHODS
from results import Network

from pgig.report.synthetic import VERDICT_HEAD, verdict_rows
from pgig.statistics import Comparison, Interval, interval
from pgig.synthetic import StressTest

PLAIN = "pgig", "pattern_attribution"
_SHOWN = 3  # pairs of a claim that are named


def table(head: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(map(str, head))} |", f"|{' --- |' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def ranked(areas: Areas) -> list[str]:
    return sorted(areas, key=lambda method: float(areas[method].mean()))


def areas_table(columns: Mapping[str, Areas]) -> str:
    """Mean areas with intervals, and ranks, column by column, in the order of the first."""
    rows = [
        [f"`{m}`", *(f"{interval(areas[m])} ({ranked(areas).index(m) + 1})" if m in areas else "" for areas in
                     columns.values())]
        for m in ranked(next(iter(columns.values())))
    ]  # fmt: skip
    return table(["AUC (rank)", *columns], rows)


def claims_table(found: Mapping[str, Sequence[Verdict]]) -> str:
    rows = [
        [number + 1, claim.text, *(_verdict(of_network[number]) for of_network in found.values())]
        for number, claim in enumerate(CLAIMS)
    ]
    return table(["", "claim", *found], rows)


def _verdict(verdict: Verdict) -> str:
    if verdict.holds:
        return "**holds**"
    return f"does not hold ({len(verdict.failed)} of {len(verdict.measured)} pairs)"


def pairs_table(found: Sequence[Verdict]) -> str:
    """The pairs that decide: those which are not as claimed, or the closest to it."""
    rows = []
    for number, verdict in enumerate(found):
        named = verdict.failed or (verdict.closest,)
        more = f"; and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
        rows.append([number + 1, _verdict(verdict), "; ".join(map(str, named[:_SHOWN])) + more])
    return table(["claim", "", "not as claimed; or the closest, where it holds"], rows)


def stress_table(test: StressTest) -> str:
    return table(VERDICT_HEAD, [[f"`{name}`", *rest] for name, *rest in verdict_rows(test)])


def stress_claims(test: StressTest) -> str:
    found = test.verdicts()
    ig, pa, pgig = (found[m] for m in ("integrated_gradients", "pattern_attribution", "pgig"))
    rows = [
        [9, "IG follow y through the plateau, and give the distractor a large share",
         ig.follows_target and not ig.leaves_distractor],
        [10, "Pattern attribution ignores the distractor, and is zero on the plateau",
         pa.leaves_distractor and not pa.follows_target and pa.signal < 0.05 * pa.output],
        [11, "PGIG follows y and ignores the distractor", pgig.follows_target and pgig.leaves_distractor],
    ]  # fmt: skip
    shown = [[number, text, "**holds**" if holds else "**does not hold**"] for number, text, holds in rows]
    return table(["", "claim", "stress test"], shown)


def against(areas: Areas) -> dict[tuple[str, str], Comparison]:
    """Every variant against plain PGIG and pattern attribution: by how much it is better; corrected for all pairs."""
    return paired(areas, [(name, reference) for name in areas for reference in PLAIN if name != reference])


def ablations_table(areas: Areas) -> str:
    cells = against(areas)
    rows = [
        [f"`{m}`", interval(areas[m]), *(_compared(cells.get((m, reference))) for reference in PLAIN)]
        for m in ranked(areas)
    ]
    return table(["variant", "AUC", *(f"better than `{reference}` by" for reference in PLAIN)], rows)


def _compared(found: Comparison | None) -> str:
    if found is None:
        return ""
    d = found.difference
    return f"{d.mean:+.3f} [{d.low:+.3f}, {d.high:+.3f}], p {found.p:.2g}"


def places_table(networks: Sequence[Network], variants: Sequence[str]) -> str:
    """The place that each variant would take among the paper's methods, where PGIG stands."""
    rows = [[f"`{v}`", *(_place(network.place(v)) for network in networks)] for v in variants]
    return table(["in place of `pgig`", *(network.name for network in networks)], rows)


def protocol_places_table(networks: Sequence[Network], variants: Sequence[str]) -> str:
    """The same, under every protocol that the paper's methods were measured by."""
    protocols = list(dict.fromkeys(protocol for network in networks for protocol in network.rivals))
    rows = [
        [network.name, f"`{variant}`", *(_place(network.place(variant, protocol)) for protocol in protocols)]
        for network in networks
        for variant in variants
    ]
    return table(["network", "in place of `pgig`", *protocols], rows)


def _place(place: Interval | None) -> str:
    return "" if place is None else f"{place.mean:.0f} [{place.low:.0f}, {place.high:.0f}]"


def lead_table(by_protocol: Mapping[str, Areas], method: str) -> str:
    """By how much a method is better than every other, protocol by protocol; corrected within each."""
    others = [other for other in ranked(by_protocol["paper"]) if other != method]
    columns = [paired(areas, [(method, other) for other in others]) for areas in by_protocol.values()]
    rows = [[f"`{other}`", *(_compared(column[method, other]) for column in columns)] for other in others]
    return table([f"`{method}` better than", *by_protocol], rows)


def protocols_table(network: Network) -> str:
    """Mean areas with intervals, and ranks among what was tried under every protocol."""
    names = set.intersection(*(set(areas) for areas in network.variants.values())) & set(PROTOCOL_METHODS.split(","))
    columns = {p: {n: areas[n] for n in areas if n in names} for p, areas in network.variants.items()}
    return f"{network.name}:\n\n{areas_table(columns)}"


def intervals_table(head: Sequence[str], found: Areas) -> str:
    return table(head, [[f"`{m}`" if m in PROTOCOL_METHODS.split(",") else m, interval(v)] for m, v in found.items()])


def agreement_table(networks: Sequence[Network], methods: Sequence[str]) -> str:
    """Between the order under degradation and the order under known truth."""
    rows: list[list[Any]] = []
    sets = {"all": list(methods), "without `random`": [m for m in methods if m != "random"]}
    for network in networks:
        for measure, truth in network.truth.items():
            negative = {method: -values for method, values in truth.items()}  # lower is better, as for areas
            cells = []
            for some in sets.values():
                mean, low, high = rank_correlation(network.methods["paper"], negative, some)
                cells.append(f"{mean:+.2f} [{low:+.2f}, {high:+.2f}]")
            rows.append([network.name, measure.replace("|", "\\|"), *cells])
    return table(["network", "truth measured by", *sets], rows)


def between_table(networks: Sequence[Network], methods: Sequence[str]) -> str:
    """Rank correlations of mean areas between networks: other images, so no pairing and no interval."""
    means = {n.name: numpy.array([n.methods["paper"][m].mean() for m in methods]) for n in networks}
    rows = [[one, *(f"{order_agreement(means[one], means[other]):+.2f}" for other in means)] for one in means]
    return table(["", *means], rows)
