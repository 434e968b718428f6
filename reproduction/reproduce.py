"""The runs behind docs/reproduction.md: `make reproduction IMAGES=... WEIGHTS=...`. Stopped, the same command goes on.

Hours on two cores, most of them for smoothgrad_ig. Every run is a command that can be given by hand.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from collect import collect
from embedded import run_embedded
from page import DOCS, write_page
from plan import ABLATIONS, ALL_METHODS, PHOTOGRAPH_FILLS, PROTOCOL_METHODS, RANDOMIZED, REGIMES, RELEASED


def linked(folder: Path, images: list[Path]) -> Path:
    """A folder of links to these images, and to no others."""
    folder.mkdir(parents=True, exist_ok=True)
    for link in set(folder.iterdir()) - {folder / path.name for path in images}:
        link.unlink()
    for path in images:
        link = folder / path.name
        if not link.is_symlink():
            link.symlink_to(path.resolve())
    return folder


def split(images: Path, out: Path) -> dict[str, Path]:
    """The photographs by their use: patterns come from one half, all else is measured on the other."""
    found = sorted(path for path in images.iterdir() if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    estimation, other = found[::2], found[1::2]
    evaluation = [path for number, path in enumerate(other) if number % 5 != 4]
    uses = {
        "estimation": estimation, "evaluation": evaluation, "ablation": evaluation[::2],
        "randomization": evaluation[::34], "reestimation": estimation[::5],
    }  # fmt: skip
    return {use: linked(out / "images" / use, some) for use, some in uses.items()}


def pgig(*arguments: object) -> None:
    print("pgig", *arguments, flush=True)
    subprocess.run([sys.executable, "-m", "pgig", *map(str, arguments)], check=True)


def main(images: Path, weights: Path, out: Path, model: str, workers: int) -> None:
    folders = split(images, out)
    network = ("--model", model, "--weights", weights)
    patterns = {regime: out / f"patterns-{regime}.safetensors" for regime in REGIMES}
    for regime, path in patterns.items():
        if not path.exists():
            pgig("patterns", *network, "--images", folders["estimation"], "--regime", regime, "--out", path)
    degrade = ("degrade", *network, "--workers", workers)
    auto = ("--patterns", patterns["auto"])
    ablations = (*degrade, "--images", folders["ablation"])
    pgig(*ablations, *auto, "--methods", ABLATIONS, "--save-attributions", "--out", out / "ablations")
    centred = ("--patterns", patterns["centred"], "--methods", "pgig,pattern_attribution")
    pgig(*ablations, *centred, "--out", out / "centred")
    evaluation = (*degrade, "--images", folders["evaluation"], "--methods", "all")
    pgig(*evaluation, *auto, "--save-attributions", "--out", out / "main")
    variants = (*ablations, "--methods", PROTOCOL_METHODS, "--attributions-from", out / "ablations")
    for protocol in ALL_METHODS:
        pgig(*evaluation, "--protocol", protocol, "--attributions-from", out / "main", "--out", out / protocol)
    for protocol in RELEASED:
        pgig(*variants, "--protocol", protocol, "--out", out / f"ablations-{protocol}")
    for fill in PHOTOGRAPH_FILLS:
        pgig(*variants, "--fill", fill, "--out", out / f"ablations-{fill}")
    pgig(
        "randomize", *network, *auto, "--images", folders["randomization"], "--estimate-from", folders["reestimation"],
        "--layers", 4, "--methods", RANDOMIZED, "--out", out / "randomized",
    )  # fmt: skip
    run_embedded(out / "embedded")
    collect(out, DOCS / "reproduction")
    write_page(DOCS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=Path, required=True, help="a folder of photographs")
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--model", default="squeezenet1_0")
    parser.add_argument("--out", type=Path, default=Path("reproduction/runs"))
    parser.add_argument("--workers", type=int, default=2)
    main(**vars(parser.parse_args()))
