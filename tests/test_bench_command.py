"""`pgig bench`, `pgig rank` and the report of many measures, as a user runs them."""

import csv
import json
import re
import tomllib
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy
import pyarrow.parquet as pq
import pytest
from commands import FACTORY, OWN, run
from PIL import Image

from pgig.errors import PgigWarning
from pgig.records.measures import MEASURES
from pgig.records.part_files import read_rows
from pgig.report.curves import curves_figure
from pgig.report.differences import differences_figure
from pgig.report.page import COLUMN, PAGE
from pgig.report.ranking import Ranking
from pgig.report.run import Run
from pgig.report.streamed import Band
from pgig.report.verdict import verdict
from pgig.statistics import Comparison, Interval

NUMBER = 10
MODEL = ("--model", "net:make", "--size", "32", "--resize", "32", "--images", "photos")
SMALL = ("--patch", "8", "--steps", "6")
FEW = "morf,lerf,insertion+across=4,saco+groups=4,complexity"
METHODS = ("--methods", "gradient,vargrad,random")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("bench")
    (place / "net.py").write_text(FACTORY + OWN)
    rng = numpy.random.default_rng(0)
    for kind in ("photos", "masks"):
        (place / kind).mkdir()
    for number in range(NUMBER):
        Image.fromarray(rng.integers(0, 255, (40, 50, 3), numpy.uint8)).save(place / "photos" / f"{number:02d}.png")
        mask = numpy.zeros((40, 50), numpy.uint8)
        mask[10:25, 15:30] = 255
        Image.fromarray(mask).save(place / "masks" / f"{number:02d}.png")
    return place


def bench(folder, out, *arguments, measures=FEW):
    done = run(folder, "bench", *MODEL, *SMALL, *METHODS, "--measures", measures, "--out", out, *arguments)
    assert done.returncode == 0, done.stderr
    return read_rows(folder / out)


def values(rows):
    return {(row["image"], row["method"], row["measure"]): row["values"] for row in rows}


def same(one, other, tolerance=0.0):
    a, b = values(one), values(other)
    return a.keys() == b.keys() and all(numpy.allclose(a[k], b[k], rtol=0, atol=tolerance) for k in a)


@pytest.fixture(scope="module")
def rows(folder):
    return bench(folder, "run")


def test_one_run_has_the_rows_of_every_measure(folder, rows):
    assert len(rows) == NUMBER * 3 * 5
    assert {row["measure"] for row in rows} == set(FEW.split(","))
    config = tomllib.loads((folder / "run" / "config.toml").read_text())
    assert config["measures"]["saco+groups=4"] == {"patch": 8, "fill": "image_mean", "groups": 4}
    assert "steps" not in config["degradation"]


def test_all_measures_with_masks_and_boxes(folder):
    few = "+draws=3"
    names = [f"{n}{few if n in ('sensitivity_n', 'max_sensitivity') else ''}" for n in MEASURES]
    names = [f"{n}+groups=4" if n == "saco" else f"{n}+side=2" if n == "infidelity" else n for n in names]
    one = bench(folder, "everything", "--masks", "masks", measures=",".join(names))
    assert {row["measure"] for row in one} == set(names)
    (folder / "boxes.csv").write_text("".join(f"{n:02d}.png,15,10,30,25\n" for n in range(NUMBER)))
    two = bench(folder, "boxed", "--masks", "boxes.csv", measures="localization")
    both = [row for row in one if row["measure"] == "localization"]
    assert same(both, two)


@pytest.mark.parametrize("how", ["--workers=2", "--batch-size=3", "--evaluator=dense"])
def test_how_a_run_is_worked_on_changes_nothing(folder, rows, how):
    assert same(bench(folder, f"by{how}", *how.split("=")), rows, 1e-5)


def test_a_run_goes_on_where_it_stopped(folder, rows):
    before = bench(folder, "stopped")
    (folder / "stopped" / "parts" / "part-000001.parquet").unlink()
    assert same(bench(folder, "stopped"), before)
    done = run(folder, "bench", *MODEL, *SMALL, *METHODS, "--measures", "morf", "--out", "stopped")
    assert done.returncode == 2
    assert "another configuration" in done.stderr


def test_a_run_can_be_asked_for_by_its_own_configuration(folder, rows):
    done = run(folder, "bench", "--config", "run/config.toml", "--model", "net:make", "--out", "again")
    assert done.returncode == 0, done.stderr
    assert same(read_rows(folder / "again"), rows)


