"""What the report of a very large run takes: `python benchmarks/large_report.py --images 50000`.

A run of generated numbers (sealed parts, as `pgig bench` writes them) is reported in a process of its own, whose
seconds and most memory are measured; then the page is opened in a browser. With `--engines`, the bare reading of the
parts and the mean of every measure is measured by pyarrow, DuckDB and Polars, in turns.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pyarrow.parquet
from measuring import machine, take_turns, write

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


def engines(parts: list[Path]) -> dict[str, list[float]]:
    """Seconds for the mean sum of every measure's numbers, without any check."""
    import duckdb
    import polars

    def by_pyarrow() -> dict[str, float]:
        found: dict[str, list[Any]] = {}
        for part in parts:
            table = pyarrow.parquet.read_table(part, columns=["measure", "values"])
            measures, values = table["measure"].to_numpy(), table["values"].combine_chunks()
            sums = numpy.add.reduceat(values.values.to_numpy(), values.offsets.to_numpy()[:-1])
            for measure in set(measures):
                found.setdefault(measure, []).append(sums[measures == measure])
        return {measure: float(numpy.concatenate(sums).mean()) for measure, sums in found.items()}

    def by_duckdb() -> dict[str, float]:
        question = "select measure, avg(list_sum(values)) from read_parquet(?) group by measure"
        return dict(duckdb.execute(question, [[str(part) for part in parts]]).fetchall())

    def by_polars() -> dict[str, float]:
        sums = polars.col("values").list.sum().mean()
        return dict(polars.scan_parquet(parts).group_by("measure").agg(sums).collect().iter_rows())

    contenders: dict[str, Callable[[], dict[str, float]]] = {
        "pyarrow": by_pyarrow, "DuckDB": by_duckdb, "Polars": by_polars,
    }  # fmt: skip
    answers = [contender() for contender in contenders.values()]
    for answer in answers:
        numpy.testing.assert_allclose([answer[key] for key in answers[0]], list(answers[0].values()), rtol=1e-4)
    return take_turns(contenders, 2, quiet=True)


def main(images: int, folder: Path, out: Path, compare: bool) -> None:
    run = folder / f"run-{images}"
    if not (run / "config.toml").exists() or len(list((run / "parts").glob("*.parquet"))) < -(-images // 8):
        make(run, images)
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-m", "pgig", "report", str(run), "--out", str(folder / "report")], check=True)
    seconds = time.perf_counter() - begin
    found: dict[str, Any] = {
        "images": images, "methods": METHODS, "measures": len(MEASURES.split(",")), "seconds": seconds,
        "GB at most": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20,
        "GB of parts": sum(path.stat().st_size for path in (run / "parts").iterdir()) / 2**30,
        "MB of the page": (folder / "report" / "index.html").stat().st_size / 2**20,
        "seconds to open": opened(folder / "report" / "index.html"),
    }  # fmt: skip
    if compare:
        found["seconds of the bare reading"] = engines(sorted((run / "parts").glob("*.parquet")))
    print(json.dumps(found, indent=2))
    write(out / "large-report.json", {"machine": machine(), **found})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=50000)
    parser.add_argument("--folder", type=Path, default=Path("large-report"))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--engines", dest="compare", action="store_true", help="needs duckdb and polars")
    main(**vars(parser.parse_args()))
