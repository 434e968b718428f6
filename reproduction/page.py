"""docs/reproduction.md, with its figures, from the tables in docs/reproduction: a pure function of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from claims import Areas, Verdict, verdicts
from figures import ablations_figure, protocols_figure
from results import Network, networks, signs
from tables import (
    ablations_table,
    against,
    agreement_table,
    areas_table,
    between_table,
    claims_table,
    intervals_table,
    lead_table,
    pairs_table,
    places_table,
    protocol_places_table,
    protocols_table,
    stress_claims,
    stress_table,
)

from pgig.methods.table import PAPER_METHODS
from pgig.records.tables import write_csv
from pgig.report.page import write_figure
from pgig.synthetic import stress_test

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
PLACED = "pgig", "pgig+absolute", "pgig+baseline=black", "integrated_pattern_attribution"
SHOWN = "pgig", "pgig+absolute", "integrated_pattern_attribution", "pattern_attribution", "integrated_gradients"


def write_page(docs: Path = DOCS) -> None:
    folder = docs / "reproduction"
    found = networks(folder)
    claimed = {network.name: verdicts(network.methods["paper"]) for network in found}
    write_figure(ablations_figure(found), folder / "ablations.png")
    write_figure(protocols_figure(found, SHOWN), folder / "protocols.png")
    _write_claims(claimed, folder / "claims.csv")
    _write_variants(found, folder / "variants.csv")
    text = (HERE / "questions.md").read_text() + "\n" + (HERE / "findings.md").read_text()
    for name, block in blocks(found, claimed, signs(folder)).items():
        text = text.replace(f"<<{name}>>", block)
    (docs / "reproduction.md").write_text(text)


def blocks(
    found: Sequence[Network], claimed: Mapping[str, Sequence[Verdict]], dark: Mapping[str, Areas]
) -> dict[str, str]:
    """What stands in the text between << and >>."""
    squeezenet, *small = found
    stress = stress_test()
    tried = list(squeezenet.variants["paper"])
    return {
        "images": str(squeezenet.images),
        "areas": areas_table({network.name: network.methods["paper"] for network in found}),
        "claims": claims_table(claimed),
        **{f"pairs {n}": pairs_table(each) for n, each in enumerate(claimed.values())},
        "stress_claims": stress_claims(stress),
        "stress": stress_table(stress),
        "places": places_table(found, [v for v in tried if "pgig" in v or v.startswith("integrated_pattern")]),
        "protocols": areas_table(squeezenet.methods),
        "lead": lead_table(squeezenet.methods, "pgig"),
        "protocol_places": protocol_places_table(found, PLACED),
        "agreement": agreement_table(small, PAPER_METHODS),
        "between": between_table(found, PAPER_METHODS),
        "signs": intervals_table(["patches", "rank correlation"], dark["agreement"]),
        "dark": intervals_table(["patches", "share of dark ones"], dark["dark"]),
        **{f"ablations {n}": ablations_table(network.variants["paper"]) for n, network in enumerate(found)},
        **{f"protocols {n}": protocols_table(network) for n, network in enumerate(found)},
    }


def _write_claims(claimed: Mapping[str, Sequence[Verdict]], path: Path) -> None:
    rows = [
        [network, number + 1, pair.pair.one, pair.pair.kind, pair.pair.other, pair.ahead.mean, pair.ahead.low,
         pair.ahead.high, pair.p, "yes" if pair.as_claimed else "no"]
        for network, of_network in claimed.items()
        for number, verdict in enumerate(of_network)
        for pair in verdict.measured
    ]  # fmt: skip
    head = ["network", "claim", "one", "claimed", "other", "one better by", "low", "high", "p (Holm)", "as claimed"]
    write_csv(path, head, rows)


def _write_variants(found: Sequence[Network], path: Path) -> None:
    rows = [
        [network.name, protocol, one, other, c.difference.mean, c.difference.low, c.difference.high, c.wins, c.p]
        for network in found
        for protocol, areas in network.variants.items()
        for (one, other), c in against(areas).items()
    ]
    head = ["network", "protocol", "variant", "against", "variant better by", "low", "high", "wins", "p (Holm)"]
    write_csv(path, head, rows)


if __name__ == "__main__":
    write_page()
