"""How many gradients integrated gradients need: residual and error of quadratures and of steps="auto".

`python benchmarks/convergence.py --images DIR --weights squeezenet1_0.safetensors`: SqueezeNet 1.0 on photographs. The
residual is |sum - change of the score| over that change; the error is against a reference of 1,000 midpoints. Gradients
on 257 places of a path are taken once per image, and quadratures are sums of them, or of their interpolation.
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib
import numpy
import torch
from measuring import machine, write
from numpy.typing import NDArray
from torch import Tensor

import pgig
from pgig.methods.quadrature import alphas_and_weights
from pgig.vision import Preprocess, load_model

matplotlib.use("Agg")
import matplotlib.pyplot as plt

TOLERANCES = (0.1, 0.05, 0.02, 0.01, 0.005)
STEPS = (3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96)
QUADRATURES = ("right", "midpoint", "trapezoid", "gauss-legendre")
PLACES, REFERENCE = 257, 1000


def slopes(model: torch.nn.Module, x: Tensor, target: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The score and its slope along the path, at PLACES."""
    alphas, score, slope = torch.linspace(0, 1, PLACES), [], []
    for some in alphas.split(8):
        leaf = (some[:, None, None, None] * x).contiguous(memory_format=torch.channels_last).requires_grad_()
        found = model(leaf).double().softmax(1)[:, target]
        (gradient,) = torch.autograd.grad(found.sum(), leaf)
        score.append(found.detach())
        slope.append((gradient * x).double().flatten(1).sum(1))
    return torch.cat(score).numpy(), torch.cat(slope).numpy()


def residual(quadrature: Any, steps: int, score: NDArray[Any], slope: NDArray[Any]) -> float:
    alphas, weights = alphas_and_weights(quadrature, steps)
    total = (weights * numpy.interp(alphas, numpy.linspace(0, 1, PLACES), slope)).sum()
    return float(abs(total - (score[-1] - score[0])) / abs(score[-1] - score[0]))


def needed(score: NDArray[Any], slope: NDArray[Any], quadrature: str, tolerance: float = 0.01) -> int:
    """The fewest steps from which on the residual stays within the tolerance."""
    off = [steps for steps in range(2, PLACES) if residual(quadrature, steps, score, slope) > tolerance]
    return max(off, default=1) + 1


def error(found: Tensor, reference: Tensor) -> float:
    return float((found - reference).norm() / reference.norm())


def main(images: Path, weights: Path, out: Path, count: int, with_error: int) -> None:
    model = load_model("squeezenet1_0", str(weights)).requires_grad_(False)
    fast = load_model("squeezenet1_0", str(weights)).requires_grad_(False).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    preprocess = Preprocess()
    files = sorted(path for path in images.iterdir() if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    files = files[:: max(1, len(files) // count)][:count]
    rows: dict[str, list[Any]] = {"steps": [], "residual": [], "auto": [], "error": []}
    for number, file in enumerate(files):
        x = preprocess.normalise(preprocess.pixels(file))[None]
        target = int(model(x).argmax())
        score, slope = slopes(fast, x, target)
        rows["steps"].append({q: needed(score, slope, q) for q in QUADRATURES})
        rows["residual"].append({q: [residual(q, s, score, slope) for s in STEPS] for q in QUADRATURES})
        auto = []
        for tolerance in TOLERANCES:
            spent: dict[str, list[int]] = {}
            found = pgig.attribute(
                "integrated_gradients", model, x, target, steps="auto", tolerance=tolerance, spent=spent
            )
            change = float(score[-1] - score[0])
            left = abs(float(pgig.completeness(found, model, x, target))) / abs(change)
            auto.append((spent["integrated_gradients"][0], left))
        rows["auto"].append(auto)
        if number < with_error:
            rows["error"].append(errors(model, x, target))
        print(f"{number + 1}/{len(files)}: right {rows['steps'][-1]['right']}, auto {auto[3][0]}", flush=True)
    report(rows, out)


def errors(model: torch.nn.Module, x: Tensor, target: int) -> dict[str, Any]:
    """Of integrated gradients, and of PGIG with patterns of random numbers around one, against many steps."""
    rng = torch.Generator().manual_seed(0)
    patterns = {
        name.removesuffix(".weight"): 1 + 0.3 * torch.randn(p.shape, generator=rng)
        for name, p in model.named_parameters()
        if name.endswith("weight")
    }
    found: dict[str, Any] = {}
    for method in ("integrated_gradients", "pgig"):
        asked: dict[str, Any] = {"patterns": patterns}
        reference = pgig.attribute(method, model, x, target, steps=REFERENCE, quadrature="midpoint", **asked)
        of = {}
        for quadrature in ("right", "midpoint"):
            for steps in (8, 16, 32, 64):
                at = pgig.attribute(method, model, x, target, steps=steps, quadrature=quadrature, **asked)
                of[f"{quadrature} {steps}"] = (steps, error(at, reference))
        for tolerance in (0.05, 0.01, 0.002):
            spent: dict[str, list[int]] = {}
            at = pgig.attribute(method, model, x, target, steps="auto", tolerance=tolerance, spent=spent, **asked)
            of[f"auto {tolerance}"] = (next(iter(spent.values()))[0], error(at, reference))
        found[method] = of
    return found


def report(rows: dict[str, list[Any]], out: Path) -> None:
    steps = {q: float(numpy.mean([row[q] for row in rows["steps"]])) for q in QUADRATURES}
    curves = {q: numpy.mean([row[q] for row in rows["residual"]], 0).tolist() for q in QUADRATURES}
    spent = numpy.mean([[n for n, _ in row] for row in rows["auto"]], 0).tolist()
    left = numpy.mean([[r for _, r in row] for row in rows["auto"]], 0).tolist()
    at_one = TOLERANCES.index(0.01)
    facts: dict[str, Any] = {
        "machine": machine(), "images": len(rows["steps"]), "steps for a residual of 1%, mean": steps,
        "auto": [
            {"tolerance": t, "gradients": n, "residual": r} for t, n, r in zip(TOLERANCES, spent, left, strict=True)
        ],
        "mean residual": {"steps": STEPS, **curves},
        "right / auto": steps["right"] / spent[at_one],
        "error": {
            method: {
                what: [float(v) for v in numpy.mean([row[method][what] for row in rows["error"]], 0)]
                for what in rows["error"][0][method]
            }
            for method in ("integrated_gradients", "pgig")
        } if rows["error"] else {},
        "images with errors": len(rows["error"]),
    }  # fmt: skip
    print(f"right needs {steps['right']:.1f} steps, auto {spent[at_one]:.1f}: {facts['right / auto']:.1f} times fewer")
    write(out / "convergence.json", facts)
    figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
    for quadrature in QUADRATURES:
        axes.loglog(STEPS, numpy.array(curves[quadrature]) * 100, marker=".", label=quadrature)
    axes.loglog(spent, numpy.array(left) * 100, marker="o", color="black", linewidth=2, label='steps="auto"')
    axes.axhline(1, color="grey", linewidth=0.8, linestyle=":")
    axes.set(xlabel="gradients", ylabel="completeness residual, % (mean)")
    axes.set_xticks([3, 6, 12, 25, 50, 100], ["3", "6", "12", "25", "50", "100"])
    axes.legend(frameon=False)
    figure.savefig(Path(__file__).parent.parent / "docs" / "images" / "convergence.png", dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--with-error", type=int, default=6)
    main(**vars(parser.parse_args()))
