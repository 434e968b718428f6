"""`pgig degrade` and `pgig report`, as a user runs them."""

import csv
import re
import signal
import subprocess
import sys
import time
import warnings
import zipfile
from pathlib import Path

import numpy
import pyarrow.parquet as pq
import pytest
from commands import FACTORY, OWN, curves, run
from PIL import Image

from pgig.errors import PgigError
from pgig.records.part_files import read_rows
from pgig.records.parts import PART, parts_of
from pgig.report.run import Run
from pgig.runs.labels import read_labels
from pgig.vision.image_folder import ImageFolder

BASE = ("--model", "net:make", "--size", "32", "--resize", "32", "--patch", "8", "--steps", "6")
NUMBER = 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(FACTORY + OWN)
    rng = numpy.random.default_rng(0)
    for number in range(NUMBER):
        target = tmp_path / "photos" / f"class{number % 6}"
        target.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (40, 50, 3), numpy.uint8)).save(target / f"{number:02d}.png")
    (tmp_path / "wrong.csv").write_text("00.png,6\n" + "".join(f"{n:02d}.png,0\n" for n in range(1, NUMBER)))
    return tmp_path


def degraded(folder: Path, out: str, *arguments: str, methods: str = "gradient,vargrad,random") -> list[dict]:
    call = ("degrade", *BASE, "--images", "photos", "--methods", methods, "--out", out, *arguments)
    done = run(folder, *call)
    assert done.returncode == 0, done.stderr
    return read_rows(folder / out)


def same(one: list[dict], other: list[dict], tolerance: float = 0) -> bool:
    a, b = curves(one), curves(other)
    return list(a) == list(b) and all(numpy.allclose(a[key], b[key], rtol=0, atol=tolerance) for key in a)


