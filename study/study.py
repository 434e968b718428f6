"""The runs of the study: `make study IMAGES=... WEIGHTS=...`. Stopped, the same command goes on.

About ten hours on two cores. Every run is a command that can be given by hand.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from candidates import blended
from generated import EMBEDDED, run_generated
from pattern_data import run_pattern_data
from published import is_published, publish, publish_randomised, publish_uses
from settings import (
    ASIDE,
    DRAWS,
    HELD_OUT,
    NETWORKS,
    OTHER_PATTERNS,
    PARTS,
    RANDOMISED,
    RANDOMISED_METHODS,
    STAGES,
    Planned,
    plan,
    plan_aside,
    uses,
)

from pgig.patterns.patterns import Patterns
from pgig.report.run import Run

HERE = Path(__file__).resolve().parent
ENDINGS = ".jpg", ".jpeg", ".png"
PATTERN_OPTIONS = {"traced": (), "shared": ("--joins", "shared"), "quality": ("--regime", "quality")}


def main(images: Path, weights: Path, out: Path, tables: Path, networks: Sequence[str], limit: int | None) -> None:
    folders = split(images, out.resolve() / "photographs", limit)
    publish_uses(photographs_in(images), tables / "photographs.csv")
    given = {"squeezenet1_0": weights.resolve()}
    studies = {name: Study(name, given.get(name), folders, out.resolve() / name, tables / name) for name in networks}
    for name in EMBEDDED:
        if name in networks:
            run_generated(name, tables)
    real = [name for name in networks if name not in EMBEDDED]
    for group in ([name for name in real if name == NETWORKS[0]], [name for name in real if name != NETWORKS[0]]):
        for name, planned, part in plan(group):
            studies[name].run(planned, part)
        for name in group:
            if name != ASIDE:
                run_pattern_data(name, given.get(name), measured_photographs(images), tables / "patterns")
                studies[name].randomise(tables / "randomised")
    for name, planned, part in plan_aside(real):
        studies[name].run(planned, part)


def photographs_in(images: Path) -> list[Path]:
    return sorted(path for path in images.iterdir() if path.suffix.lower() in ENDINGS)


def measured_photographs(images: Path) -> dict[str, list[Path]]:
    """Those of a use, of all its parts."""
    found = uses(photographs_in(images))
    parts = {use: [path for part in range(count) for path in found[f"{use}-{part}"]] for use, count in PARTS.items()}
    return {"patterns": found["patterns"], **parts}


def split(images: Path, out: Path, limit: int | None = None) -> dict[str, Path]:
    """Folders of links to the photographs of each use. limit: of those measured, the first few, for a trial."""
    folders = {}
    for use, some in uses(photographs_in(images)).items():
        folder = folders[use] = out / use
        folder.mkdir(parents=True, exist_ok=True)
        some = some[:limit] if use.startswith(("many", "few")) else some
        for link in set(folder.iterdir()) - {folder / path.name for path in some}:
            link.unlink()
        for path in some:
            if not (folder / path.name).is_symlink():
                (folder / path.name).symlink_to(path.resolve())
    return folders


class Study:
    """The runs on one network."""

    def __init__(self, network: str, weights: Path | None, folders: dict[str, Path], out: Path, tables: Path) -> None:
        self._network = ["--model", network, *(["--weights", str(weights)] if weights else [])]
        self._folders, self._out, self._tables = folders, out, tables
        self._files = {name: out / f"patterns-{name}.safetensors" for name in ("traced", *OTHER_PATTERNS)}

    def run(self, planned: Planned, part: int) -> None:
        """If its table is not there yet."""
        name = f"{planned.name}-{part}"
        if not is_published(self._tables, name):
            self._patterns(planned.patterns)
            self._bench(planned, f"{planned.use}-{part}", self._out / name)
            publish(Run.read(self._out / name), self._tables, name)

    def randomise(self, tables: Path) -> None:
        """With several draws of weights, those whose tables are not there yet."""
        for seed in range(DRAWS):
            out, table = self._out / f"randomised-logit-{seed}", tables / f"{self._out.name}-{seed}.csv"
            if not table.is_file():
                self._patterns("traced")
                self._pgig(
                    "randomize", *self._network, "--images", self._folders["few-0"], "--limit", RANDOMISED,
                    "--patterns", self._files["traced"], "--methods", ",".join(RANDOMISED_METHODS), "--modes",
                    "cascading", "--layers", STAGES, "--score", "logit", "--seed", seed, "--out", out,
                )  # fmt: skip
                publish_randomised(out, table)

    def _patterns(self, name: str) -> None:
        if self._files[name].exists():
            return
        self._out.mkdir(parents=True, exist_ok=True)
        if name == "blended":
            self._patterns("traced")
            blended(Patterns.load(self._files["traced"])).save(self._files[name])
            return
        self._pgig(
            "patterns", *self._network, "--images", self._folders["patterns"], "--held-out", HELD_OUT,
            *PATTERN_OPTIONS[name], "--out", self._files[name],
        )  # fmt: skip

    def _bench(self, planned: Planned, photographs: str, out: Path) -> None:
        self._pgig(
            "bench", *self._network, "--images", self._folders[photographs], "--patterns",
            self._files[planned.patterns], "--references", self._folders["references"], "--methods",
            ",".join(planned.methods), "--measures", ",".join(planned.measures), "--out", out,
        )  # fmt: skip

    def _pgig(self, *arguments: object) -> None:
        print("pgig", *arguments, flush=True)
        # candidates are named as module:name, of the folder that the command runs in; the user's cache stays as it is
        own = {**os.environ, "PGIG_CACHE": str(self._out / "cache")}
        subprocess.run([sys.executable, "-m", "pgig", *map(str, arguments)], check=True, cwd=HERE, env=own)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=Path, required=True, help="a folder of photographs")
    parser.add_argument("--weights", type=Path, required=True, help="of SqueezeNet 1.0")
    parser.add_argument("--out", type=Path, default=Path("study/runs"))
    parser.add_argument("--tables", type=Path, default=HERE / "tables", help="finished parts, published; not run again")
    parser.add_argument("--networks", nargs="+", choices=(*NETWORKS, *EMBEDDED), default=(*NETWORKS, *EMBEDDED))
    parser.add_argument("--limit", type=int, default=None, help="photographs to measure, for a trial")
    asked = parser.parse_args()
    if not asked.images.is_dir() or not photographs_in(asked.images):
        parser.error(f"no photographs in {asked.images}: give a folder of .jpg or .png files")
    if not asked.weights.is_file():
        parser.error(f"no weights at {asked.weights}")
    main(**vars(asked))
