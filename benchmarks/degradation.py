"""What degradation costs, against plain forward passes and Quantus: `python benchmarks/degradation.py`.

Contenders are compared by the seconds they take for one image by one method. The incremental evaluator is given as many
of those at once as a run gives it, and builds its caches anew each time. Quantus imports torchvision, whose compiled
operators may be missing beside a CPU build of torch: they are declared.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy
import torch
from measuring import machine, ratio, take_turns, write
from torch import Tensor, nn

from pgig.degradation import DenseEvaluator, PatchGrid, scored_by
from pgig.degradation.dense import score_of
from pgig.explainers.occlusion import Occlusion
from pgig.incremental import IncrementalEvaluator, plan_of
from pgig.vision.models import MODELS

WANTED = {"vgg16": ">= 8", "squeezenet1_0": ">= 4", "resnet50": ">= 2"}
PATCH = 8  # Quantus wants patches that divide the image


def plain_forwards(model: nn.Module, x: Tensor, passes: int, batch: int) -> None:
    """As many forward passes as there are replaced images, and nothing else."""
    some = x[:1].expand(batch, -1, -1, -1).contiguous(memory_format=torch.channels_last)
    with torch.inference_mode():
        for first in range(0, passes, batch):
            model(some[: min(batch, passes - first)])


def best_batch(model: nn.Module, x: Tensor) -> int:
    seconds = {}
    for batch in (1, 2, 4, 8, 16):
        plain_forwards(model, x, batch, batch)
        begin = time.perf_counter()
        plain_forwards(model, x, 16, batch)
        seconds[batch] = time.perf_counter() - begin
    print("seconds for 16 forward passes by batch size:", {b: round(s, 2) for b, s in seconds.items()})
    return min(seconds, key=lambda batch: seconds[batch])


def quantus_region_perturbation(steps: int) -> tuple[object, Callable[..., object]]:
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import quantus

    return library, quantus.RegionPerturbation(
        patch_size=PATCH, regions_evaluation=steps, order="morf", perturb_baseline="mean", normalise=False,
        disable_warnings=True, display_progressbar=False,
    )  # fmt: skip


def measure(
    network: str, rounds: int, steps: int, images: int, methods: int, some: int, batch: int | None, quantus: bool
) -> dict:
    torch.manual_seed(0)
    model = MODELS[network](network, 1000).eval().to(memory_format=torch.channels_last)
    grid = PatchGrid(224, 224, PATCH)
    x = torch.randn(images, 3, 224, 224)
    targets = torch.zeros(images, dtype=torch.long)
    attributions = torch.randn(images, methods, 224, 224)
    sums = torch.stack([grid.sums(attributions[:, number, None]) for number in range(methods)], 1)
    rankings = sums.argsort(2, descending=True)[:, :, :steps, None]
    filled = grid.means(x)
    batch = batch or best_batch(model, x)
    plan = plan_of(model, x[:1])
    dense = DenseEvaluator(scored_by(model, "probability"), batch)
    incremental = IncrementalEvaluator(plan, lambda output, of: score_of(output, of, "probability"), images * methods)
    pairs = {"incremental": images * methods, "dense": some, "forwards": some, "Quantus": some}
    contenders: dict[str, Callable[[], object]] = {
        "incremental": lambda: incremental.curves(x, filled, rankings, targets, grid),
        "dense": lambda: dense.curves(x[:some], filled[:some], rankings[:some, :1], targets[:some], grid),
        "forwards": lambda: plain_forwards(model, x, some * (steps + 1), batch),
    }
    if quantus:
        library, metric = quantus_region_perturbation(steps)
        arrays = x[:some].numpy(), targets[:some].numpy(), attributions[:some, :1].numpy()

        def run_quantus() -> object:
            with torch.inference_mode():
                return metric(
                    model=model, x_batch=arrays[0], y_batch=arrays[1], a_batch=arrays[2], softmax=True, batch_size=batch
                )

        contenders["Quantus"] = run_quantus
    seconds = {name: [s / pairs[name] for s in found] for name, found in take_turns(contenders, rounds).items()}
    plan.work = 0
    contenders["incremental"]()
    whole = pairs["incremental"] * (steps + 1)
    arithmetic = (plan.dense_work + plan.rest_work) * whole / (plan.work + plan.rest_work * whole)
    rows = {
        "dense / incremental": (ratio(seconds, "dense", "incremental"), WANTED.get(network, "")),
        "dense / forwards": (ratio(seconds, "dense", "forwards"), "<= 1.1"),
    }
    if quantus:
        wanted = ">= 9" if network == "vgg16" else ""
        rows["Quantus / incremental"] = (ratio(seconds, "Quantus", "incremental"), wanted)
        rows["Quantus / dense"] = (ratio(seconds, "Quantus", "dense"), "> 1")
        del library
    print(f"\n{network}: {steps} steps, dense batch {batch}, multiply-adds dense / incremental {arithmetic:.2f}")
    print("\n| ratio | best rounds | median of rounds | wanted |\n| --- | --- | --- | --- |")
    for name, (measured, wish) in rows.items():
        print(f"| {name} | {measured['best']:.2f} | {measured['median']:.2f} | {wish} |", flush=True)
    return {
        "steps": steps, "pairs at once": pairs["incremental"], "batch": batch, "arithmetic": arithmetic,
        "MB per pair": plan.bytes_per_row / 2**20, "seconds per pair": seconds,
        "ratios": {name: measured for name, (measured, _) in rows.items()},
    }  # fmt: skip


def measure_occlusion(network: str, rounds: int) -> dict:
    """One occlusion map against Captum's with the same windows, at its best number of windows at once."""
    from captum.attr import Occlusion as CaptumOcclusion

    torch.manual_seed(0)
    model = MODELS[network](network, 1000).eval().to(memory_format=torch.channels_last)
    x, target = torch.randn(1, 3, 224, 224), torch.tensor([0])
    batch = best_batch(model, x)
    ours = Occlusion()
    shape, strides = (3, ours.window, ours.window), (3, ours.stride, ours.stride)
    theirs = CaptumOcclusion(model)

    def captum() -> object:
        with torch.no_grad():
            return theirs.attribute(x, shape, strides, target=0, perturbations_per_eval=batch)

    contenders = {
        "occlusion": lambda: ours(model, x, target, "logit"),
        "whole": lambda: ours(model, x, target, "logit", incremental=False),
        "Captum": captum,
    }
    seconds = take_turns(contenders, rounds)
    rows = {f"{name} / occlusion": ratio(seconds, name, "occlusion") for name in ("Captum", "whole")}
    print(f"\n{network}: {len(ours.boxes(224, 224))} windows, Captum's batch {batch}")
    print("\n| ratio | best rounds | median of rounds |\n| --- | --- | --- |")
    for name, measured in rows.items():
        print(f"| {name} | {measured['best']:.2f} | {measured['median']:.2f} |", flush=True)
    return {"batch": batch, "seconds": seconds, "ratios": rows}


def main(out: Path, networks: str, occlusion: bool, **options: int) -> None:
    for network in networks.split(","):
        found = measure_occlusion(network, options["rounds"]) if occlusion else measure(network, **options)
        name = f"{'occlusion' if occlusion else 'degradation'}-{network}.json"
        write(out / name, {"machine": machine(), "numpy": numpy.__version__, **found})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--networks", default="squeezenet1_0,resnet50,vgg16")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--images", type=int, default=4)
    parser.add_argument("--methods", type=int, default=11)
    parser.add_argument("--some", type=int, default=4, help="images by one method for the slow contenders")
    parser.add_argument("--batch", type=int, help="of the dense contenders; without, the fastest")
    parser.add_argument("--occlusion", action="store_true", help="measure occlusion maps against Captum's instead")
    parser.add_argument("--quantus", action="store_true", help="also measure Quantus, which must be installed")
    main(**vars(parser.parse_args()))
