"""What explanations cost, against the floor and against Captum, on many networks: `python benchmarks/attribution.py`.

Contenders take turns, so that a slow minute of the machine is slow for all; ratios are medians over rounds.
"""

import argparse
import itertools
import json
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import captum.attr
import torch
from measuring import machine, ratio, take_turns, write
from torch import Tensor, nn
from vision_transformer import vit_small

import pgig
import pgig.captum
from pgig.vision import MODELS

STEPS, TARGET = 25, 3


def small_convnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 64, 10),
    )  # fmt: skip


# name -> how to make it, image size, images at once
NETWORKS: dict[str, tuple[Callable[[], nn.Module], int, int]] = {
    "VGG-16 at 224": (lambda: MODELS["vgg16"]("vgg16", 1000), 224, 1),
    "ResNet-18 at 224": (lambda: MODELS["resnet18"]("resnet18", 1000), 224, 1),
    "ResNet-50 at 224": (lambda: MODELS["resnet50"]("resnet50", 1000), 224, 1),
    "SqueezeNet 1.0 at 224": (lambda: MODELS["squeezenet1_0"]("squeezenet1_0", 1000), 224, 1),
    "EfficientNet-Lite0 at 224": (lambda: MODELS["efficientnet_lite0"]("efficientnet_lite0", 1000), 224, 1),
    "ResNet-18 at 112": (lambda: MODELS["resnet18"]("resnet18", 1000), 112, 1),
    "ViT-S/16 at 224": (vit_small, 224, 1),
    "small convnet at 32": (small_convnet, 32, 1),
    "small convnet at 32, 16 images": (small_convnet, 32, 16),
}
SMALL = {"ResNet-18 at 224", "small convnet at 32"}
OCCLUDED = {"ResNet-18 at 224", "SqueezeNet 1.0 at 224", "small convnet at 32"}


def passes(model: nn.Module, x: Tensor, batch: int, channels_last: bool) -> None:
    """STEPS forward and input-only backward passes of every image, in chunks of `batch`."""
    inputs = x.repeat_interleave(STEPS, 0)
    inputs = inputs.contiguous(memory_format=torch.channels_last) if channels_last else inputs
    for chunk in inputs.split(batch):
        leaf = chunk.detach().requires_grad_()
        torch.autograd.grad(model(leaf)[:, TARGET].sum(), leaf)


def best(candidates: list[Any], run: Callable[[Any], object]) -> Any:
    """The candidate with the shortest of two runs."""
    seconds: dict[Any, float] = {}
    for one in candidates * 2:
        begin = time.perf_counter()
        run(one)
        seconds[one] = min(seconds.get(one, float("inf")), time.perf_counter() - begin)
    return min(seconds, key=lambda one: seconds[one])


def contenders(name: str, model: nn.Module, x: Tensor) -> dict[str, Callable[[], object]]:
    fast = {False: NETWORKS[name][0]().eval().requires_grad_(False)}
    fast[True] = NETWORKS[name][0]().eval().requires_grad_(False).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    count = len(x)
    # what keeps more than a gigabyte was never the fastest
    tried = (3, 5, 8) if x.shape[-1] > 200 else (5, 8, 13, 25, 100, 400)
    sizes = [size for size in tried if size <= STEPS * count]
    floor = best(list(itertools.product(sizes, (False, True))), lambda how: passes(fast[how[1]], x, *how))
    peer = captum.attr.IntegratedGradients(model)
    told = {"target": TARGET, "n_steps": STEPS}
    at_best = best(
        [size for size in sizes if size >= count], lambda s: peer.attribute(x, internal_batch_size=s, **told)
    )
    print(f"{name}: floor at batch {floor[0]}{', channels_last' if floor[1] else ''}; Captum at {at_best}", flush=True)
    found: dict[str, Callable[[], object]] = {
        "floor": lambda: passes(fast[floor[1]], x, *floor),
        "IG": lambda: pgig.attribute("integrated_gradients", model, x, TARGET, score="logit"),
        "Captum IG, defaults": lambda: peer.attribute(x, **told),
        "Captum IG, best batch": lambda: peer.attribute(x, internal_batch_size=at_best, **told),
    }
    if name in SMALL:
        ours, theirs = pgig.captum, captum.attr
        tunnel, paths = {"nt_samples": 25, "target": TARGET}, {"nt_samples": 5, "target": TARGET, "n_steps": 10}
        found |= {
            "Saliency": lambda: ours.Saliency(model).attribute(x, target=TARGET),
            "Captum Saliency": lambda: theirs.Saliency(model).attribute(x, target=TARGET),
            "GuidedBackprop": lambda: ours.GuidedBackprop(model).attribute(x, target=TARGET),
            "Captum GuidedBackprop": lambda: theirs.GuidedBackprop(model).attribute(x, target=TARGET),
            "NoiseTunnel(Saliency)": lambda: ours.NoiseTunnel(ours.Saliency(model)).attribute(x, **tunnel),
            "Captum NoiseTunnel(Saliency)": lambda: theirs.NoiseTunnel(theirs.Saliency(model)).attribute(x, **tunnel),
            "NoiseTunnel(IG)": lambda: ours.NoiseTunnel(ours.IntegratedGradients(model)).attribute(x, **paths),
            "Captum NoiseTunnel(IG)": lambda: theirs.NoiseTunnel(theirs.IntegratedGradients(model)).attribute(
                x, **paths
            ),
        }
    return found


