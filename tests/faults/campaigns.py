"""Fault campaigns: what is tried, seeded and bounded, and what became of it.

Each takes a number of cases, an empty folder and a seed, and counts outcomes. Those in `BAD` must never happen.
"""

import io
import os
import random
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy
import pyarrow.parquet as pq
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import nn

import pgig
from pgig.records.config import read_toml
from pgig.records.part_files import read_run, read_sums
from pgig.records.parts import parts_of
from pgig.runs.labels import read_labels
from pgig.vision import Preprocess
from pgig.vision.image_folder import ImageFolder
from pgig.vision.published import read_published_weights
from pgig.vision.weights import load_weights, read_weights

BAD = "wrong", "silent", "traceback", "lost", "mixed", "grown"
Outcomes = Counter[str]

NET = """
import time
import torch
from torch import nn
import pgig.runs.patterns

pgig.runs.patterns.CHECKPOINT_SECONDS, pgig.runs.patterns.SETTLED = 0, 8

class Slow(nn.Sequential):
    def forward(self, x):
        time.sleep(0.008)
        return super().forward(x)

def make():
    torch.manual_seed(0)
    return Slow(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(64, 6))
"""
SMALL = "--model", "net:make", "--size", "32", "--resize", "32", "--images", "photos", "--threads", "1"
DEGRADE = "degrade", *SMALL, "--methods", "gradient,vargrad+samples=3,random", "--patch", "8", "--steps", "6"
PATTERNS = "patterns", *SMALL, "--batch-size", "1", "--out", "p.safetensors"


def killed_runs(count: int, folder: Path, seed: int) -> Outcomes:
    """`pgig degrade` is killed with -9 at a random moment, at times twice, and given again."""
    _prepare(folder, 40)
    begun = time.monotonic()
    _done(folder, *DEGRADE, "--out", "whole")
    duration, rng, outcomes = time.monotonic() - begun, random.Random(seed), Outcomes()
    wanted = _tables(folder / "whole")
    for case in range(count):
        out = f"run{case}"
        for _ in range(rng.choice((1, 1, 2))):
            first = folder / out / "parts" / "part-000000.parquet" if case % 3 < 2 else None
            _killed(folder, rng.uniform(0, duration / 2), first, *DEGRADE, "--out", out)
        outcomes["interrupted after a part" if list((folder / out).glob("parts/*")) else "interrupted before"] += 1
        _done(folder, *DEGRADE, "--out", out)
        outcomes["same bits" if _tables(folder / out).equals(wanted) else "wrong"] += 1  # type: ignore[attr-defined]
    return outcomes


def killed_estimations(count: int, folder: Path, seed: int) -> Outcomes:
    """`pgig patterns` is killed with -9 at a random moment and resumed."""
    _prepare(folder, 80)
    begun = time.monotonic()
    _done(folder, *PATTERNS)
    duration, rng, outcomes = time.monotonic() - begun, random.Random(seed), Outcomes()
    wanted = pgig.Patterns.load(folder / "p.safetensors")
    for case in range(count):
        (folder / "p.safetensors").unlink()
        first = folder / "p.moments.safetensors" if case % 3 < 2 else None
        _killed(folder, rng.uniform(0, duration / 8 if first else duration / 2), first, *PATTERNS)
        if (folder / "p.safetensors").exists():
            outcomes["done before the kill"] += 1
        else:
            there = (folder / "p.moments.safetensors").exists()
            outcomes["interrupted after a checkpoint" if there else "interrupted before"] += 1
            _done(folder, *PATTERNS, "--resume")
        found = pgig.Patterns.load(folder / "p.safetensors")
        same = all(torch.equal(found[name], wanted[name]) for name in wanted)
        outcomes["same bits" if same and found.facts == wanted.facts else "wrong"] += 1
    return outcomes


