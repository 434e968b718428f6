"""What the report of a very large run takes: `python benchmarks/large_report.py --images 50000`.

A run of generated numbers (sealed parts, as `pgig bench` writes them) is reported in a process of its own, whose seconds
and most memory are measured; then the page is opened in a browser. Parts are read by pyarrow, one after another: DuckDB
or Polars would read the same parquet files no faster, as most of the time goes into checking every part's seal and into
the figures, and neither would check the seals.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy
from measuring import machine, write

from pgig.records.config import config_digest, read_config, write_config
from pgig.records.measures import asked_measures
from pgig.records.part_files import write_records
from pgig.records.parts import Finished, parts_of

MEASURES = "morf,lerf,insertion,deletion,road,sensitivity_n,saco,infidelity,max_sensitivity,complexity"
METHODS = 16
SIZE = 224


def make(folder: Path, images: int) -> None:
    """Curves that fall from about one, a little faster by some methods; numbers that are a little larger by some."""
    rng = numpy.random.default_rng(0)
    asked = asked_measures(MEASURES, {})
    methods = [f"method_{n:02d}" for n in range(METHODS)]
    write_config(folder / "config.toml", {
        "images": {"count": images, "size": SIZE, "digest": "0"}, "model": {"model": "generated"},
        "attributions": {"methods": methods, "patch": 9},
        "degradation": {"score": "probability", "order_seed": 0, "scored": "predicted", "evaluator": "incremental"},
        "measures": {label: dict(one.constants) for label, one in asked.items()},
    })  # fmt: skip
    digest = config_digest(read_config(folder / "config.toml"))
    names = [f"val/ILSVRC2012_val_{n:08d}.JPEG" for n in range(images)]
    for part in parts_of(names):
        rows = []
        for label, one in asked.items():
            length = one.length(SIZE)
            drawn = rng.random((len(part.images), METHODS, length))
            if one.measure.steps:
                falls = numpy.exp(-numpy.arange(length) / length * (1 + numpy.arange(METHODS)[:, None] / METHODS))
                drawn = 0.8 * falls + 0.2 * drawn
            else:
                drawn = drawn + 0.02 * numpy.arange(METHODS)[:, None]
            rows += [
                {
                    "image": image, "method": method, "measure": label, "predicted": 1, "label": -1, "target": 1,
                    "intact": 0.9, "values": drawn[i, m].tolist(), "seconds": 0.5, "image_digest": "0" * 16,
                }
                for i, image in enumerate(part.images) for m, method in enumerate(methods)
            ]  # fmt: skip
        write_records(folder, part, Finished(rows, {}, {}, True), digest)


def opened(page: Path) -> float:
    """Seconds until a browser has the page and its script has drawn."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1400, "height": 900})
        begin = time.perf_counter()
        tab.goto(page.resolve().as_uri())
        tab.wait_for_selector(".explore svg path", state="attached")
        took = time.perf_counter() - begin
        browser.close()
    return took


def main(images: int, folder: Path, out: Path) -> None:
    run = folder / f"run-{images}"
    if not (run / "config.toml").exists() or len(list((run / "parts").glob("*.parquet"))) < -(-images // 8):
        make(run, images)
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-m", "pgig", "report", str(run), "--out", str(folder / "report")], check=True)
    seconds = time.perf_counter() - begin
    found = {
        "images": images, "methods": METHODS, "measures": len(MEASURES.split(",")), "seconds": seconds,
        "GB at most": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20,
        "GB of parts": sum(path.stat().st_size for path in (run / "parts").iterdir()) / 2**30,
        "MB of the page": (folder / "report" / "index.html").stat().st_size / 2**20,
        "seconds to open": opened(folder / "report" / "index.html"),
    }  # fmt: skip
    print(json.dumps(found, indent=2))
    write(out / "large-report.json", {"machine": machine(), **found})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=50000)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/large-report"))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    main(**vars(parser.parse_args()))
