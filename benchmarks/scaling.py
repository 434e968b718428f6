"""What the backend on Ray costs, and what the paper's experiment would: `python benchmarks/scaling.py`.

Workers that only sleep show what handing out parts costs: 64 real actors, and 256 as threads in 16 actors. They are
let go together once all are up, so that starting is not counted; efficiency is busy / (workers x wall). A run of
50,000 images by eleven methods, whose workers compute nothing, shows what the driver and the store hold. Two real
workers are compared with one of two threads. The cost of the paper's experiment is seconds per image, measured on one
core, by 50,000; what more cores would need is a projection from the measured efficiency.
"""

import argparse
import json
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from measuring import machine, write

from pgig.records.parts import Part
from pgig.runs.backends.events import Done, Worker
from pgig.runs.backends.handing import Handing
from pgig.runs.backends.ray import Ray, _Crew, _Hand
from pgig.runs.backends.ray_actor import Actor
from pgig.runs.backends.ray_cluster import connected
from pgig.runs.delivery import Delivered, received

IMAGES = 50_000
METHODS = 11


@dataclass(frozen=True)
class Sleeping:
    """Sleeps over every part; the first wait until all are up."""

    folder: Path
    workers: int
    seconds: float

    def __call__(self) -> Worker:
        tempfile.mkstemp(dir=self.folder)
        while len(list(self.folder.iterdir())) < self.workers:
            time.sleep(0.05)
        return self

    def run(self, part: Part) -> Any:
        begun = time.time()
        time.sleep(self.seconds)
        yield len(part.images)
        return begun, time.time()


class Threads(_Crew):
    """Several workers to an actor."""

    each = 16

    def _staff(self) -> None:
        if self._hands:
            return
        actors = []
        for number in range(self.count):
            if number % self.each == 0:
                made = self.ray.remote(Actor).options(num_cpus=0, max_concurrency=2 * self.each)
                actors.append(made.remote(number, "/tmp", [], self.scratch))
            actor = actors[-1]
            self._hands[number] = _Hand(actor, number, actor.load.remote(self._made), "loading")


def efficiency(workers: int, rounds: int, seconds: float, threads: bool) -> dict[str, float]:
    """Of workers that only sleep, so many parts each."""
    folder = Path(tempfile.mkdtemp(prefix="scaling-"))
    parts = [Part(number, ("image",)) for number in range(workers * rounds)]
    with connected(None, workers, 0, None) as (ray, scratch):
        crew = (Threads if threads else _Crew)(
            ray, Ray(workers=workers), Sleeping(folder, workers, seconds), Handing(parts), workers, str(scratch)
        )
        begun = time.time()
        done = [event.result for event in crew.events() if isinstance(event, Done)]
        crew.end()
    shutil.rmtree(folder)
    first, last = min(start for start, _ in done), max(end for _, end in done)
    busy = sum(end - start for start, end in done)
    return {
        "workers": workers, "parts": len(done), "seconds of a part": seconds, "start-up, seconds": first - begun,
        "efficiency": busy / (workers * (last - first)),
        "milliseconds of overhead a part": 1000 * (workers * (last - first) - busy) / len(done),
    }  # fmt: skip


@dataclass(frozen=True)
class Idle:
    """Gives what a part of the paper's experiment gives, without computing it."""

    content: Any

    def __call__(self) -> Worker:
        return self

    def run(self, part: Part) -> Any:
        yield len(part.images)
        rows = [
            {"image": image, "method": f"{m}", "measure": "morf", "values": [0.5] * 101}
            for image in part.images for m in range(METHODS)
        ]  # fmt: skip
        return Delivered(rows, {f"parts/{part.name}": self.content})