def test_degrade_is_bench_with_one_measure(folder, rows):
    done = run(folder, "degrade", *MODEL, *SMALL, *METHODS, "--out", "degraded")
    assert done.returncode == 0, done.stderr
    assert same(read_rows(folder / "degraded"), [row for row in rows if row["measure"] == "morf"])
    assert "measures" not in tomllib.loads((folder / "degraded" / "config.toml").read_text())


def test_runs_made_before_there_were_measures_are_read_and_continued(folder):
    call = ("degrade", *MODEL, *SMALL, *METHODS, "--out", "old")
    assert run(folder, *call).returncode == 0
    before = read_rows(folder / "old")
    for path in (folder / "old" / "parts").glob("*.parquet"):  # as earlier versions wrote them
        table = pq.read_table(path)
        table = table.drop_columns(["measure", "image_digest"]).rename_columns(
            ["image", "method", "predicted", "label", "target", "intact", "curve", "seconds"]
        )
        facts = {k: v for k, v in (table.schema.metadata or {}).items() if k in (b"skipped",)}
        pq.write_table(table.replace_schema_metadata(facts), path)
    assert "curve" in pq.read_table(path).column_names
    with pytest.warns(PgigWarning, match="earlier version"):
        assert same(read_rows(folder / "old"), before)
    (folder / "old" / "parts" / "part-000001.parquet").unlink()
    assert run(folder, *call).returncode == 0
    with pytest.warns(PgigWarning, match="earlier version"):
        assert same(read_rows(folder / "old"), before)
    assert run(folder, "report", "old", "--out", "old-report").returncode == 0


def test_the_report_says_all_and_needs_no_server(folder, rows):
    assert run(folder, "report", "run", "--out", "report").returncode == 0
    out = folder / "report"
    page = (out / "index.html").read_text()
    assert not re.search(r"(src|href)=.https?:", page)
    data = json.loads(re.search(r'class="data">(.*?)</script>', page)[1])
    assert [m["label"] for m in data["measures"]] == FEW.split(",")
    assert len(data["examples"]) == 6
    example = data["examples"][0]
    assert numpy.shape(example["orders"]) == (3, 6, 1)
    assert "6 patches of 8 x 8 pixels are 38% of the image" in page
    for ending in ("png", "svg", "pdf"):
        assert (out / f"run-morf-curves.{ending}").stat().st_size > 1000
        assert (out / f"run-morf-differences.{ending}").stat().st_size > 1000
    with (out / "run-morf-curves.csv").open() as file:
        assert next(csv.reader(file))[:4] == ["patches", "gradient", "gradient low", "gradient high"]
    with (out / "run-images.csv").open() as file:
        table = list(csv.DictReader(file))
    assert len(table) == NUMBER * 3
    found = Run.read(folder / "run")
    assert float(table[0]["morf"]) == found.values["morf"]["AUC"][0, 0]
    tex, bib = (out / "report.tex").read_text(), (out / "references.bib").read_text()
    assert tex.count("\\begin{table}") == 1 + 5  # the ranking, and one a measure
    assert "@inproceedings{petsiuk2018rise," in bib
    paragraph = (out / "methods.txt").read_text()
    assert "groups 4" in paragraph
    assert "across 4" in paragraph


def test_ranking(folder, rows):
    bench(folder, "other", "--seed", "3", "--limit", "8", measures="morf,random_order,complexity")
    done = run(folder, "rank", "run", "other", "--out", "ranking")
    assert done.returncode == 0, done.stderr
    ranking = Ranking.of({"run": Run.read(folder / "run"), "other": Run.read(folder / "other")})
    assert len(ranking.cells) == 5 + 2  # a control does not count
    assert verdict(ranking) in " ".join(done.stdout.split())
    assert sum(interval.mean for interval in ranking.mean_ranks.values()) == pytest.approx(1 + 2 + 3)
    for cell in ranking.cells:
        assert cell.ranks.sum() == pytest.approx(6)
        assert cell.best_group[int(cell.ranks.argmin())]
        assert (cell.drawn.sum(1) == 6).all()
    page = (folder / "ranking" / "index.html").read_text()
    assert page.count('<details id="cell-') == 7
    with (folder / "ranking" / "ranking-cells.csv").open() as file:
        assert len(list(csv.reader(file))) == 1 + 7 * 3
    assert len(ranking.agreements) == 10
    assert set(ranking.without) == set(FEW.split(","))


