"""Running commands, and what they are run on."""

import subprocess
import sys
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy
from PIL import Image

from pgig.__main__ import main
from pgig.errors import PgigWarning

FACTORY = """
import torch
from torch import nn

def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(64, 6))

def wrong():
    return nn.Linear(7, 2)
"""
OWN = "\ndef mine(model, inputs, targets):\n    return inputs * 0 + 1\n"


@dataclass(frozen=True)
class Ran:
    returncode: int
    stdout: str
    stderr: str


def run(folder: Path, *arguments: str) -> Ran:
    """A command in this process, as a user would run it in a folder."""
    out, err = StringIO(), StringIO()
    with chdir(folder), redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as Python does outside of tests, about
        warnings.simplefilter("default", UserWarning)
        warnings.simplefilter("default", PgigWarning)
        code = main(arguments)
    return Ran(code, out.getvalue(), err.getvalue())


def run_process(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The same in a process of its own, for what only that can show."""
    return subprocess.run(pgig_call(*arguments), cwd=folder, capture_output=True, text=True, check=False)


def pgig_call(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pgig", *arguments]


def noise_picture(rng: numpy.random.Generator, height: int = 40, width: int = 50) -> Image.Image:
    return Image.fromarray(rng.integers(0, 255, (height, width, 3), numpy.uint8))


def with_pictures(folder: Path) -> Path:
    """A model, names of its classes, and two pictures of noise."""
    (folder / "net.py").write_text(FACTORY)
    (folder / "names.txt").write_text("\n".join(f"name {i}" for i in range(6)))
    rng = numpy.random.default_rng(0)
    for name in ("cat", "dog"):
        noise_picture(rng).save(folder / f"{name}.png")
    return folder


def curves(rows: list[dict]) -> dict[tuple[str, str], list[float]]:
    """Of a run's rows, by image and method."""
    return {(row["image"], row["method"]): row["values"] for row in rows}
