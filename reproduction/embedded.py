"""The same questions on the embedded networks, whose images have a known truth."""

from pathlib import Path

import torch
from plan import ABLATIONS

from pgig.curves import auc
from pgig.degradation import DenseEvaluator, Protocol, degrade, scored_by
from pgig.methods import PAPER_METHODS
from pgig.report.tables import write_csv
from pgig.synthetic import embedded, embedded_patterns, truth_test
from pgig.synthetic.images import SETTINGS
from pgig.synthetic.metrics import COLUMNS

NETWORKS = "plain", "bn"
PROTOCOL = Protocol(patch=4, steps=40)
IMAGES = 100  # of each setting


def run_embedded(out: Path) -> None:
    """A table for each network and setting: image, method, area under the curve, and what the truth says of it."""
    # what is black is not defined for generated images
    variants = [name for name in ABLATIONS.split(",") if name not in PAPER_METHODS and "black" not in name]
    for network in NETWORKS:
        todo = [setting for setting in SETTINGS if not (out / f"{network}-{setting}.csv").exists()]
        if not todo:
            continue
        model = embedded(network)
        patterns = embedded_patterns(model)
        evaluator = DenseEvaluator(scored_by(model, "probability"), 32)
        for setting in todo:
            print(f"embedded network {network}, setting {setting}", flush=True)
            test = truth_test(
                setting, [*PAPER_METHODS, *variants], model=model, images=IMAGES, patterns=patterns, examples=IMAGES
            )
            x, label = test.examples.x, test.examples.label
            grid = PROTOCOL.grid(x)
            sums = {name: grid.sums(attribution) for name, attribution in test.example_attributions.items()}
            with torch.no_grad():
                curves = degrade(evaluator, x, label, sums, PROTOCOL, test.ids)
            rows = [
                [image, method, float(auc(curve[place].numpy())), *(test.scores[method][c][place] for c in COLUMNS)]
                for method, curve in curves.items()
                for place, image in enumerate(test.ids)
            ]
            write_csv(out / f"{network}-{setting}.csv", ["image", "method", "AUC", *COLUMNS], rows)