def two_writers(count: int, folder: Path, seed: int) -> Outcomes:
    """Two processes are given the same folder at about the same time, with different options."""
    _prepare(folder, 24)
    rng, outcomes = random.Random(seed), Outcomes()
    wanted = {}
    for order in ("1", "2"):
        _done(folder, *DEGRADE, "--seed", order, "--out", f"whole{order}")
        wanted[order] = _tables(folder / f"whole{order}")
    for case in range(count):
        out, processes = f"run{case}", {}
        for order in ("1", "2"):
            processes[order] = _started(folder, *DEGRADE, "--seed", order, "--out", out)
            time.sleep(rng.uniform(0, 0.3))
        said = {order: process.communicate()[1] for order, process in processes.items()}
        winners = [order for order, process in processes.items() if process.returncode == 0]
        for order, process in processes.items():
            if process.returncode:
                outcomes["refused" if _is_one_line(said[order]) and process.returncode == 2 else "traceback"] += 1
        if len(winners) == 1 and _tables(folder / out).equals(wanted[winners[0]]):  # type: ignore[attr-defined]
            outcomes["one finished, unmixed"] += 1
        else:
            outcomes["mixed" if winners else "lost"] += 1
    return outcomes


def mutated_images(count: int, folder: Path, seed: int) -> Outcomes:
    """Image files of all formats with bytes changed, cut off, doubled or put in."""
    rng, outcomes = random.Random(seed), Outcomes()
    files = list(_image_files())
    preprocess = Preprocess(size=24, resize=24, max_pixels=1_000_000)
    for _ in range(count):
        content = _mutated(rng.choice(files), rng)
        with _noted(outcomes):
            outcomes["read" if preprocess.pixels(io.BytesIO(content), "x").isfinite().all() else "wrong"] += 1
    return outcomes


def mutated_exif(count: int, folder: Path, seed: int) -> Outcomes:
    """Photographs whose EXIF block has bytes changed; the pixels are whole."""
    rng, outcomes = random.Random(seed), Outcomes()
    exif = Image.Exif()
    for tag, value in ((0x0112, 6), (0x010F, "maker"), (0x011A, 72.0), (0x9003, "2020:01:01"), (0x8825, {1: "N"})):
        exif[tag] = value
    block = exif.tobytes()
    preprocess = Preprocess(size=24, resize=24)
    for number in range(count):
        kind = ("jpeg", "png", "webp")[number % 3]
        buffer = io.BytesIO()
        _picture().save(buffer, kind, exif=_mutated(block, rng, length_kept=True))
        with _noted(outcomes):
            preprocess.pixels(buffer, "x")
            outcomes["read"] += 1
    return outcomes


def mutated_files(count: int, folder: Path, seed: int) -> Outcomes:
    """Weights, patterns, moments, archives, labels and configurations with bytes changed."""
    rng, outcomes = random.Random(seed), Outcomes()
    loaders = _loaders(folder)
    originals = {path: path.read_bytes() for path in loaders}
    for _ in range(count):
        path = rng.choice(list(loaders))
        changed = _mutated(originals[path], rng)
        target = folder / f"mutated{path.suffix}"
        target.write_bytes(changed)
        with _noted(outcomes):
            loaders[path](target)
            sealed = path.name.startswith(("patterns", "moments")) and changed != originals[path]
            outcomes["silent" if sealed else "read"] += 1
    return outcomes


def flipped_bits(count: int, folder: Path, seed: int) -> Outcomes:
    """One bit of a part, of saved attributions, of patterns or of moments is flipped; then the file is read."""
    _prepare(folder, 12)
    _done(folder, *DEGRADE, "--out", "run", "--save-attributions")
    model = _model()
    moments = pgig.estimate_moments(model, [torch.rand(64, 3, 8, 8)])
    moments.save(folder / "moments.safetensors")
    moments.patterns().save(folder / "patterns.safetensors")
    run = folder / "run"
    parts = parts_of(ImageFolder.open(folder / "photos").names)
    readers: dict[Path, Callable[[], object]] = {
        **{run / "parts" / part.name: lambda: list(read_run(run)) for part in parts},
        **{run / "attributions" / part.name: lambda part=part: read_sums(run, part) for part in parts},  # type: ignore[misc]
        folder / "moments.safetensors": lambda: pgig.Moments.load(folder / "moments.safetensors"),
        folder / "patterns.safetensors": lambda: pgig.Patterns.load(folder / "patterns.safetensors"),
    }
    for read in readers.values():
        read()
    rng, outcomes = random.Random(seed), Outcomes()
    for _ in range(count):
        path = rng.choice(list(readers))
        content = bytearray(path.read_bytes())
        place, bit = rng.randrange(len(content)), 1 << rng.randrange(8)
        content[place] ^= bit
        path.write_bytes(content)
        with _noted(outcomes):
            readers[path]()
            outcomes["silent"] += 1
        content[place] ^= bit
        path.write_bytes(content)
    return outcomes