def test_a_run_is_a_folder_that_says_what_it_is(folder):
    rows = degraded(folder, "run")
    assert len(rows) == 3 * NUMBER
    assert len(rows[0]["values"]) == 7
    assert rows[0]["intact"] == rows[0]["values"][0]
    assert all(0 <= value <= 1 for row in rows for value in row["values"])
    assert {row["label"] for row in rows} == set(range(6))  # a class per folder
    config = (folder / "run" / "config.toml").read_text()
    for word in (
        "weights_digest",
        "digest",
        "torch",
        "steps = 6",
        'fill = "mean"',
        'evaluator = "incremental"',
        "[execution]",
    ):
        assert word in config
    assert (
        len(list((folder / "run" / "parts").glob("*.parquet"))) == len(parts_of(["x"] * NUMBER)) == -(-NUMBER // PART)
    )
    assert len(list((folder / "run" / "heatmaps").glob("*.npz"))) == 6
    assert (folder / "run" / "skipped.csv").read_text() == "image,reason\n"


def test_workers_batches_and_order_change_nothing(folder):
    rows = degraded(folder, "run")
    assert same(rows, degraded(folder, "batch", "--batch-size", "3"), 1e-6)
    assert same(rows, degraded(folder, "workers", "--workers", "2", "--threads", "2"), 1e-6)
    assert same(rows[: 3 * 10], degraded(folder, "short", "--limit", "10"), 1e-6)


def test_what_is_finished_is_not_done_again_and_other_configurations_are_refused(folder):
    rows = degraded(folder, "run")
    first, second = sorted((folder / "run" / "parts").glob("*.parquet"))[:2]
    stamp = first.stat().st_mtime_ns
    (folder / "labels.csv").write_text("".join(f"{n:02d}.png,{(n + 1) % 6}\n" for n in range(NUMBER)))
    second.unlink()
    assert same(rows, degraded(folder, "run", "--batch-size", "16", "--workers", "1"))
    assert first.stat().st_mtime_ns == stamp
    call = ("degrade", *BASE, "--images", "photos", "--methods", "gradient,vargrad,random", "--out", "run")
    for extra, message in (
        (("--seed", "3"), "seed was 0, now 3"),
        (("--fill", "blur"), "fill was 'mean', now 'blur'"),
        (("--limit", "5"), "count was 20, now 5"),
        (("--score", "logit"), "score was 'probability', now 'logit'"),
        (("--labels", "labels.csv"), "labels_digest was"),
    ):
        done = run(folder, *call, *extra)
        assert done.returncode == 2
        assert message in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_killed_run_goes_on_to_the_same_result(folder, workers):
    whole = degraded(folder, "whole")
    slow = FACTORY + "\nimport time\n_make = make\ndef make():\n    net = _make()\n"
    slow += "    net.register_forward_pre_hook(lambda *_: time.sleep(0.01))\n    return net\n"
    (folder / "net.py").write_text(slow)
    call = [
        sys.executable,
        "-m",
        "pgig",
        "degrade",
        *BASE,
        "--images",
        "photos",
        "--methods",
        "gradient,vargrad,random",
    ]
    process = subprocess.Popen([*call, "--out", "run", "--workers", workers], cwd=folder, start_new_session=True)
    deadline = time.monotonic() + 120
    while not list(folder.glob("run/parts/part-*.parquet")) and time.monotonic() < deadline:
        time.sleep(0.02)
    import os

    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    finished = len(list((folder / "run" / "parts").glob("part-*.parquet")))
    assert 1 <= finished < len(parts_of(["x"] * NUMBER))  # it was killed in the middle
    assert same(whole, degraded(folder, "run"), 1e-6)
    tables = [pq.read_table(folder / name / "parts").drop(["seconds"]) for name in ("whole", "run")]
    assert tables[0].schema.equals(tables[1].schema)
    if workers == "1":  # the same threads and batch size: the same bits
        assert tables[0].equals(tables[1])


def test_saved_attributions_serve_other_protocols(folder):
    degraded(folder, "run", "--save-attributions", methods="gradient,vargrad")
    fresh = degraded(folder, "fresh", "--fill", "blur", "--order", "ascending", methods="gradient,vargrad")
    reused = degraded(
        folder,
        "reused",
        "--fill",
        "blur",
        "--order",
        "ascending",
        "--attributions-from",
        "run",
        methods="gradient,vargrad",
    )
    assert same(fresh, reused, 1e-9)
    call = ("degrade", *BASE, "--images", "photos", "--out", "other", "--attributions-from", "run")
    for extra, message in (
        (("--methods", "integrated_gradients"), "no attributions by integrated_gradients"),
        (("--methods", "gradient", "--patch", "4"), "for patches of 8 pixels, not 4"),
        (("--methods", "gradient", "--limit", "4"), "count was 20, now 4"),
    ):
        done = run(folder, *call, *extra)
        assert done.returncode == 2
        assert message in done.stderr


def test_odd_images_are_read_or_skipped_with_a_reason(folder):
    photos = folder / "photos" / "class0"
    rng = numpy.random.default_rng(1)
    pixels = rng.integers(0, 255, (40, 50, 3), numpy.uint8)
    Image.fromarray(pixels[..., 0]).save(photos / "a-grey.png")
    Image.fromarray(pixels).convert("CMYK").save(photos / "b-cmyk.jpg")
    Image.fromarray(pixels).convert("P").save(photos / "c-palette.gif")
    Image.fromarray(rng.integers(0, 65535, (40, 50), numpy.uint16)).save(photos / "d-deep.png")
    turned = Image.Exif()
    turned[0x0112] = 6
    Image.fromarray(pixels).save(photos / "e-turned.jpg", exif=turned)
    Image.fromarray(pixels).save(
        photos / "f-animated.gif", save_all=True, append_images=[Image.fromarray(pixels[::-1])]
    )
    (photos / "g-empty.jpg").write_bytes(b"")
    (photos / "h-text.jpg").write_text("no image")
    whole = (photos / "00.png").read_bytes()
    (photos / "i-cut.png").write_bytes(whole[: len(whole) // 2])
    degraded(folder, "run", methods="gradient")
    with (folder / "run" / "skipped.csv").open() as file:
        skipped = {row["image"]: row["reason"] for row in csv.DictReader(file)}
    assert set(skipped) == {f"class0/{name}" for name in ("g-empty.jpg", "h-text.jpg", "i-cut.png")}
    assert all(skipped.values())
    images = {row["image"] for row in read_rows(folder / "run")}
    assert len(images) == NUMBER + 6


def test_references_targets_labels_and_own_explainers(folder):
    (folder / "labels.csv").write_text("file,class_index\n" + "".join(f"{n:02d}.png,{n % 6}\n" for n in range(NUMBER)))
    rows = degraded(
        folder, "run", "--labels", "labels.csv", "--target", "label", methods="expected_gradients,net:mine,random"
    )
    assert all(row["target"] == row["label"] == int(row["image"].rpartition("/")[2][:2]) % 6 for row in rows)
    ties = [row["values"] for row in rows if row["method"] == "net:mine"]
    assert len(ties) == NUMBER
    assert read_labels(None, ("a.png", "b.png")) == {}


def test_the_report_is_a_function_of_the_folder(folder):
    degraded(folder, "run")
    degraded(folder, "blurred", "--fill", "blur", "--limit", "10")
    done = run(folder, "report", "run", "blurred", "--out", "report")
    assert done.returncode == 0, done.stderr
    page = (folder / "report" / "index.html").read_text()
    assert re.findall(r'(?:src|href)="(?!data:image/png;base64,|#)', page) == []
    assert page.count('src="data:image/png;base64,') == 8  # curves, differences, examples by run; two over all runs
    with (folder / "report" / "side-by-side.csv").open() as file:
        joint = list(csv.DictReader(file))
    assert {(row["method"], row["run"]) for row in joint} == {
        (method, name) for method in ("gradient", "vargrad", "random") for name in ("run", "blurred")
    }
    with (folder / "report" / "run-curves.csv").open() as file:
        rows = list(csv.reader(file))
    columns = [f"{method}{end}" for method in ("gradient", "vargrad", "random") for end in ("", " low", " high")]
    assert rows[0] == ["patches", *columns]
    found = Run.read(folder / "run")
    mean, low, high = numpy.array(rows[1:], float)[:, 1:4].T
    numpy.testing.assert_allclose(mean, found.curves["gradient"].mean(0))
    assert (low <= mean).all()
    assert (mean <= high).all()
    with (folder / "report" / "run-table.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [row["rank"] for row in table] == ["1", "2", "3"]
    areas = [float(row["AUC"]) for row in table]
    assert areas == sorted(areas)
    assert all(float(row["AUC low"]) <= float(row["AUC"]) <= float(row["AUC high"]) for row in table)
    with (folder / "report" / "run-pairs.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 3
    text = (folder / "report" / "report.md").read_text()
    assert "## blurred" in text
    assert "| fill | mean | blur |" in text
    assert "| images | 20 | 10 |" in text
    again = run(folder, "report", "run", "blurred", "--out", "again")
    assert again.returncode == 0
    for name in ("run-table.csv", "run-pairs.csv", "report.md"):
        assert (folder / "report" / name).read_bytes() == (folder / "again" / name).read_bytes()


def test_options_come_from_a_file_and_the_command_line_wins(folder):
    degraded(folder, "run", "--limit", "4", "--fill", "blur")
    done = run(
        folder, "degrade", "--config", "run/config.toml", "--model", "net:make", "--images", "photos", "--out", "run"
    )
    assert done.returncode == 0, done.stderr
    call = ("degrade", "--config", "run/config.toml", "--model", "net:make", "--images", "photos", "--out", "run")
    done = run(folder, *call, "--steps", "3")
    assert done.returncode == 2
    assert "steps was 6, now 3" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--images", "nowhere"), "no images at nowhere"),
        (("--steps", "17"), "17 patches to replace on images of 16"),
        (("--methods", "pgig"), "pattern methods need patterns"),
        (("--methods", "lime"), "unknown method 'lime'"),
        (("--methods", ","), "no method given"),
        (("--order", "up"), "unknown order 'up'"),
        (("--fill", "grey"), "unknown fill 'grey'"),
        (("--protocol", "mine"), "unknown protocol 'mine'"),
        (("--evaluator", "magic"), "unknown evaluator"),
        (("--score", "odds"), "unknown score 'odds'"),
        (("--target", "mine"), "unknown target"),
        (("--workers", "0"), "workers must be at least 1"),
        (("--threads", "0"), "threads must be from 1 to 512"),
        (("--fill", "1e39"), "must be finite, also in float32"),
        (("--batch-size", "0"), "batch size must be at least 1"),
        (("--limit", "0"), "limit must be at least 1"),
        (("--labels", "net.py", "--target", "label"), "cannot read labels"),
        (("--labels", "wrong.csv", "--target", "label"), "the label 6 of class0/00.png is out of range"),
        (("--labels", "wrong.csv"), "the model has 6 classes"),
        (("--out", "net.py"), "net.py"),
        (("--config", "net.py"), "cannot read the configuration"),
        (("--attributions-from", "photos"), "cannot read the configuration"),
    ],
)
def test_bad_arguments(folder, arguments, message):
    given = {"--images": "photos", "--methods": "gradient", "--out": "run"} | dict(
        zip(arguments[::2], arguments[1::2], strict=True)
    )
    done = run(folder, "degrade", *BASE, *(word for pair in given.items() for word in pair))
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_file_of_options_with_a_typo_is_refused(folder):
    (folder / "options.toml").write_text("stpes = 3\n")
    done = run(folder, "degrade", *BASE, "--images", "photos", "--out", "run", "--config", "options.toml")
    assert done.returncode == 2
    assert "unknown option 'stpes'" in done.stderr


def test_a_model_that_differs_each_time_is_refused(folder):
    (folder / "net.py").write_text(FACTORY.replace("torch.manual_seed(0)", "torch.seed()"))
    for workers in ("1", "2"):
        call = ("degrade", *BASE, "--images", "photos", "--methods", "gradient", "--out", f"run{workers}")
        done = run(folder, *call, "--workers", workers)
        assert done.returncode == 2
        assert "another model each time" in done.stderr


def test_attributions_can_be_saved_after_all(folder):
    rows = degraded(folder, "run", methods="gradient")
    assert same(rows, degraded(folder, "run", "--save-attributions", methods="gradient"))
    assert same(rows, degraded(folder, "reused", "--attributions-from", "run", methods="gradient"), 1e-9)


def skipped_of(folder: Path, out: str) -> dict[str, str]:
    with (folder / out / "skipped.csv").open() as file:
        return {row["image"]: row["reason"] for row in csv.DictReader(file)}


def test_an_image_that_cannot_be_explained_is_skipped_and_a_broken_explainer_stops_the_run(folder):
    picky = "\ndef picky(model, inputs, targets):\n    assert inputs.mean() > {}, 'too dark'\n    return inputs\n"
    bright = Image.fromarray(numpy.full((40, 50, 3), 255, numpy.uint8))
    for number in range(8):
        bright.save(folder / "photos" / "class0" / f"bright{number}.png")
    (folder / "net.py").write_text(FACTORY + picky.format(1))
    call = ("degrade", *BASE, "--images", "photos", "--methods", "net:picky,gradient")
    done = run(folder, *call, "--out", "whole")
    assert done.returncode == 0, done.stderr  # also where all images of a part but the first are skipped
    assert len(skipped_of(folder, "whole")) == NUMBER
    (folder / "net.py").write_text(FACTORY + picky.format(100))
    done = run(folder, *call, "--out", "stopped")
    assert done.returncode == 2
    assert "class0/bright3.png: net:picky failed: AssertionError: too dark" in done.stderr
    (folder / "net.py").write_text(FACTORY + picky.format(1))
    done = run(folder, *call, "--out", "run", "--limit", "8", "--save-attributions")
    assert done.returncode == 0, done.stderr
    skipped = skipped_of(folder, "run")
    assert len(skipped) == 4
    assert all("too dark" in reason for reason in skipped.values())
    again = run(folder, *call, "--out", "again", "--limit", "8", "--attributions-from", "run", "--fill", "0")
    assert again.returncode == 0, again.stderr
    assert skipped_of(folder, "again") == skipped


def test_folders_are_classes_where_there_is_one_for_each(folder):
    limited = degraded(folder, "run", "--limit", "5", methods="gradient")
    assert [row["label"] for row in limited] == [0, 0, 0, 0, 1]
    for path in (folder / "photos" / "class5").iterdir():
        path.unlink()
    rows = degraded(folder, "five", methods="gradient")
    assert {row["label"] for row in rows} == {-1}
    call = ("degrade", *BASE, "--images", "photos", "--methods", "gradient", "--out", "labels")
    done = run(folder, *call, "--target", "label")
    assert done.returncode == 2
    assert "5 class folders for a model of 6 classes" in done.stderr


def test_names_that_are_no_text_are_refused(folder):
    (folder / "photos").joinpath("class0", "00.png").rename(folder / "photos" / "class0" / "caf\udce9.png")
    done = run(folder, "degrade", *BASE, "--images", "photos", "--methods", "gradient", "--out", "run")
    assert done.returncode == 2
    assert "is not UTF-8" in done.stderr


def test_bad_reports(folder):
    assert "is not a run" in run(folder, "report", "photos").stderr
    (folder / "begun").mkdir()
    head = "[images]\ncount = 1\nsize = 32\n[model]\nmodel = 'x'\n[attributions]\npatch = 8\n[degradation]\n"
    (folder / "begun" / "config.toml").write_text(head)
    assert "[degradation] has no text score" in run(folder, "report", "begun").stderr
    texts = {"score": "probability", "evaluator": "dense", "fill": "mean", "departure": "paper"}
    head = head.replace("patch = 8", "patch = 8\nmethods = ['gradient']")
    head += "".join(f"{key} = '{text}'\n" for key, text in texts.items()) + "steps = 4\npatches_per_step = 1\n"
    (folder / "begun" / "config.toml").write_text(head)
    assert "has not finished a part" in run(folder, "report", "begun").stderr


def test_scores_that_are_not_finite_are_no_result(folder):
    call = ("degrade", *BASE, "--images", "photos", "--methods", "gradient")
    done = run(folder, *call, "--fill", "1e38", "--out", "all")
    assert done.returncode == 2
    assert "not finite once patches are replaced" in done.stderr
    fragile = "\ndef make(make=make):\n    net = make()\n    def check(_, x, y):\n"
    fragile += "        dark = x[0].flatten(1).median(1).values < -0.2\n"
    fragile += "        return torch.where((dark & (x[0].amax((1, 2, 3)) > 2.9))[:, None], torch.nan, y)\n"
    fragile += "    net.register_forward_hook(check)\n    return net\n"
    (folder / "net.py").write_text(FACTORY + fragile)
    Image.fromarray(numpy.full((40, 50, 3), 100, numpy.uint8)).save(folder / "photos" / "class0" / "dark.png")
    rows = degraded(folder, "some", "--fill", "3", methods="gradient")
    assert len(rows) == NUMBER
    assert skipped_of(folder, "some") == {
        "class0/dark.png": "the model's scores are not finite once patches are replaced"
    }


def test_a_model_that_fails_midway_is_one_line(folder):
    late = "\ndef make(make=make, seen=[]):\n    net = make()\n    def count(*_):\n        seen.append(1)\n"
    late += "        if len(seen) > 60: raise RuntimeError('no memory\\nfor this')\n"
    (folder / "net.py").write_text(FACTORY + late + "    net.register_forward_pre_hook(count)\n    return net\n")
    done = run(
        folder, "degrade", *BASE, "--images", "photos", "--methods", "gradient", "--out", "run", "--evaluator", "dense"
    )
    assert done.returncode == 2
    assert "no memory; the same command goes on" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_refused_command_does_not_stand_in_the_way(folder):
    call = ("degrade", *BASE, "--images", "photos", "--methods", "net:broken", "--out", "run", "--limit", "4")
    (folder / "net.py").write_text(FACTORY + "\ndef broken(*_):\n    raise ValueError('no')\n")
    done = run(folder, *call)
    assert done.returncode == 2
    assert "net:broken failed: ValueError: no" in done.stderr
    rows = degraded(folder, "run", "--limit", "5", "--seed", "3", methods="gradient")
    assert len(rows) == 5


def test_damaged_runs_are_one_line(folder):
    degraded(folder, "run", "--save-attributions", methods="gradient")
    call = ("degrade", *BASE, "--images", "photos", "--methods", "gradient")
    parts = folder / "run" / "parts"
    second, third = parts / "part-000001.parquet", parts / "part-000002.parquet"
    whole = third.read_bytes()
    third.write_bytes(second.read_bytes())
    assert "holds other images than it should" in run(folder, *call, "--out", "run").stderr
    third.write_bytes((folder / "run" / "attributions" / "part-000002.parquet").read_bytes())
    for command in ((*call, "--out", "run"), ("report", "run")):
        done = run(folder, *command)
        assert done.returncode == 2
        assert "has other columns than it should" in done.stderr
    third.write_bytes(whole)
    next((folder / "run" / "heatmaps").glob("*.npz")).write_bytes(b"")
    assert run(folder, "report", "run").returncode == 0
    config = (folder / "run" / "config.toml").read_text()
    for damaged in ("", "images = 3", config.replace("count = 20", 'count = "x"'), config.replace("patch = 8", "")):
        (folder / "run" / "config.toml").write_text(damaged)
        done = run(folder, "report", "run")
        assert done.returncode == 2
        assert "is damaged" in done.stderr
    (folder / "run" / "config.toml").write_text("")
    for more in (("--out", "run"), ("--out", "other", "--attributions-from", "run")):
        done = run(folder, *call, *more)
        assert done.returncode == 2
        assert "is damaged" in done.stderr


def test_labels_in_a_file(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_bytes(b"\xef\xbb\xbfa/x.png,1\nx.png,2\n")
    assert read_labels(path, ("a/x.png", "b/x.png")) == {"a/x.png": 1, "b/x.png": 2}
    for wrong in ("x.png,1.0\n", "x.png,1\nx.png,2\n", "x.png\n"):
        path.write_text(wrong)
        with pytest.raises(PgigError, match="cannot read labels"):
            read_labels(path, ("x.png",))


def test_odd_files_among_the_images(folder):
    photos = folder / "photos" / "class0"
    (photos / "gone.png").symlink_to("nowhere.png")
    (photos / ("x" * 240 + ".png")).write_bytes((photos / "00.png").read_bytes())
    (photos / "two\nlines.png").write_bytes(b"")
    (photos / "00.png").rename(photos / ("0" * 200 + ".png"))
    degraded(folder, "run", methods="gradient")
    assert set(skipped_of(folder, "run")) == {"class0/gone.png", "class0/two\nlines.png"}
    assert run(folder, "report", "run", "--out", "report").returncode == 0
    assert "21 of 23 images, 2 skipped" in (folder / "report" / "report.md").read_text()
    with zipfile.ZipFile(folder / "twice.zip", "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            archive.writestr("a.png", (photos / "06.png").read_bytes())
        archive.writestr("folder.png/", b"")
    assert ImageFolder.open(folder / "twice.zip").names == ("a.png",)
    data = bytearray((folder / "twice.zip").read_bytes())
    data[data.rindex(b"PK\x01\x02")] = 0
    (folder / "twice.zip").write_bytes(data)
    with pytest.raises(PgigError, match="is damaged"):
        ImageFolder.open(folder / "twice.zip")


def test_a_run_with_attributions_of_another_is_told_by_its_own_file(folder):
    degraded(folder, "run", "--save-attributions", methods="gradient")
    degraded(folder, "other", "--attributions-from", "run", "--seed", "5", "--order", "random", methods="gradient")
    done = run(
        folder,
        "degrade",
        "--config",
        "other/config.toml",
        "--model",
        "net:make",
        "--images",
        "photos",
        "--out",
        "other",
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_stopped_run_says_so_at_once(folder):
    slow = FACTORY + "\nimport time\n_make = make\ndef make():\n    net = _make()\n"
    slow += "    net.register_forward_pre_hook(lambda *_: time.sleep(0.2))\n    return net\n"
    (folder / "net.py").write_text(slow)
    call = [sys.executable, "-m", "pgig", "degrade", *BASE, "--images", "photos", "--methods", "gradient,random"]
    process = subprocess.Popen(
        [*call, "--out", "run", "--workers", "2"], cwd=folder, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests in the background ignore it
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while not list(folder.glob("run/heatmaps/*.npz")) and time.monotonic() < deadline:
        time.sleep(0.05)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    # before a first part is finished, or just behind it
    finished = any(folder.glob("run/parts/part-*"))
    assert f"the same command {'goes on' if finished else 'begins anew'}" in said
    assert time.monotonic() - begun < 10
