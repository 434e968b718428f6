"""Do shared joins help? Networks with branches, trained on the images with known truth, explained with patterns whose
joins are summed and shared: `python benchmarks/joins.py`.
"""

import argparse
from functools import partial
from pathlib import Path

from measuring import machine, write
from torch import Tensor, nn

import pgig
from pgig.network.trace import trace
from pgig.patterns.regimes import Joins, Regime
from pgig.statistics import compare
from pgig.synthetic.images import CLASSES, SETTINGS, samples
from pgig.synthetic.train import accuracy, train
from pgig.synthetic.truth import truth_test

WIDTHS = 24, 32, 48, 64
METHODS = "pattern_attribution", "pgig"
COLUMNS = "precision, |a|", "precision, a+", "mass, |a|", "mass, a+"
REGIMES: tuple[Regime, ...] = "auto", "linear"
JOINS: tuple[Joins, ...] = "summed", "shared"


class Block(nn.Module):
    """Branches of a convolution and a norm each, and the input itself, added: as MobileOne and RepVGG have them."""

    def __init__(self, width: int, branches: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width))
            for _ in range(branches)
        )

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for branch in self.branches:
            y = y + branch(x)
        return y.relu()


class Branching(nn.Module):
    def __init__(self, branches: int, blocks: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, width in zip((3, *WIDTHS), WIDTHS, strict=False):
            layers += [nn.Conv2d(before, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]
            layers += [Block(width, branches) for _ in range(blocks)]
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(WIDTHS[-1] * 16, len(CLASSES)))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.features(x))
        return scores


NETWORKS = {"residual, 8 joins": partial(Branching, 1, 2), "three branches, 24 joins": partial(Branching, 3, 2)}


def patterns(model: nn.Module, regime: Regime, joins: Joins, images: int = 800) -> pgig.Patterns:
    each = images // len(SETTINGS)
    batches = [samples(setting, each, purpose="patterns").x for setting in SETTINGS]
    return pgig.estimate_patterns(model, batches, regime, joins=joins)


def main(out: Path, steps: int, images: int) -> None:
    rows = []
    for name, make in NETWORKS.items():
        model = train(make, name, steps)
        reached = {setting: accuracy(model, setting, 300) for setting in SETTINGS}
        paths = trace(model, samples(next(iter(SETTINGS)), 1).x).paths
        print(f"{name}: {paths:.0f} paths, accuracy {reached}", flush=True)
        for regime in REGIMES:
            summed, shared = (patterns(model, regime, joins) for joins in JOINS)
            for setting in SETTINGS:
                tests = [
                    truth_test(setting, METHODS, model=model, images=images, patterns=p, examples=images)
                    for p in (summed, shared)
                ]
                for method in METHODS:
                    largest = [float(test.example_attributions[method].abs().max()) for test in tests]
                    row = {
                        "network": name, "regime": regime, "setting": setting, "method": method,
                        "largest |a|, summed": f"{largest[0]:.3g}", "largest |a|, shared": f"{largest[1]:.3g}",
                    }  # fmt: skip
                    for column in COLUMNS:
                        before, after = (test.scores[method][column] for test in tests)
                        difference = compare(after, before)
                        row[column] = f"{before.mean():.3f} -> {after.mean():.3f}" + (
                            " *" if difference.p < 0.01 else ""
                        )
                    print(row, flush=True)
                    rows.append(row)
    write(out / "joins.json", {"machine": machine(), "steps": steps, "images": images, "rows": rows})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--images", type=int, default=128)
    main(**vars(parser.parse_args()))