def test_bad_calls_are_one_line(folder, rows):
    call = ("bench", *MODEL, *SMALL, *METHODS, "--out", "bad")
    for more, match in (
        (("--measures", "loudness"), "unknown measure 'loudness'"),
        (("--measures", "morf+steps=900"), "900 patches to replace on images of 16"),
        (("--measures", "localization"), "give --masks"),
        (("--measures", "morf", "--masks", "masks"), "not among --measures"),
        (("--measures", "saco+groups=99"), "cannot put 16 patches into 99 groups"),
        (("--measures", "localization", "--masks", "nowhere"), "nowhere"),
        (("--measures", "complexity", "--attributions-from", "run"), "needs more than the patch scores"),
    ):
        done = run(folder, *call, *more)
        assert done.returncode == 2
        assert match in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    (folder / "short.csv").write_text("00.png,1,1,9,9\n")
    assert "no mask for 01.png" in run(folder, *call, "--measures", "localization", "--masks", "short.csv").stderr
    assert run(folder, "rank", "photos").returncode == 2
    assert not (folder / "bad" / "parts").exists()


def test_runs_on_the_same_images_are_drawn_together(folder, rows):
    """The same run three times knows no more than once."""
    found = Run.read(folder / "run")
    once, thrice = Ranking.of({"a": found}), Ranking.of({"a": found, "b": found, "c": found})
    assert once.mean_ranks == thrice.mean_ranks
    assert len(thrice.cells) == 3 * len(once.cells)


def test_the_lead_is_paired(folder, rows):
    """A method that is ahead in every draw is told apart, though the intervals of the two overlap."""
    ranking = Ranking.of({"run": Run.read(folder / "run")})
    drawn = numpy.random.default_rng(0).choice([[1.0, 2.0, 3.0], [1.5, 2.5, 2.0]], 2000)
    ranking = replace(
        ranking, cells=tuple(replace(c, ranks=numpy.array([1.0, 2.0, 3.0]), drawn=drawn) for c in ranking.cells)
    )
    first, second = list(ranking.mean_ranks)[:2]
    assert ranking.mean_ranks[first].high <= 1.5
    assert ranking.lead(first, second).low == 1
    assert "not told apart" not in verdict(ranking)


def test_one_method_alone_is_reported_without_a_ranking(folder, rows):
    bench(folder, "alone", "--methods", "gradient", measures="morf,complexity")
    bench(folder, "two", "--methods", "gradient,vargrad", measures="morf,complexity")
    assert "not every run has random, of run: left out" in run(folder, "rank", "two", "run", "--out", "both").stdout
    assert run(folder, "report", "alone", "--out", "alone-report").returncode == 0
    assert "The ranking" not in (folder / "alone-report" / "index.html").read_text()
    assert run(folder, "rank", "alone").returncode == 2


def test_an_image_that_a_measure_cannot_judge_is_skipped_with_the_reason(folder):
    """Asked again, with noise, a method fails on one image: the others are judged."""
    place = folder / "fragile"
    (place / "photos").mkdir(parents=True)
    bright = numpy.random.default_rng(1).integers(100, 255, (2, 32, 32, 3), numpy.uint8)
    for name, pixels in zip("abc", [bright[0], numpy.full((32, 32, 3), 30, numpy.uint8), bright[1]], strict=True):
        Image.fromarray(pixels).save(place / "photos" / f"{name}.png")
    fragile = """
def fragile(model, x, target):
    noisy = len(x.unique()) > 3
    return x * float("nan") if noisy and x.mean() < -1 else x * 1.0
"""
    (place / "net.py").write_text(FACTORY + fragile)
    done = run(
        place, "bench", *MODEL, *SMALL, "--methods", "net:fragile", "--measures", "complexity,max_sensitivity+draws=2",
        "--out", "run",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    skipped = (place / "run" / "skipped.csv").read_text()
    assert "b.png,max_sensitivity+draws=2: " in skipped
    assert {row["image"] for row in read_rows(place / "run")} == {"a.png", "c.png"}


def test_odd_names_are_drawn(folder):
    """Of methods that a user names: mathematics, markup and underscores are only text."""
    odd = r"$\foo$ <b>&%_", "_hidden"
    bands = {name: Band(*(numpy.linspace(1, end, 5) for end in (0.2, 0.1, 0.3))) for name in odd}
    for size in (PAGE, COLUMN):
        curves_figure(bands, odd[0], size=size).savefig(BytesIO())
        pair = Comparison(Interval(0.1, 0.0, 0.2), 0.7, 0.01, 0.02)
        differences_figure(odd[0], {odd[1]: pair, odd[0]: pair}, "AUC", odd[0], size).savefig(BytesIO())
