"""What degradation costs, against plain forward passes and Quantus: `python benchmarks/degradation.py`.

Quantus imports torchvision, whose compiled operators may be missing beside a CPU build of torch: they are declared.
"""

import argparse
import time
from pathlib import Path

import numpy
import torch
from measuring import machine, ratio, take_turns, write
from torch import Tensor

from pgig.degradation import DenseEvaluator, Protocol, degrade, scored_by
from pgig.vision.models import MODELS


def plain_forwards(model: torch.nn.Module, x: Tensor, passes: int, batch: int) -> None:
    """As many forward passes as there are replaced images, and nothing else."""
    some = x[:1].expand(batch, -1, -1, -1).contiguous(memory_format=torch.channels_last)
    with torch.inference_mode():
        for first in range(0, passes, batch):
            model(some[: min(batch, passes - first)])


def best_batch(model: torch.nn.Module, x: Tensor) -> int:
    seconds = {}
    for batch in (1, 2, 4, 8, 16, 32):
        plain_forwards(model, x, batch, batch)
        begin = time.perf_counter()
        plain_forwards(model, x, 32, batch)
        seconds[batch] = time.perf_counter() - begin
    print("seconds for 32 forward passes by batch size:", {b: round(s, 2) for b, s in seconds.items()})
    return min(seconds, key=lambda batch: seconds[batch])


def quantus_region_perturbation(patch: int, steps: int) -> object:
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import quantus

    return library, quantus.RegionPerturbation(
        patch_size=patch, regions_evaluation=steps, order="morf", perturb_baseline="mean", normalise=False,
        disable_warnings=True, display_progressbar=False,
    )  # fmt: skip


def main(out: Path, rounds: int, steps: int, images: int, network: str, quantus: bool) -> None:
    torch.manual_seed(0)
    model = MODELS[network](network, 1000).eval().to(memory_format=torch.channels_last)
    x = torch.randn(images, 3, 224, 224)
    targets = torch.zeros(images, dtype=torch.long)
    protocol = Protocol(patch=8, steps=steps)  # Quantus wants patches that divide the image
    attributions = torch.randn(images, 1, 224, 224)
    sums = {"method": protocol.grid(x).sums(attributions)}
    batch = best_batch(model, x)
    evaluator = DenseEvaluator(scored_by(model, "probability"), batch)
    contenders = {
        "forwards": lambda: plain_forwards(model, x, images * (steps + 1), batch),
        "dense": lambda: degrade(evaluator, x, targets, sums, protocol, range(images)),
    }
    if quantus:
        _library, metric = quantus_region_perturbation(8, steps)
        arrays = x.numpy(), targets.numpy(), attributions.numpy()

        def run_quantus() -> None:
            with torch.inference_mode():
                metric(
                    model=model, x_batch=arrays[0], y_batch=arrays[1], a_batch=arrays[2], softmax=True, batch_size=batch
                )

        contenders["Quantus"] = run_quantus
    seconds = take_turns(contenders, rounds)
    rows = {"dense / forwards": (ratio(seconds, "dense", "forwards"), "<= 1.1")}
    if quantus:
        rows["Quantus / dense"] = (ratio(seconds, "Quantus", "dense"), "> 1")
    print(f"\n{network}, {images} images, {steps} steps, batch {batch}")
    print("\n| ratio | best rounds | median of rounds | wanted |\n| --- | --- | --- | --- |")
    for name, (measured, wanted) in rows.items():
        print(f"| {name} | {measured['best']:.3f} | {measured['median']:.3f} | {wanted} |")
    write(
        out / f"degradation-{network}.json",
        {"machine": machine(), "network": network, "images": images, "steps": steps, "batch": batch,
         "seconds": seconds, "ratios": {name: measured for name, (measured, _) in rows.items()},
         "numpy": numpy.__version__},
    )  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--images", type=int, default=4)
    parser.add_argument("--network", default="squeezenet1_0")
    parser.add_argument("--quantus", action="store_true", help="also measure Quantus, which must be installed")
    main(**vars(parser.parse_args()))
