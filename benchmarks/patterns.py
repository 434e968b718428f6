"""What estimating patterns of VGG-16 costs, against the plain forward pass and against unfolding:
`python benchmarks/patterns.py`.
"""

import argparse
import multiprocessing
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from measuring import machine, ratio, take_turns, write
from torch import Tensor, nn

from pgig.patterns.estimator import Estimator
from pgig.vision.architectures.vgg import VGG, vgg


def forward(model: VGG, x: Tensor) -> None:
    with torch.no_grad():
        model(x)


def unfolded(model: VGG, x: Tensor, sums: dict[int, list[Tensor]], accurate: bool) -> None:
    """The way of older implementations: every convolution's windows written out for the whole batch.

    `accurate` brings it to the accuracy of the moments: means subtracted first, and sums in float64.
    """
    with torch.no_grad():
        for number, module in enumerate([*model.features, *model.classifier]):
            if isinstance(module, nn.Conv2d):
                windows = F.unfold(x, 3, padding=1).transpose(0, 1).flatten(1)
                y = module(x)
                rows = y.transpose(0, 1).flatten(1)
            elif isinstance(module, nn.Linear):
                x = x.flatten(1)
                windows, y = x.T.clone(), module(x)
                rows = y.T
            else:
                x = module(x)
                continue
            mask = (rows > 0).float()
            if accurate:
                windows -= windows.mean(1, keepdim=True)
                rows = rows - rows.mean(1, keepdim=True)
            new = [(rows * mask) @ windows.T, mask @ windows.T]
            new = [part.double() for part in new] if accurate else new
            if number in sums:
                for total, part in zip(sums[number], new, strict=True):
                    total += part
            else:
                sums[number] = new
            x = y


def _peak(way: str, batch: int, batches: int, queue: "multiprocessing.Queue[int]") -> None:
    torch.manual_seed(0)
    model, x = vgg("vgg16").eval(), torch.randn(batch, 3, 224, 224)
    estimator, sums = Estimator(model), dict[str, Any]()
    forward(model, x)
    before = _high_water()
    for _ in range(batches):
        estimator.update(x) if way == "moments" else unfolded(model, x, sums, "accurate" in way)
    queue.put(_high_water() - before)


def _high_water() -> int:
    """Kilobytes. (getrusage would count the parent's memory too.)"""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def peak(way: str, batch: int, batches: int = 1) -> int:
    """Megabytes beyond a plain forward pass, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    queue: multiprocessing.Queue[int] = context.Queue()
    process = context.Process(target=_peak, args=(way, batch, batches, queue))
    process.start()
    process.join()
    return queue.get() // 1024


def main(out: Path, rounds: int, batch: int) -> None:
    torch.manual_seed(0)
    model = vgg("vgg16").eval()
    fast = vgg("vgg16").eval().to(memory_format=torch.channels_last)
    x = torch.randn(batch, 3, 224, 224)
    estimator, sums, coarse = Estimator(model), dict[str, Any](), dict[str, Any]()
    channels_last = x.contiguous(memory_format=torch.channels_last)
    seconds = take_turns(
        {
            "forward": lambda: forward(fast, channels_last),
            "moments": lambda: estimator.update(x),
            "unfolding, as accurate": lambda: unfolded(model, x, sums, accurate=True),
            "unfolding, uncentred in float32": lambda: unfolded(model, x, coarse, accurate=False),
        },
        rounds,
    )
    sizes = sum(p.numel() for p in model.parameters()) * 8 * 2 // 2**20
    memory = {"moments": peak("moments", batch), "moments, 4 batches": peak("moments", batch, 4)}
    memory |= {way: peak(way, batch) for way in ("unfolding, as accurate", "unfolding, uncentred in float32")}
    rows = {
        "moments / forward": (ratio(seconds, "moments", "forward"), "<= 4"),
        **{f"{way} / moments": (ratio(seconds, way, "moments"), ">= 3") for way in seconds if "unfolding" in way},
    }
    print("\n| ratio | best rounds | median of rounds | wanted |\n| --- | --- | --- | --- |")
    for name, (measured, wanted) in rows.items():
        print(f"| {name} | {measured['best']:.2f} | {measured['median']:.2f} | {wanted} |")
    print("\n| extra peak memory (MB) | |\n| --- | --- |")
    for name, megabytes in memory.items():
        print(f"| {name} | {megabytes} |")
    print(f"\nof the moments' memory, the float64 sums themselves are {sizes} MB, whatever the number of images")
    write(
        out / "patterns.json",
        {"machine": machine(), "batch": batch, "seconds": seconds, "memory": memory, "sums": sizes,
         "ratios": {name: measured for name, (measured, _) in rows.items()}},
    )  # fmt: skip


if __name__ == "__main__":
    begin = time.perf_counter()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=8)
    main(**vars(parser.parse_args()))
    print(f"took {time.perf_counter() - begin:.0f} s")
