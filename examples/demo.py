"""The paper's argument in two dimensions: python examples/demo.py --out demo

The model reads x1 - x2 and plateaus. x1 carries the signal z; both inputs carry the same noise (the distractor), which
the model must subtract. An explanation should follow the signal, also on the plateau, and leave the distractor alone.
"""

import argparse
from pathlib import Path

import numpy
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

import pgig

METHODS = {"integrated_gradients": "one", "pattern_attribution": "score", "pgig": "one"}


def stress_model() -> nn.Sequential:
    """y = 1 - ReLU(1 - (x1 - x2))."""
    model = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 1)).double()
    values = {"0.weight": [[-1.0, 1.0]], "0.bias": [1.0], "2.weight": [[-1.0]], "2.bias": [1.0]}
    model.load_state_dict({name: torch.tensor(value).double() for name, value in values.items()})
    return model.eval()


def stress_data() -> tuple[Tensor, Tensor]:
    """z, and x = (1, 0) z + (1, 1) noise."""
    noise = numpy.random.RandomState(42).normal(0, 0.3, 400)
    z = numpy.arange(-2, 2, 0.01)
    return torch.from_numpy(z), torch.from_numpy(numpy.stack([z + noise, noise], 1))


def stress_patterns(model: nn.Sequential, x: Tensor) -> dict[str, Tensor]:
    """p = (E+[x y] - E+[x] E[y]) / (w.(the same)), in the positive regime of the ReLU; the last layer is linear."""
    w, b = model[0].weight.detach(), model[0].bias.detach()
    y = x @ w[0]
    active = y + b > 0
    direction = (x * y[:, None])[active].mean(0) - x[active].mean(0) * y.mean()
    return {"0": (direction / (w[0] @ direction))[None], "2": 1 / model[2].weight.detach()}


def attributions(model: nn.Sequential, x: Tensor) -> dict[str, Tensor]:
    patterns = stress_patterns(model, x)
    options = {"patterns": patterns, "score": lambda y: y[:, 0]}
    return {name: pgig.attribute(name, model, x, start=start, **options) for name, start in METHODS.items()}


def figure(z: Tensor, y: Tensor, found: dict[str, Tensor]) -> Figure:
    drawing = Figure(figsize=(11, 3.6), layout="constrained")
    axes = drawing.subplots(1, len(found), sharey=True)
    for ax, (name, a) in zip(axes, found.items(), strict=True):
        ax.axvspan(1, 2, color="0.93", zorder=0)
        ax.text(1.5, -2.45, "plateau", ha="center", color="0.45", fontsize=9)
        ax.plot(z, a[:, 1], ".", color="#d55e00", markersize=3, label="attribution of x2, the distractor")
        ax.plot(z, a[:, 0], ".", color="#0072b2", markersize=3, label="attribution of x1, the signal")
        ax.plot(z, y, color="0.2", linewidth=1, label="model output y")
        ax.set_title(name.replace("_", " ") if name != "pgig" else "PGIG", fontsize=12)
        ax.set_xlabel("signal z")
        ax.set_xlim(-2, 2)
        ax.set_ylim(-2.7, 1.7)
        ax.spines[["top", "right"]].set_visible(False)
    handles, labels = axes[0].get_legend_handles_labels()
    drawing.legend(handles[::-1], labels[::-1], loc="outside lower center", ncols=3, frameon=False, markerscale=3)
    return drawing


def main(out: Path) -> None:
    model, (z, x) = stress_model(), stress_data()
    y = model(x)[:, 0].detach()
    found = attributions(model, x)
    plateau = x[:, 0] - x[:, 1] > 1
    print("The stress test of the paper. On the plateau the output is 1.\n")
    print(f"{'method':24s}{'signal, on the plateau':>24s}{'distractor, mean |a|':>24s}")
    for name, a in found.items():
        print(f"{name:24s}{a[plateau, 0].mean():24.3f}{a[:, 1].abs().mean():24.3f}")
    out.mkdir(parents=True, exist_ok=True)
    figure(z, y, found).savefig(out / "stress.png", dpi=150)
    print("\nIntegrated gradients blame the distractor, pattern attribution goes silent on the plateau,")
    print(f"PGIG does neither. The figure is in {out / 'stress.png'}.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder to write to")
    main(**vars(parser.parse_args()))
