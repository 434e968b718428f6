"""The heat maps of docs/patterns.md: python docs/heatmaps.py SQUEEZENET.safetensors PATTERNS.safetensors IMAGE...

Photographs are not part of the project; the figure shows heat maps alone.
"""

import sys
from pathlib import Path

import pgig
from pgig.drawing.figures import show
from pgig.vision import Preprocess, load_model

METHODS = ["integrated_gradients", "pattern_attribution", "pgig"]


def main(weights: str, patterns: str, *images: str) -> None:
    model = load_model("squeezenet1_0", weights)
    found = pgig.Patterns.load(patterns)
    cells = {}
    for image in images:
        preprocess = Preprocess()
        x = preprocess.normalise(preprocess.pixels(image))[None]
        for name, a in pgig.attribute_all(METHODS, model, x, patterns=found).items():
            subject = Path(image).stem.split("_", 1)[-1].replace("_", " ")
            cells[f"{subject}\n{name.replace('_', ' ')}"] = a[0]
    show(cells, columns=len(METHODS), path=Path(__file__).parent / "images" / "patterns.png")


if __name__ == "__main__":
    main(*sys.argv[1:])
