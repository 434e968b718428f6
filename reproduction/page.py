"""docs/reproduction.md, with its figures and tables, from the runs: a pure function of them."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import copyfile

from claims import Areas, Verdict, verdicts
from figures import ablations_figure, protocols_figure
from results import Network, generated, photographs
from signs import signs
from tables import (
    ablations_table,
    against,
    agreement_table,
    areas_table,
    between_table,
    claims_table,
    places_table,
    protocols_table,
    stress_claims,
    stress_table,
    table,
)

from pgig.methods import PAPER_METHODS
from pgig.report.curves import curves_figure
from pgig.report.page import write_figure
from pgig.report.run import Run
from pgig.report.tables import write_csv
from pgig.statistics import interval
from pgig.synthetic import stress_test

HERE = Path(__file__).parent
DIGITS = 6
SHOWN = "pgig", "pgig+absolute", "integrated_pattern_attribution", "pattern_attribution", "integrated_gradients"


def main(runs: Path, docs: Path) -> None:
    folder = docs / "reproduction"
    squeezenet = photographs(runs, "SqueezeNet 1.0")
    networks = [squeezenet, *generated(runs)]
    found = {network.name: verdicts(network.methods["paper"]) for network in networks}
    main_run = Run.read(runs / "main")
    title = f"SqueezeNet 1.0, {len(main_run.images)} photographs"
    write_figure(curves_figure(main_run.curves, title), folder / "curves.png")
    write_figure(ablations_figure(networks), folder / "ablations.png")
    write_figure(protocols_figure(networks, SHOWN), folder / "protocols.png")
    for name in ("randomization.png", "table.csv"):
        copyfile(runs / "randomized" / name, folder / name.replace("table", "randomization"))
    _write_tables(networks, found, main_run, runs, folder)
    text = (HERE / "questions.md").read_text() + "\n" + (HERE / "findings.md").read_text()
    for name, block in _blocks(networks, found, len(main_run.images), signs(runs)).items():
        text = text.replace(f"<<{name}>>", block)
    (docs / "reproduction.md").write_text(text)


def _blocks(
    networks: Sequence[Network], found: dict[str, list[Verdict]], images: int, dark: tuple[Areas, Areas]
) -> dict[str, str]:
    """What stands in the text between << and >>."""
    squeezenet, *small = networks
    stress = stress_test()
    variants = [v for v in squeezenet.variants["paper"] if "pgig" in v or v.startswith("integrated_pattern")]
    agreement, share = dark
    return {
        "images": str(images),
        "areas": areas_table({network.name: network.methods["paper"] for network in networks}),
        "claims": claims_table(found),
        "stress_claims": stress_claims(stress),
        "stress": stress_table(stress),
        "places": places_table(networks, variants),
        "ablations": ablations_table(squeezenet.variants["paper"]),
        **{f"ablations_{n}": ablations_table(network.variants["paper"]) for n, network in enumerate(small)},
        "protocols": areas_table(squeezenet.methods),
        **{f"protocols_{n}": protocols_table(network, list(squeezenet.variants["paper"]))
           for n, network in enumerate(networks)},
        "agreement": agreement_table(small, PAPER_METHODS),
        "between": between_table(networks, PAPER_METHODS),
        "signs": table(["patches", "rank correlation"], [[which, interval(v)] for which, v in agreement.items()]),
        "dark": table(["first 100 patches of", "share of dark ones"],
                      [[which if " " in which else f"`{which}`", interval(v)] for which, v in share.items()]),
    }  # fmt: skip


def _write_tables(
    networks: Sequence[Network], found: dict[str, list[Verdict]], main_run: Run, runs: Path, folder: Path
) -> None:
    """Every area of every image, every pair of every claim, every paired test."""
    _write_areas(folder / "areas-methods.csv", main_run.images, networks[0].methods)
    _write_areas(folder / "areas-variants.csv", Run.read(runs / "ablations").images, networks[0].variants)
    for path in sorted((runs / "embedded").glob("*.csv")):
        copyfile(path, folder / f"embedded-{path.name}")
    claims = [
        [network, number + 1, pair.pair.one, pair.pair.kind, pair.pair.other, pair.ahead.mean, pair.ahead.low,
         pair.ahead.high, pair.p, "yes" if pair.as_claimed else "no"]
        for network, of_network in found.items()
        for number, verdict in enumerate(of_network)
        for pair in verdict.measured
    ]  # fmt: skip
    head = ["network", "claim", "one", "claimed", "other", "one better by", "low", "high", "p (Holm)", "as claimed"]
    write_csv(folder / "claims.csv", head, claims)
    pairs = [
        [network.name, protocol, one, other, c.difference.mean, c.difference.low, c.difference.high, c.wins, c.p]
        for network in networks
        for protocol, areas in network.variants.items()
        for (one, other), c in against(areas).items()
    ]
    head = ["network", "protocol", "variant", "against", "variant better by", "low", "high", "wins", "p (Holm)"]
    write_csv(folder / "variants.csv", head, pairs)


def _write_areas(path: Path, images: Sequence[str], by_protocol: Mapping[str, Areas]) -> None:
    rows = [
        [image, protocol, method, round(float(area), DIGITS)]
        for protocol, areas in by_protocol.items()
        for method, of_images in areas.items()
        for image, area in zip(images, of_images, strict=True)
    ]
    write_csv(path, ["image", "protocol", "method", "AUC"], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("reproduction/runs"))
    main(parser.parse_args().runs, HERE.parent / "docs")
