"""What methods cost together, and PGIG beside integrated gradients: `python benchmarks/fused_methods.py`."""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch
from measuring import machine, ratio, take_turns, write
from torch import Tensor, nn

import pgig
from pgig.vision import MODELS

STEPS, TARGET = 25, 3
FUSED = [
    "gradient", "gradient_x_input", "integrated_gradients", "vargrad", "smoothgrad_squared", "guided_backprop",
    "pattern_attribution", "pgig",
]  # fmt: skip


def passes(model: nn.Module, x: Tensor, batch: int) -> tuple[float, float]:
    """Seconds of STEPS forward and input-only backward passes in sustained chunks of `batch`."""
    forward = backward = 0.0
    inputs = x.expand(STEPS, -1, -1, -1).contiguous(memory_format=torch.channels_last)
    for chunk in inputs.chunk(-(-STEPS // batch)):
        leaf = chunk.detach().requires_grad_()
        begin = time.perf_counter()
        score = model(leaf)[:, TARGET].sum()
        middle = time.perf_counter()
        torch.autograd.grad(score, leaf)
        forward += middle - begin
        backward += time.perf_counter() - middle
    return forward, backward


def best(what: str, candidates: list[int], run: Callable[[int], object]) -> int:
    """The batch size with the shortest of two runs."""
    seconds: dict[int, float] = {}
    for size in candidates * 2:
        begin = time.perf_counter()
        run(size)
        seconds[size] = min(seconds.get(size, float("inf")), time.perf_counter() - begin)
    print(f"{what}: {', '.join(f'{size}: {took:.2f} s' for size, took in seconds.items())}", flush=True)
    return min(seconds, key=lambda size: seconds[size])


def main(out: Path, rounds: int, network: str) -> None:
    torch.manual_seed(0)
    model = MODELS[network](network, 1000).eval()
    fast = MODELS[network](network, 1000).eval().requires_grad_(False).to(memory_format=torch.channels_last)
    x = torch.randn(1, 3, 224, 224)
    patterns = {
        name.removesuffix(".weight"): torch.randn_like(p)
        for name, p in model.named_parameters()
        if name.endswith("weight")
    }
    split: list[tuple[float, float]] = []
    floor_batch = best("floor, seconds by batch size", [1, 2, 3, 5, 8], lambda size: passes(fast, x, size))

    def ours(*names: str) -> Callable[[], object]:
        return lambda: pgig.attribute_all(list(names), model, x, TARGET, patterns=patterns, score="logit")

    contenders = {
        "floor": lambda: split.append(passes(fast, x, floor_batch)),
        "ig": ours("integrated_gradients"),
        "pgig": ours("pgig"),
        "ig and pgig": ours("integrated_gradients", "pgig"),
        "eight fused": ours(*FUSED),
        "eight one by one": lambda: [ours(name)() for name in FUSED],
    }
    seconds = take_turns(contenders, rounds)
    forward, backward = (min(part[i] for part in split[1:]) for i in (0, 1))
    expected = (forward + 2 * backward) / (forward + backward)
    together = ratio(seconds, "ig and pgig", "ig")
    rows = {
        "PGIG / IG": (ratio(seconds, "pgig", "ig"), "<= 1.10"),
        f"(IG and PGIG) / IG, over (F+2B)/(F+B) = {expected:.2f}": (
            {key: value / expected for key, value in together.items()},
            "<= 1.05",
        ),
        "eight one by one / eight fused": (ratio(seconds, "eight one by one", "eight fused"), ">= 1.5"),
    }
    print("\n| ratio | best rounds | median of rounds | wanted |\n| --- | --- | --- | --- |")
    for name, (measured, wanted) in rows.items():
        print(f"| {name} | {measured['best']:.3f} | {measured['median']:.3f} | {wanted} |")
    write(
        out / f"fused-{network}.json",
        {
            "network": network,
            "machine": machine(),
            "floor batch": floor_batch,
            "seconds": seconds,
            "ratios": {name: measured for name, (measured, _) in rows.items()},
        },
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--network", default="vgg16", choices=MODELS)
    main(**vars(parser.parse_args()))