def four_threads(count: int, folder: Path, seed: int) -> Outcomes:
    """Four threads explain with one model and one set of patterns, each several methods."""
    model = _model()
    patterns = pgig.estimate_moments(model, [torch.rand(64, 3, 8, 8)]).patterns()
    inputs = [torch.rand(3, 3, 8, 8, generator=torch.Generator().manual_seed(seed + n)) for n in range(4)]
    methods = ["gradient", "guided_backprop", "pattern_attribution", "pgig", "vargrad", "random"]

    def explained(number: int) -> dict[str, torch.Tensor]:
        return pgig.attribute_all(methods, model, inputs[number], 1, patterns=patterns)  # type: ignore[return-value]

    wanted = [explained(number) for number in range(4)]
    outcomes = Outcomes()

    def work(number: int) -> None:
        for _ in range(count):
            try:
                found = explained(number)
            except Exception:
                outcomes["traceback"] += 1
            else:
                same = all(torch.equal(found[name], wanted[number][name]) for name in methods)
                outcomes["same bits" if same else "wrong"] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


FLAT = """
import sys, torch, pgig
from pathlib import Path
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(),
                      nn.Linear(64 * 46 * 46, 5)).eval()
x = torch.randn(1, 3, 48, 48)
patterns = {name: torch.ones_like(model.get_submodule(name).weight) for name in ("0", "2", "5")}

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4

for name, method in pgig.METHODS.items():
    small = {key: 2 for key in ("steps", "samples") if key in method.options}
    for count in (5, int(sys.argv[1])):
        before = resident()
        for _ in range(count):
            pgig.attribute(name, model, x, patterns=patterns, references=x + 1, **small)
    print(name, resident() - before)
"""


def repeated_calls(count: int, folder: Path, seed: int) -> Outcomes:
    """Every method of the table is called again and again; the first pass of a call keeps 1.2 MB."""
    lines = subprocess.check_output([sys.executable, "-c", FLAT, str(count)], text=True).splitlines()
    outcomes = Outcomes()
    for name, kilobytes in map(str.split, lines):
        assert name in pgig.METHODS
        outcomes["flat" if int(kilobytes) < max(12_000, 100 * count) else "grown"] += 1
    return outcomes


@dataclass(frozen=True)
class Campaign:
    run: Callable[[int, Path, int], Outcomes]
    quick: int  # cases, in `make test`
    full: int  # in `make faults`
    unit: str
    promise: str


CAMPAIGNS = {
    "kills of `degrade`": Campaign(killed_runs, 1, 24, "kills", "a killed run goes on to the same bits"),
    "kills of `patterns`": Campaign(killed_estimations, 1, 24, "kills", "a killed estimation goes on to the same bits"),
    "two writers": Campaign(two_writers, 1, 10, "pairs", "one owns the folder, the other gets one line"),
    "mutated images": Campaign(mutated_images, 400, 20_000, "files", "an image is read, or skipped with a reason"),
    "mutated EXIF blocks": Campaign(mutated_exif, 300, 8_000, "files", "likewise"),
    "mutated files": Campaign(mutated_files, 300, 6_000, "files", "a file is read, or refused in one line"),
    "flipped bits": Campaign(
        flipped_bits, 300, 10_000, "flips", "no changed part, pattern or moment is read as a result"
    ),
    "four threads": Campaign(four_threads, 3, 50, "rounds of four", "threads do not disturb each other"),
    "repeated calls": Campaign(repeated_calls, 30, 300, "calls of each method", "memory stays flat"),
}


@contextmanager
def _noted(outcomes: Outcomes) -> Iterator[None]:
    """A refusal in one line is what is promised; anything else that is raised is not."""
    try:
        yield
    except pgig.PgigError:
        outcomes["refused"] += 1
    except Exception:
        outcomes["traceback"] += 1


def _prepare(folder: Path, images: int) -> None:
    (folder / "net.py").write_text(NET)
    (folder / "photos").mkdir()
    rng = numpy.random.default_rng(0)
    for number in range(images):
        pixels = rng.integers(0, 255, (32, 40, 3), numpy.uint8)
        Image.fromarray(pixels).save(folder / "photos" / f"{number:02d}.png")


