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
from settings import FURTHER, HELD_OUT, MAIN, NETWORKS, OTHER_PATTERNS, QUICK, SLOW, uses

from pgig.patterns.patterns import Patterns

HERE = Path(__file__).resolve().parent
ENDINGS = ".jpg", ".jpeg", ".png"


def main(images: Path, weights: Path, out: Path, networks: Sequence[str], limit: int | None) -> None:
    folders = split(images, out.resolve() / "photographs", limit)
    for network in networks:
        Study(
            network, weights.resolve() if network == "squeezenet1_0" else None, folders, out.resolve() / network
        ).run()


def split(images: Path, out: Path, limit: int | None = None) -> dict[str, Path]:
    """Folders of links to the photographs of each use. limit: of those measured, the first few, for a trial."""
    found = sorted(path for path in images.iterdir() if path.suffix.lower() in ENDINGS)
    folders = {}
    for use, some in uses(found).items():
        folder = folders[use] = out / use
        folder.mkdir(parents=True, exist_ok=True)
        some = some[:limit] if use in ("many", "few") else some
        for link in set(folder.iterdir()) - {folder / path.name for path in some}:
            link.unlink()
        for path in some:
            if not (folder / path.name).is_symlink():
                (folder / path.name).symlink_to(path.resolve())
    return folders


class Study:
    """The runs on one network."""

    def __init__(self, network: str, weights: Path | None, folders: dict[str, Path], out: Path) -> None:
        self._network = ["--model", network, *(["--weights", str(weights)] if weights else [])]
        self._folders, self._out = folders, out
        self._files = {name: out / f"patterns-{name}.safetensors" for name in ("traced", *OTHER_PATTERNS)}

    def run(self) -> None:
        self._out.mkdir(parents=True, exist_ok=True)
        self._patterns()
        self._bench("main", QUICK, MAIN, "many")
        self._bench("further", (*QUICK, *SLOW), FURTHER, "few")
        self._bench("slow", SLOW, MAIN, "few")
        for name, methods in OTHER_PATTERNS.items():
            self._bench(f"main-{name}", methods, MAIN, "many", name)
            self._bench(f"further-{name}", methods, FURTHER, "few", name)

    def _patterns(self) -> None:
        for name, options in (("traced", []), ("shared", ["--joins", "shared"]), ("quality", ["--regime", "quality"])):
            if not self._files[name].exists():
                self._pgig(
                    "patterns", *self._network, "--images", self._folders["patterns"], "--held-out", HELD_OUT,
                    *options, "--out", self._files[name],
                )  # fmt: skip
        if not self._files["blended"].exists():
            blended(Patterns.load(self._files["traced"])).save(self._files["blended"])

    def _bench(
        self, name: str, methods: Sequence[str], measures: Sequence[str], photographs: str, patterns: str = "traced"
    ) -> None:
        self._pgig(
            "bench", *self._network, "--images", self._folders[photographs], "--patterns", self._files[patterns],
            "--references", self._folders["references"], "--methods", ",".join(methods), "--measures",
            ",".join(measures), "--out", self._out / name,
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
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=NETWORKS)
    parser.add_argument("--limit", type=int, default=None, help="photographs to measure, for a trial")
    main(**vars(parser.parse_args()))
