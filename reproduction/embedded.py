"""The same questions on the embedded networks, whose images have a known truth."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from plan import ABLATIONS, CENTRED, DIGITS, FILLS, REGIMES, RELEASED
from torch import Tensor, nn

from pgig.degradation import DenseEvaluator, Protocol, degrade, scored_by
from pgig.methods.table import PAPER_METHODS
from pgig.patterns.patterns import Patterns
from pgig.records.tables import write_csv
from pgig.statistics import auc
from pgig.synthetic import TruthTest, embedded, embedded_patterns, truth_test
from pgig.synthetic.images import SETTINGS
from pgig.synthetic.metrics import COLUMNS

NETWORKS = "plain", "bn"
PAPER = Protocol(patch=4, steps=40)
PROTOCOLS = {
    "paper": PAPER,
    **{name: replace(PAPER, departure=name) for name in RELEASED},  # type: ignore[arg-type]
    **{name: replace(PAPER, fill=name) for name in FILLS},
}
IMAGES = 60  # of each setting
# what is black is not defined for generated images
VARIANTS = [name for name in ABLATIONS.split(",") if name not in PAPER_METHODS and "black" not in name]


def run_embedded(out: Path) -> None:
    """A table for each network and setting: areas under the curve by protocol, and what the truth says."""
    for network in NETWORKS:
        todo = [setting for setting in SETTINGS if not (out / f"{network}-{setting}.csv").exists()]
        if not todo:
            continue
        model = embedded(network)  # type: ignore[arg-type]
        auto, centred = (embedded_patterns(model, regime=regime) for regime in REGIMES)  # type: ignore[arg-type]
        for setting in todo:
            print(f"embedded network {network}, setting {setting}", flush=True)
            rows = rows_of(model, _explained(model, setting, [*PAPER_METHODS, *VARIANTS], auto))
            other = _explained(model, setting, ["pgig", "pattern_attribution"], centred)
            rows += [[image, f"{method}{CENTRED}", *rest] for image, method, *rest in rows_of(model, other)]
            write_csv(out / f"{network}-{setting}.csv", ["image", "method", *PROTOCOLS, *COLUMNS], rows)


def _explained(model: nn.Module, setting: str, methods: Sequence[str], patterns: Patterns) -> TruthTest:
    return truth_test(setting, methods, model=model, images=IMAGES, patterns=patterns, examples=IMAGES)


def rows_of(model: nn.Module, test: TruthTest) -> list[list[object]]:
    """Image, method, the area under the curve of every protocol, and every measure of the truth."""
    curves = {name: _curves(model, test, protocol) for name, protocol in PROTOCOLS.items()}
    return [
        [
            image, method, *(round(float(auc(found[method][place].numpy())), DIGITS) for found in curves.values()),
            *(round(float(test.scores[method][column][place]), DIGITS) for column in COLUMNS),
        ]
        for method in test.example_attributions
        for place, image in enumerate(test.ids)
    ]  # fmt: skip


def _curves(model: nn.Module, test: TruthTest, protocol: Protocol) -> dict[str, Tensor]:
    x, label = test.examples.x, test.examples.label
    grid = protocol.grid(x)
    sums = {name: grid.sums(attribution) for name, attribution in test.example_attributions.items()}
    evaluator = DenseEvaluator(scored_by(model, "probability"), 32)
    with torch.no_grad():
        return degrade(evaluator, x, label, sums, protocol, test.ids)