def _started(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "pgig", *arguments], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip


def _done(folder: Path, *arguments: str) -> None:
    process = _started(folder, *arguments)
    _, said = process.communicate()
    assert process.returncode == 0, said


def _killed(folder: Path, seconds: float, first: Path | None, *arguments: str) -> None:
    """After some seconds, counted from when the file `first` is there, if one is named."""
    process = _started(folder, *arguments)
    while first is not None and not first.exists() and process.poll() is None:
        time.sleep(0.005)
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _tables(run: Path) -> object:
    return pq.read_table(run / "parts").drop(["seconds"])


def _is_one_line(said: str) -> bool:
    return said.count("\n") == 1 and said.startswith("pgig: ")


def _model() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 6)).eval()


def _picture(mode: str = "RGB") -> Image.Image:
    pixels = numpy.random.default_rng(0).integers(0, 255, (24, 32, 3), numpy.uint8)
    return Image.fromarray(pixels).convert(mode)


def _image_files() -> Iterator[bytes]:
    Image.init()
    for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "AVIF", "PPM", "ICO", "TGA", "JPEG2000", "DDS", "PCX",
                 "SGI", "QOI", "ICNS", "DIB", "IM", "MPO"):  # fmt: skip
        if kind in Image.SAVE:
            buffer = io.BytesIO()
            _picture("RGBA" if kind == "ICNS" else "RGB").save(buffer, kind)
            yield buffer.getvalue()
    for deep in (_picture("L").convert("I;16"), _picture("F"), _picture("I")):
        buffer = io.BytesIO()
        deep.save(buffer, "TIFF")
        yield buffer.getvalue()
    yield b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n(x) show\n"


def _mutated(content: bytes, rng: random.Random, length_kept: bool = False) -> bytes:
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8, 30))):
        place = rng.randrange(max(1, len(data)))
        match "change" if length_kept else rng.choice(("change", "change", "change", "cut", "double", "put in")):
            case "change":
                data[place : place + 1] = bytes([rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))])
            case "cut":
                del data[place : place + rng.randrange(1, 64)]
            case "double":
                data[place:place] = data[place : place + 32]
            case _:
                data[place:place] = rng.randbytes(rng.randrange(1, 16))
        if not data:
            return b""
    return bytes(data)


def _loaders(folder: Path) -> dict[Path, Callable[[Path], object]]:
    """Files of every kind, each with what reads it."""
    model = _model()
    state = dict(model.state_dict())
    save_file(state, folder / "weights.safetensors")
    torch.save(state, folder / "weights.pth")
    moments = pgig.estimate_moments(model, [torch.rand(64, 3, 8, 8)])
    moments.save(folder / "moments.safetensors")
    moments.patterns().save(folder / "patterns.safetensors")
    numpy.savez_compressed(folder / "published.npz", **{f"arr_{n}": numpy.ones(3, numpy.float32) for n in range(32)})  # type: ignore[arg-type]
    (folder / "labels.csv").write_text("file,class_index\n" + "".join(f"{n}.png,{n}\n" for n in range(20)))
    (folder / "config.toml").write_text('[images]\ncount = 3\nmean = [0.1, 0.2, 0.3]\n[model]\nmodel = "vgg16"\n')
    buffer = io.BytesIO()
    _picture().save(buffer, "PNG")
    with zipfile.ZipFile(folder / "images.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", buffer.getvalue())

    def images(path: Path) -> None:
        skipped: dict[str, str] = {}
        list(ImageFolder.open(path).batches(Preprocess(size=8, resize=8, max_pixels=10**6), 1, 0, skipped))

    return {
        folder / "weights.safetensors": lambda path: load_weights(_model(), read_weights(str(path))),
        folder / "weights.pth": lambda path: load_weights(_model(), read_weights(str(path))),
        folder / "moments.safetensors": pgig.Moments.load,
        folder / "patterns.safetensors": pgig.Patterns.load,
        folder / "published.npz": read_published_weights,
        folder / "labels.csv": lambda path: read_labels(path, ("1.png",)),
        folder / "config.toml": read_toml,
        folder / "images.zip": images,
    }
