"""What a whole experiment costs: `python benchmarks/experiment.py`.

The paper's methods that Captum has explain ten images, and MoRF judges them: by Captum and Quantus (their own
classes, at their defaults but for the number of draws and steps), and by pgig, in turns image by image; what pgig
sets up once counts too. (smoothgrad_ig is left out: 625 gradients for either, against which nothing else would show.)
And the seconds of every method of pgig's table for an image, on every network of the study. Without photographs,
smooth noise.
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import captum.attr
import torch
from measures import PATCH, quantus_metrics
from measuring import machine, write
from torch import Tensor, nn

import pgig
from pgig.degradation import Protocol
from pgig.explainers.registry import explainers, known_explainers
from pgig.explainers.together import explain_group
from pgig.measures import Setting, judge
from pgig.measures.evaluators import Wish, choose
from pgig.subject.context import Context
from pgig.subject.subject import Subject
from pgig.synthetic import embedded
from pgig.synthetic.images import samples
from pgig.vision.models import default_preprocess, load_model
from pgig.vision.preprocess import Preprocess

METHODS = (
    "gradient", "gradient_x_input", "integrated_gradients", "smoothgrad_squared", "vargrad", "expected_gradients",
    "guided_backprop",
)  # fmt: skip
STEPS, SAMPLES, DRAWN, REFERENCES = 25, 25, 49, 8
WHOLE = "squeezenet1_0", "efficientnet_lite0"  # also by Captum and Quantus
NETWORKS = (*WHOLE, "efficientnet_lite2", "embedded-plain", "embedded-bn")


def by_captum(model: nn.Module, x: Tensor, target: Tensor, references: Tensor) -> dict[str, Tensor]:
    def tunnel(kind: str) -> Tensor:
        noisy = captum.attr.NoiseTunnel(captum.attr.Saliency(model))
        found: Tensor = noisy.attribute(
            x, target=target, nt_type=kind, nt_samples=SAMPLES, stdevs=0.15**0.5, abs=False
        )  # fmt: skip
        return found

    paths = captum.attr.IntegratedGradients(model)
    drawn = captum.attr.GradientShap(model)
    return {
        "gradient": captum.attr.Saliency(model).attribute(x, target=target, abs=False),
        "gradient_x_input": captum.attr.InputXGradient(model).attribute(x, target=target),
        "integrated_gradients": paths.attribute(x, target=target, n_steps=STEPS, method="riemann_right"),
        "smoothgrad_squared": tunnel("smoothgrad_sq"),
        "vargrad": tunnel("vargrad"),
        "expected_gradients": drawn.attribute(x, references, target=target, n_samples=DRAWN),
        "guided_backprop": captum.attr.GuidedBackprop(model).attribute(x, target=target),
    }


def theirs(model: nn.Module, x: Tensor, target: Tensor, references: Tensor) -> None:
    found = by_captum(nn.Sequential(model, nn.Softmax(1)), x.clone().requires_grad_(), target, references)
    for attribution in found.values():
        quantus_metrics()["morf"]()(
            model=model, x_batch=x.numpy(), y_batch=target.numpy(),
            a_batch=attribution.detach().sum(1, keepdim=True).numpy(), softmax=True, batch_size=1,
        )  # fmt: skip


def ours(evaluator: Any, model: nn.Module, x: Tensor, target: Tensor, references: Tensor) -> None:
    found = pgig.attribute_all(METHODS, model, x, target, references=references)
    judge(f"morf+patch={PATCH}", model, x, target, found, Setting(evaluator=evaluator))


def compared(network: str, given: "Given", images: int) -> dict[str, Any]:
    model, x, target, references = given.of(network, images + 1)
    begin = time.perf_counter()
    evaluator = choose(Wish(), model, x[:1], Protocol(patch=PATCH)).evaluator
    set_up = time.perf_counter() - begin
    contenders: Mapping[str, Callable[..., None]] = {"Captum and Quantus": theirs, "pgig": partial(ours, evaluator)}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for n in range(images + 1):  # the first does not count
        for name in list(contenders)[:: 1 if n % 2 else -1]:
            begin = time.perf_counter()
            contenders[name](model, x[n : n + 1], target[n : n + 1], references)
            if n:
                seconds[name].append(time.perf_counter() - begin)
        print(f"  {network}: image {n} of {images}", flush=True)
    ratio = sum(seconds["Captum and Quantus"]) / (set_up + sum(seconds["pgig"]))
    print(f"{network}: Captum and Quantus take {ratio:.2f} times as long")
    return {
        "images": images, "photographs": given.photographs is not None, "methods": METHODS, "seconds": seconds,
        "seconds of pgig's set-up": set_up, "ratio": ratio,
    }  # fmt: skip


def each_method(network: str, given: "Given", images: int) -> dict[str, float]:
    """Median seconds for an image by each method alone; which patterns there are changes nothing: the weights are."""
    model, x, target, references = given.of(network, images + 1)
    patterns = {
        name: layer.weight.detach().clone() for name, layer in model.named_modules()
        if isinstance(layer, nn.Conv2d | nn.Linear)
    }  # fmt: skip
    subject, found = Subject(model, patterns), {}
    for name in known_explainers():
        table, seconds = explainers([name]), []
        for n in range(images + 1):
            begin = time.perf_counter()
            explain_group(table, subject, x[n : n + 1], target[n : n + 1], Context(references=references))
            seconds.append(time.perf_counter() - begin)
        found[name] = median(seconds[1:])
        print(f"  {network}: {name:32s} {found[name]:7.2f} s", flush=True)
    return found


@dataclass(frozen=True)
class Given:
    """What is explained."""

    photographs: Path | None
    weights: str | None  # of SqueezeNet

    def of(self, network: str, images: int) -> tuple[nn.Module, Tensor, Tensor, Tensor]:
        """A network with images, classes and references."""
        torch.manual_seed(0)
        if network.startswith("embedded-"):
            model: nn.Module = embedded(network.removeprefix("embedded-"))  # type: ignore[arg-type]
            x = samples("suppressor", images + REFERENCES).x
        else:
            weights = (self.weights or "random") if network == "squeezenet1_0" else None
            model, preprocess = load_model(network, weights), default_preprocess(network, weights)
            x = self._pictures(preprocess, images + REFERENCES)
        with torch.no_grad():
            target = torch.cat([model(one).argmax(1) for one in x[:images].split(1)])
        return model, x[:images], target, x[images:]

    def _pictures(self, preprocess: Preprocess, count: int) -> Tensor:
        if self.photographs is None:
            smooth = nn.functional.interpolate(
                torch.randn(count, 3, 14, 14), size=(preprocess.size,) * 2, mode="bicubic"
            )
            return smooth + 0.1 * torch.randn_like(smooth)
        files = sorted(path for path in self.photographs.iterdir() if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
        chosen = files[:: max(1, len(files) // count)][:count]
        return torch.stack([preprocess.normalise(preprocess.pixels(path)) for path in chosen])


def measured_here(path: Path) -> dict[str, Any]:
    """The networks of an earlier run on the same machine, which stay."""
    known = json.loads(path.read_text()) if path.is_file() else {}
    return dict(known["networks"]) if known.get("machine") == machine() else {}


def main(out: Path, networks: str, images: int, alone: int, photographs: Path | None, weights: str | None) -> None:
    library = torch.library.Library("torchvision", "DEF")  # whose operators may be missing beside a CPU build
    for name in ("nms", "qnms"):
        library.define(name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    found, given = measured_here(out / "experiment.json"), Given(photographs, weights)
    for network in networks.split(","):
        whole = {"whole experiment": compared(network, given, images)} if network in WHOLE else {}
        found[network] = {**whole, "seconds of a method": each_method(network, given, alone)}
        write(out / "experiment.json", {"machine": machine(), "networks": found})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--images", type=int, default=10, help="of the whole experiment")
    parser.add_argument("--alone", type=int, default=2, help="images for each method alone")
    parser.add_argument("--photographs", type=Path, default=None, help="a folder of them")
    parser.add_argument("--weights", default=None, help="of SqueezeNet 1.0; without, random ones")
    main(**vars(parser.parse_args()))
