"""What the page of `pgig explain` says of methods, from degradation runs of the same images on a named network:

`python benchmarks/quick_set.py runs/one runs/other --model efficientnet_lite0` writes src/pgig/report/benchmarked.json.
"""

import argparse
import itertools
import json
from pathlib import Path

import numpy

from pgig.report.run import Run
from pgig.statistics import auc

TARGET = Path(__file__).parents[1] / "src" / "pgig" / "report" / "benchmarked.json"


def main(runs: list[Path], model: str, network: str) -> None:
    areas: dict[str, numpy.ndarray] = {}
    images: set[tuple[str, ...]] = set()
    digests: set[str] = set()
    for folder in runs:
        run = Run.read(folder)
        assert run.is_complete, f"{folder} is not finished"
        images.add(tuple(run.images))
        digests.add(run.config["model"]["weights_digest"])
        areas |= {method: auc(curves) for method, curves in run.curves.items()}
    assert len(images) == len(digests) == 1, "these runs are of different images or weights"
    (names,), (digest,) = images, digests
    errors = [numpy.std(areas[a] - areas[b], ddof=1) / len(names) ** 0.5 for a, b in itertools.combinations(areas, 2)]
    means = {method: round(float(values.mean()), 4) for method, values in areas.items()}
    known = json.loads(TARGET.read_text())
    known[model] = {
        "network": network, "weights_digest": digest, "images": len(names),
        "areas": dict(sorted(means.items(), key=lambda item: item[1])),
        "spread": round(float(numpy.median(errors)), 4),
    }  # fmt: skip
    TARGET.write_text(json.dumps(known, indent=2) + "\n")
    for method, area in known[model]["areas"].items():
        print(f"{method:40s} {area:.3f}")
    print(f"a typical standard error of a difference: {known[model]['spread']:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--model", default="efficientnet_lite0")
    parser.add_argument("--network", default="EfficientNet-Lite0")
    main(**vars(parser.parse_args()))
