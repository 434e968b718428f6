"""What measures cost: incremental against whole forward passes, and against Quantus: `python benchmarks/measures.py`.

Seconds are for one image by one method; measures that draw sets of patches score them once for all methods, and are
given as many methods as a run has. Quantus takes the same number of steps, sets or shares where it lets one choose;
where it does not run, the reason is recorded in place of a ratio. Its IROF and ROAD take grey images only, so they get
one, and the model repeats it; its SensitivityN correlates over images, so it gets two. It has no insertion, no SaCo and
no infidelity here.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import torch
from measuring import machine, ratio, take_turns, write
from torch import nn

from pgig.degradation import DenseEvaluator, Evaluator, scored_by
from pgig.degradation.dense import score_of
from pgig.incremental import IncrementalEvaluator, plan_of
from pgig.measures import Judge, Setting, judge_of
from pgig.records.measures import asked_measure
from pgig.subject.subject import Subject
from pgig.vision.models import MODELS

PATCH = 8  # Quantus wants patches that divide the image
LABELS = (
    "morf", "lerf", "deletion", "insertion", "deletion+unit=superpixel", "deletion+unit=pixel", "sensitivity_n",
    "sensitivity_n+sizes=1", "saco", "infidelity", "road",
)  # fmt: skip
WANTED = {"morf": 4, "lerf": 4, "deletion": 4, "insertion": 4}  # times as fast as dense, on SqueezeNet


def quantus_metrics() -> dict[str, Callable[[], Any]]:
    import quantus

    usual: dict[str, Any] = {"normalise": False, "abs": False, "disable_warnings": True, "display_progressbar": False}
    return {
        "morf": lambda: quantus.RegionPerturbation(
            patch_size=PATCH, regions_evaluation=100, order="morf", perturb_baseline="mean", **usual
        ),
        "lerf": lambda: quantus.RegionPerturbation(
            patch_size=PATCH, regions_evaluation=100, order="lerf", perturb_baseline="mean", **usual
        ),
        "deletion": lambda: quantus.RegionPerturbation(
            patch_size=16, regions_evaluation=196, order="morf", perturb_baseline="black", **usual
        ),
        "deletion+unit=pixel": lambda: quantus.PixelFlipping(
            features_in_step=224, perturb_baseline="black", **usual
        ),
        "deletion+unit=superpixel": lambda: quantus.IROF(segmentation_method="slic", perturb_baseline="mean", **usual),
        "road": lambda: quantus.ROAD(noise=0.01, percentages=[10, 20, 30, 40, 50, 70, 90], **usual),
        "sensitivity_n": lambda: quantus.SensitivityN(features_in_step=224, n_max_percentage=0.8, **usual),
        "sensitivity_n+sizes=1": lambda: quantus.FaithfulnessCorrelation(
            nr_runs=100, subset_size=int(0.8 * 224 * 224), perturb_baseline="mean", **usual
        ),
    }  # fmt: skip


class Grey(nn.Module):
    """The same network, for images of one channel."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> Any:
        return self.model(x.expand(-1, 3, -1, -1))


GREY = "deletion+unit=superpixel", "road"


def quantus_runs(model: nn.Module, x: Any, target: Any, attribution: Any) -> dict[str, Callable[[], object]]:
    def run(label: str, make: Callable[[], Any]) -> object:
        count = quantus_images(label)
        shown, asked = (x[:count, :1], Grey(model).eval()) if label in GREY else (x[:count], model)
        with torch.inference_mode():
            return make()(
                model=asked, x_batch=shown.numpy(), y_batch=target[:count].numpy(),
                a_batch=attribution[:count].numpy(), softmax=True, batch_size=count,
            )  # fmt: skip

    return {label: partial(run, label, make) for label, make in quantus_metrics().items()}


def quantus_images(label: str) -> int:
    return 2 if label == "sensitivity_n" else 1


