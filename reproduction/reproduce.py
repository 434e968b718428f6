"""The runs behind docs/reproduction.md: `make reproduction IMAGES=... WEIGHTS=...`. Stopped, the same command goes on.

Hours on two cores, most of them for smoothgrad_ig. Every run is a command that can be given by hand.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import page
from embedded import run_embedded
from plan import ABLATIONS, PROTOCOLS, RANDOMIZED


def split(images: Path, out: Path) -> tuple[Path, Path]:
    """Links to every other image: those that patterns are estimated on, and those that all else is measured on."""
    halves = out / "estimation", out / "evaluation"
    for number, path in enumerate(sorted(p for p in images.iterdir() if p.suffix.lower() in (".jpg", ".jpeg", ".png"))):
        folder = halves[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        link = folder / path.name
        if not link.is_symlink():
            link.symlink_to(path.resolve())
    return halves


def pgig(*arguments: object) -> None:
    print("pgig", *arguments, flush=True)
    subprocess.run([sys.executable, "-m", "pgig", *map(str, arguments)], check=True)


def main(images: Path, weights: Path, out: Path, model: str, threads: int | None) -> None:
    estimation, evaluation = split(images, out)
    network = ("--model", model, "--weights", weights)
    more = () if threads is None else ("--threads", threads)
    patterns = {regime: out / f"patterns-{regime}.safetensors" for regime in ("auto", "centred")}
    for regime, path in patterns.items():
        if not path.exists():
            pgig("patterns", *network, "--images", estimation, "--regime", regime, "--out", path)
    degrade = ("degrade", *network, "--images", evaluation, *more)
    auto = ("--patterns", patterns["auto"])
    pgig(*degrade, *auto, "--methods", ABLATIONS, "--limit", 125, "--save-attributions", "--out", out / "ablations")
    centred = ("--patterns", patterns["centred"], "--methods", "pgig,pattern_attribution", "--limit", 125)
    pgig(*degrade, *centred, "--out", out / "centred")
    pgig(*degrade, *auto, "--methods", "all", "--save-attributions", "--out", out / "main")
    for name, options in PROTOCOLS.items():
        reused = ("--methods", "all", "--attributions-from", out / "main", "--out", out / name)
        pgig(*degrade, *options, *reused)
    pgig(
        "randomize", *network, "--images", evaluation, "--limit", 20, *auto, "--estimate-from", estimation,
        "--estimate-limit", 50, "--layers", 8, "--methods", RANDOMIZED, "--out", out / "randomized",
    )  # fmt: skip
    run_embedded(out / "embedded")
    page.main(out, Path(__file__).parents[1] / "docs")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=Path, required=True, help="a folder of photographs")
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--model", default="squeezenet1_0")
    parser.add_argument("--out", type=Path, default=Path("reproduction/runs"))
    parser.add_argument("--threads", type=int)
    main(**vars(parser.parse_args()))
