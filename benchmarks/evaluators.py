"""Does the cost model choose the faster evaluator? Expected and measured times side by side: `python
benchmarks/evaluators.py`. Networks of timm are measured too, where it is installed.
"""

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import torch
from measuring import machine, write
from torch import Tensor, nn

from pgig.degradation import DenseEvaluator, PatchGrid, scored_by
from pgig.degradation.dense import score_of
from pgig.incremental import IncrementalEvaluator, plan_of
from pgig.measures.evaluators import arithmetic_gain, expected_gain
from pgig.vision import load_model

PATCH, ROWS, STEPS, ROUNDS = 9, 16, 5, 3
OWN = "vgg11", "squeezenet1_0", "resnet18", "resnet50", "efficientnet_lite0"
TIMM = (
    "mobilenetv2_050", "mobilenetv3_small_050", "efficientnet_b0", "densenet121", "dla46_c", "repvgg_a0", "regnetx_002",
    "ghostnet_050", "convnext_atto", "lcnet_035", "resnet10t", "vovnet39a", "hrnet_w18_small", "fbnetc_100",
    "poolformer_s12",
)  # fmt: skip


def networks() -> dict[str, Callable[[], nn.Module]]:
    found: dict[str, Callable[[], nn.Module]] = {name: lambda name=name: load_model(name, "random") for name in OWN}  # type: ignore[misc]
    if find_spec("timm") is not None and find_spec("torchvision") is not None:
        found |= {name: lambda name=name: load_model(f"timm:{name}", "random") for name in TIMM}  # type: ignore[misc]
    return found


def seconds(run: Callable[[int], object]) -> float:
    """Of one step more: what comes before the first does not count."""
    run(1)
    found = []
    for _ in range(ROUNDS):
        times = []
        for steps in (1, STEPS):
            begin = time.perf_counter()
            run(steps)
            times.append(time.perf_counter() - begin)
        found.append((times[1] - times[0]) / (STEPS - 1))
    return min(found)


def measure(model: nn.Module, size: int = 224) -> dict[str, float]:
    torch.manual_seed(0)
    x, grid = torch.randn(ROWS // 2, 3, size, size), PatchGrid(size, size, PATCH)
    plan = plan_of(model, x[:1])
    orders = torch.stack([torch.randperm(len(grid))[: 2 * STEPS].reshape(2, STEPS, 1) for _ in range(len(x))])
    filled, targets = grid.means(x), torch.zeros(len(x), dtype=torch.long)
    windows = IncrementalEvaluator(plan, lambda output, of: score_of(output, of, "probability"), ROWS)
    whole = DenseEvaluator(scored_by(model.to(memory_format=torch.channels_last), "probability"), 4)  # type: ignore[call-overload]

    def dense(steps: int) -> Tensor:
        return whole.curves(x[:2], filled[:2], orders[:2, :, :steps], targets[:2], grid)

    measured = seconds(dense) / 4, seconds(lambda n: windows.curves(x, filled, orders[:, :, :n], targets, grid)) / ROWS
    return {
        "multiply-adds": arithmetic_gain(plan, grid), "expected": expected_gain(plan, grid),
        "measured": measured[0] / measured[1], "dense ms": 1e3 * measured[0], "window ms": 1e3 * measured[1],
    }  # fmt: skip


def main(out: Path) -> None:
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    rows = {}
    print("| network | multiply-adds | expected | measured | chosen |\n| --- | --- | --- | --- | --- |")
    for name, make in networks().items():
        found = rows[name] = measure(make())
        chosen = "incremental" if found["expected"] >= 1.1 else "dense"
        right = (chosen == "incremental") == (found["measured"] >= 1)
        told = [f"{found[key]:.2f}" for key in ("multiply-adds", "expected", "measured")]
        print(f"| {name} | {' | '.join(told)} | {chosen}{'' if right else ', the slower one'} |", flush=True)
    write(out / "evaluators.json", {"machine": machine(), "networks": rows})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    main(**vars(parser.parse_args()))