def held(images: int) -> dict[str, float]:
    """Memory of the driver, and what the store holds, at the beginning and the end of a run."""
    folder = Path(tempfile.mkdtemp(prefix="scaling-"))
    parts = [Part(n, tuple(f"{n}-{i}" for i in range(8))) for n in range(images // 8)]
    content = numpy.zeros(8 * METHODS * 101 * 8, numpy.uint8)  # a curve for every image and method
    found: dict[str, float] = {}
    with connected(None, 2, 0, None) as (ray, scratch):
        total = ray.cluster_resources()["object_store_memory"]
        crew = _Crew(ray, Ray(workers=2), Idle(content), Handing(parts), 2, str(scratch))
        begun, count = time.time(), 0
        for event in received(crew.events(), folder):
            if isinstance(event, Done):
                count += 1
                if count == 100:
                    found["driver after 100 parts, MB"] = _resident()
        found |= {
            "parts": count, "rows": count * 8 * METHODS, "seconds": time.time() - begun,
            "driver at the end, MB": _resident(),
            "driver at most, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "store in use at the end, MB": (total - ray.available_resources()["object_store_memory"]) / 2**20,
        }  # fmt: skip
        crew.end()
    shutil.rmtree(folder)
    return found


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def two_workers(images: Path, count: int) -> dict[str, float]:
    """Images a second of the default network under the paper's measure: two workers, and one with two threads."""
    found = {}
    for name, options in (
        ("one worker of two threads", {"backend": "serial", "cpus_per_worker": 2}),
        ("two workers on Ray", {"backend": "ray", "workers": 2}),
    ):
        found[f"{name}, images a second"] = _speed(images, count, options)
    one, two = found.values()
    return {**found, "two workers / two threads": two / one}


def _speed(images: Path, count: int, options: dict[str, Any]) -> float:
    from pgig.runs.benchmark import run_benchmark
    from pgig.runs.prepare import prepare
    from pgig.runs.request import Request
    from pgig.runs.where import Where
    from pgig.vision.models import default_preprocess

    out = Path(tempfile.mkdtemp(prefix="scaling-"))
    request = Request(
        model="efficientnet_lite0", images=images, limit=count, out=out, where=Where(**options),
        preprocess=default_preprocess("efficientnet_lite0", None),
        methods=("gradient", "integrated_gradients"),
    )  # fmt: skip
    standing = run_benchmark(prepare(request), lambda standing: None, _timed := Timed(request.where.made(None)))
    shutil.rmtree(out)
    assert standing.done == count
    return (count - _timed.first_images) / (_timed.last - _timed.first)


class Timed:
    """A backend, and when its first and its last part were done: what comes before is starting."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self.in_process, self.is_far = getattr(backend, "in_process", False), getattr(backend, "is_far", False)
        self.first = self.last = 0.0
        self.first_images = 0

    def map(self, make_worker: Callable[[], Worker], parts: Any) -> Any:
        workers = getattr(self._backend, "workers", 1) or 1
        done = 0
        for event in self._backend.map(make_worker, parts):
            if isinstance(event, Done):
                done, self.last = done + 1, time.time()
                if done == workers:  # all are at work
                    self.first, self.first_images = self.last, done * len(event.part.images)
            yield event


def costs(efficient: float) -> list[dict[str, Any]]:
    """Core-hours of the paper's experiment, by network, from seconds per image on one core."""
    import torch

    import pgig
    from pgig.degradation import Protocol, degrade
    from pgig.degradation.dense import score_of
    from pgig.incremental import IncrementalEvaluator, plan_of
    from pgig.vision.models import MODELS

    torch.set_num_threads(1)
    rows = []
    for network, size in (("squeezenet1_0", 224), ("efficientnet_lite0", 224), ("vgg16", 224)):
        torch.manual_seed(0)
        model, x = MODELS[network](network, 1000).eval(), torch.randn(1, 3, size, size)
        target = torch.tensor([0])
        seconds: dict[str, float] = {}
        for method in ("gradient", "integrated_gradients", "expected_gradients"):
            pgig.attribute(method, model, x, target, references=torch.randn(8, 3, size, size))
            begun = time.perf_counter()
            pgig.attribute(method, model, x, target, references=torch.randn(8, 3, size, size))
            seconds[method] = time.perf_counter() - begun
        # the paper's: three single gradients beside the plain one, two of 25 points, two paths beside, one of 625
        quick = 4 * seconds["gradient"] + 4 * seconds["integrated_gradients"] + seconds["expected_gradients"]
        smooth = 25 * seconds["integrated_gradients"]
        windows = IncrementalEvaluator(plan_of(model, x), lambda out, of: score_of(out, of, "probability"), METHODS)
        sums = {str(n): torch.randn(1, 24 * 24) for n in range(METHODS)}
        begun = time.perf_counter()
        degrade(windows, x, target, sums, Protocol(), ids=[0])
        scoring = time.perf_counter() - begun
        for name, each in (("all eleven", quick + smooth + scoring), ("without smoothgrad_ig", quick + scoring)):
            hours = each * IMAGES / 3600
            rows.append({
                "network": network, "methods": name, "seconds an image on one core": each, "core-hours": hours,
                **{f"hours on {cores} cores (projection)": hours / cores / efficient for cores in (16, 256, 1024)},
            })  # fmt: skip
            print(rows[-1], flush=True)
    return rows


PHASES = "handing", "held", "workers", "costs"


def main(out: Path, images: Path | None, quick: bool, phases: str) -> None:
    path = out / "scaling.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    found: dict[str, Any] = {**before, "machine": machine()}
    rounds, seconds = (2, 2.0) if quick else (5, 20.0)
    for phase in phases.split(","):
        if phase == "handing":
            for name, workers, threads in (("64 actors", 64, False), ("256 threads in 16 actors", 256, True)):
                found[name] = efficiency(workers, rounds, seconds, threads)
        elif phase == "held":
            found["held"] = held(800 if quick else IMAGES)
        elif phase == "workers" and images is not None:
            found["two workers"] = two_workers(images, 48)
        elif phase == "costs":
            found["costs"] = costs(found["64 actors"]["efficiency"])
        print(json.dumps(found, indent=2), flush=True)
        write(path, found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--images", type=Path, help="a folder of photographs, to compare two workers with two threads")
    parser.add_argument("--quick", action="store_true", help="parts of two seconds, and 800 images")
    parser.add_argument("--phases", default=",".join(PHASES), help="some of them; the rest stays as it was measured")
    main(**vars(parser.parse_args()))