def occlusions(name: str, model: nn.Module, x: Tensor) -> dict[str, Callable[[], object]]:
    window = (3, 16, 16) if x.shape[-1] > 100 else (3, 4, 4)
    strides = (3, 16, 16) if x.shape[-1] > 100 else (3, 2, 2)
    call = {"sliding_window_shapes": window, "strides": strides, "target": TARGET}
    peer = captum.attr.Occlusion(model)
    at_best = best([1, 4, 16, 64], lambda size: peer.attribute(x, perturbations_per_eval=size, **call))
    return {
        "Occlusion": lambda: pgig.captum.Occlusion(model).attribute(x, **call),
        "Captum Occlusion": lambda: peer.attribute(x, perturbations_per_eval=at_best, **call),
    }


def set_up_cost() -> dict[str, float]:
    """Microseconds of a call beyond its passes, on a network that does next to nothing."""
    model = nn.Sequential(nn.Linear(4, 3)).eval()
    x = torch.randn(1, 4)

    def bare() -> None:
        leaf = x.clone().requires_grad_()
        torch.autograd.grad(model(leaf)[:, 1].sum(), leaf)

    calls = {
        "bare": bare,
        "pgig.attribute": lambda: pgig.attribute("gradient", model, x, 1, score="logit"),
        "pgig.captum.Saliency": lambda: pgig.captum.Saliency(model).attribute(x, target=1),
        "captum Saliency": lambda: captum.attr.Saliency(model).attribute(x, target=1),
    }
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(400):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - begin)
    bare_seconds = statistics.median(seconds["bare"])
    return {name: 1e6 * (statistics.median(s) - bare_seconds) for name, s in seconds.items() if name != "bare"}


RATIOS = (
    ("IG / floor", "IG", "floor"),
    ("Captum at its defaults / IG", "Captum IG, defaults", "IG"),
    ("Captum at its best batch / IG", "Captum IG, best batch", "IG"),
    ("Captum Saliency / ours", "Captum Saliency", "Saliency"),
    ("Captum GuidedBackprop / ours", "Captum GuidedBackprop", "GuidedBackprop"),
    ("Captum NoiseTunnel(Saliency) 25 / ours", "Captum NoiseTunnel(Saliency)", "NoiseTunnel(Saliency)"),
    ("Captum NoiseTunnel(IG) 5 x 10 / ours", "Captum NoiseTunnel(IG)", "NoiseTunnel(IG)"),
    ("Captum Occlusion at its best batch / ours", "Captum Occlusion", "Occlusion"),
)


def main(out: Path, rounds: int, only: str) -> None:
    warnings.simplefilter("ignore")  # Captum says that it sets requires_grad and hooks
    before = json.loads((out / "attribution.json").read_text()) if only else {}
    ratios: dict[str, dict[str, dict[str, float]]] = before.get("ratios", {label: {} for label, _, _ in RATIOS})
    seconds: dict[str, Any] = before.get("median seconds", {})
    for name, (make, size, count) in NETWORKS.items():
        if only not in name:
            continue
        torch.manual_seed(0)
        model, x = make().eval(), torch.randn(count, 3, size, size)
        repeats = rounds * (20 if "small" in name else 1)
        took = take_turns(contenders(name, model, x), repeats, quiet=True)
        if name in OCCLUDED:
            took |= take_turns(occlusions(name, model, x), max(5, repeats // 4), quiet=True)
        seconds[name] = {what: statistics.median(values) for what, values in took.items()}
        for label, slow, quick in RATIOS:
            if slow in took and quick in took:
                ratios[label][name] = ratio(took, slow, quick)
                print(f"  {label}: {ratios[label][name]['median']:.2f}", flush=True)
    cost = set_up_cost()
    print("microseconds a call beyond its passes:", {name: round(value) for name, value in cost.items()})
    facts = {"machine": machine(), "rounds": rounds, "ratios": ratios, "median seconds": seconds, "set-up": cost}
    write(out / "attribution.json", facts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="networks whose name holds this; the others stay as they were")
    main(**vars(parser.parse_args()))