def measure(network: str, rounds: int, images: int, methods: int, quantus: bool, some: list[str]) -> dict[str, Any]:
    torch.manual_seed(0)
    model = MODELS[network](network, 1000).eval().to(memory_format=torch.channels_last)
    smooth = nn.functional.interpolate(torch.randn(images, 3, 14, 14), size=(224, 224), mode="bicubic")
    x, target = smooth + 0.1 * torch.randn(images, 3, 224, 224), torch.zeros(images, dtype=torch.long)
    given = {f"{n}": torch.randn(images, 1, 224, 224).expand_as(x).contiguous() for n in range(methods)}
    plan = plan_of(model, x[:1])
    dense = DenseEvaluator(scored_by(model, "probability"), 4)
    windows = IncrementalEvaluator(plan, lambda out, of: score_of(out, of, "probability"), images * methods, dense)
    theirs = quantus_runs(model, x, target, given["0"][:, :1]) if quantus else {}
    results: dict[str, Any] = {}
    print(f"\n{network}\n\n| measure | dense / incremental | Quantus / incremental |\n| --- | --- | --- |", flush=True)
    subject = Subject.of(model)
    for label in some:
        judge = judge_of(asked_measure(label, {"patch": PATCH}))
        shares = "sensitivity_n" in label or "infidelity" in label  # all methods share what is scored
        few = {name: one[:1] for name, one in given.items() if shares or int(name) < 4}  # fills a dense batch
        contenders: dict[str, Callable[[], object]] = {
            "incremental": partial(judged, judge, windows, subject, x, target, given),
            "dense": partial(judged, judge, dense, subject, x[:1], target[:1], few),
        }
        pairs = {"incremental": images * methods, "dense": len(few), "Quantus": quantus_images(label)}
        failed = None
        if label in theirs:
            try:
                begin = time.perf_counter()
                theirs[label]()
                if time.perf_counter() - begin < 120:
                    contenders["Quantus"] = theirs[label]
                else:
                    failed = f"one image took {time.perf_counter() - begin:.0f} s"
            except Exception as error:  # recorded: a peer may fail in any way
                failed = f"{type(error).__name__}: {error}"[:200]
        seconds = {n: [s / pairs[n] for s in found] for n, found in take_turns(contenders, rounds, quiet=True).items()}
        found = {"dense / incremental": ratio(seconds, "dense", "incremental")}
        if "Quantus" in seconds:
            found["Quantus / incremental"] = ratio(seconds, "Quantus", "incremental")
        results[label] = {"seconds": seconds, "ratios": found, **({"Quantus failed": failed} if failed else {})}
        shown = f"{found['Quantus / incremental']['best']:.2f}" if "Quantus" in seconds else failed or ""
        print(f"| {label} | {found['dense / incremental']['best']:.2f} | {shown} |", flush=True)
    return results


def judged(judge: Judge, evaluator: Evaluator, subject: Subject, x: Any, target: Any, given: Any) -> object:
    # a new setting each time: it keeps what measures share
    return judge(subject, x, target, given, Setting(evaluator=evaluator))


def main(out: Path, networks: str, labels: str, **options: Any) -> None:
    library = torch.library.Library("torchvision", "DEF")  # whose operators may be missing beside a CPU build
    for name in ("nms", "qnms"):
        library.define(name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    numpy.trapz = numpy.trapezoid  # type: ignore[attr-defined]  # Quantus's IROF knows only the old name
    for network in networks.split(","):
        found = measure(network, some=labels.split(","), **options)
        write(out / f"measures-{network}.json", {"machine": machine(), "wanted": WANTED, "measures": found})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--networks", default="squeezenet1_0,resnet18")
    parser.add_argument("--labels", default=",".join(LABELS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--images", type=int, default=2)
    parser.add_argument("--methods", type=int, default=11)
    parser.add_argument("--quantus", action="store_true", help="also measure Quantus, which must be installed")
    main(**vars(parser.parse_args()))
