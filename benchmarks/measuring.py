"""Side by side in one run: contenders take turns, so that a slow minute of the machine is slow for all."""

import json
import platform
import random
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch


def take_turns(
    contenders: Mapping[str, Callable[[], object]], rounds: int, quiet: bool = False
) -> dict[str, list[float]]:
    """Seconds of each contender in each round, after a round that does not count.

    Their order is drawn anew for every round: who comes after whom finds other things in the caches.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    order = random.Random(0)
    for number in range(rounds + 1):
        for name in order.sample(list(contenders), len(contenders)):
            run = contenders[name]
            begin = time.perf_counter()
            run()
            took = time.perf_counter() - begin
            if number:
                seconds[name].append(took)
            if not quiet:
                print(f"  round {number}/{rounds}  {name:32s} {took:7.2f} s", flush=True)
    return seconds


def ratio(seconds: Mapping[str, list[float]], slow: str, fast: str) -> dict[str, float]:
    """How many times longer `slow` takes: of the best rounds, and the median over rounds."""
    by_round = [a / b for a, b in zip(seconds[slow], seconds[fast], strict=True)]
    return {"best": min(seconds[slow]) / min(seconds[fast]), "median": statistics.median(by_round)}


def machine() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "processor": _processor(),
    }


def write(path: Path, results: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n")
    print(f"wrote {path}")


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
