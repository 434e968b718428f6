"""Memory is bounded by the chunk, not by the number of steps."""

import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path

import numpy
import pytest
import torch
from networks import images, network, patterns_of_ones
from PIL import Image
from torch import nn

import pgig
from pgig.attribution import chunks

PEAK = """
import torch, pgig
from pathlib import Path
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(),
                      nn.LazyLinear(5)).eval()
x = torch.randn(1, 3, 48, 48)
model(x)
pgig.attribute("{method}", model, x, 1, {option}={count}, batch_size={batch})
# getrusage would count what the parent had before
lines = Path("/proc/self/status").read_text().splitlines()
print(next(line for line in lines if line.startswith("VmHWM")).split()[1])
"""


# one arena that gives back what is freed: left alone, glibc lays out the same blocks by up to 60 MB otherwise each run
STEADY = {
    "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": "0", "MALLOC_MMAP_THRESHOLD_": "65536",
}  # fmt: skip


def peak(**values) -> int:
    """Kilobytes, of a process of its own."""
    call = [sys.executable, "-c", PEAK.format(**values)]
    return int(subprocess.check_output(call, text=True, env=os.environ | STEADY))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux to measure memory")
@pytest.mark.parametrize(("method", "option"), [("integrated_gradients", "steps"), ("vargrad", "samples")])
def test_a_thousand_points_need_no_more_memory_than_a_hundred(method, option):
    few, many = (peak(method=method, option=option, count=count, batch=None) for count in (100, 1000))
    everything = peak(method=method, option=option, count=250, batch=250)
    assert many < few + 15_000  # kilobytes
    assert everything > many + 200_000  # the measure would notice


def test_chunks_are_as_large_as_the_budget_allows(monkeypatch):
    sizes = []
    model, x = network("chain"), images(1)

    def counted(x):
        sizes.append(len(x))
        return model(x)

    pgig.attribute("integrated_gradients", counted, x, 1)
    sizes.clear()  # the first call also looked at what the model does
    pgig.attribute("integrated_gradients", counted, x, 1)
    assert sizes == [25]
    sizes.clear()
    for budget in ("CPU_BYTES", "FEW_BYTES", "TINY_BYTES"):
        monkeypatch.setattr(chunks, budget, 0)
    pgig.attribute("integrated_gradients", counted, x, 1)
    assert sizes == [1] * 25
    sizes.clear()
    pgig.attribute("integrated_gradients", counted, x, 1, batch_size=8)
    assert sizes == [7, 6, 6, 6]  # even chunks


def test_the_measure_counts_what_autograd_keeps_and_not_the_weights(monkeypatch):
    for budget in ("CPU_BYTES", "FEW_BYTES"):
        monkeypatch.setattr(chunks, budget, 0)
    monkeypatch.setattr(chunks, "TINY_BYTES", 8_000_000)
    model = torch.nn.Sequential(torch.nn.Linear(1000, 1000), torch.nn.Tanh())
    size, kept = chunks.ChunkSize(None, torch.device("cpu")), chunks.Kept()
    x = torch.randn(1, 1000, requires_grad=True)
    with kept.watching(model):
        model(x)
    size.settle(kept.bytes_per_row([x]))
    # the input (for the weight's gradient) and the output of tanh, and six more for the engine: 4 kB each
    assert 240 <= size.next(10**9) <= 251


WATCHED = """
import torch
from pathlib import Path
from torch import nn

def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 96, 3), nn.ReLU(), nn.Conv2d(96, 96, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
                         nn.Flatten(), nn.Linear(96 * 16, 6))

def resident(model, inputs, targets):
    with open("resident.txt", "a") as file:
        file.write(Path("/proc/self/statm").read_text().split()[1] + "\\n")
    return inputs
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux to measure memory")
def test_a_run_of_two_hundred_images_needs_no_more_memory_at_its_end(tmp_path):
    (tmp_path / "net.py").write_text(WATCHED)
    rng = numpy.random.default_rng(0)
    for number in range(200):
        Image.fromarray(rng.integers(0, 255, (32, 32, 3), numpy.uint8)).save(tmp_path / f"{number:03d}.png")
    methods = "random,gradient,integrated_gradients+steps=3,vargrad+samples=3,net:resident"
    call = ["degrade", "--model", "net:make", "--images", ".", "--size", "32", "--resize", "32", "--patch", "16"]
    call += ["--steps", "2", "--out", "run", "--methods", methods, "--threads", "1"]
    done = subprocess.run([sys.executable, "-m", "pgig", *call], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pages = [int(line) for line in (tmp_path / "resident.txt").read_text().split()]
    assert len(pages) == 200
    grown = (max(pages[-20:]) - max(pages[40:60])) * 4  # kilobytes
    assert grown < 15_000, grown  # a graph left behind by each of 140 images would be 90 MB


@pytest.mark.parametrize("name", pgig.METHODS)
def test_nothing_of_a_pass_stays_when_it_is_over(name):
    """Gates in place are where a graph may hold itself: then no collector finds it."""
    layers = [nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True), nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)]
    model, x = nn.Sequential(*layers).eval(), torch.rand(2, 3, 8, 8)
    kept: list[weakref.ref[torch.Tensor]] = []
    patterns = patterns_of_ones(model)
    hooks = [m.register_forward_hook(lambda *told: kept.append(weakref.ref(told[-1]))) for m in layers]
    names = [name, "guided_backprop"]  # rules that look at gates, and any other, in one pass
    pgig.attribute_all(names, model, x, 1, patterns=patterns, references=x)
    for hook in hooks:
        hook.remove()
    gc.collect()
    assert kept
    assert [one for one in kept if one() is not None] == []
