"""A run's table is of one configuration, of the images it names, and as it was written."""

import errno
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import FACTORY, noise_picture, run

import pgig
from pgig.errors import PgigError
from pgig.records.part_files import read_rows
from pgig.report.run import Run
from pgig.runs.ownership import owned

BASE = ("degrade", "--model", "net:make", "--size", "32", "--resize", "32", "--patch", "8", "--steps", "4")
CALL = (*BASE, "--images", "photos", "--methods", "gradient,random", "--out", "run")


def finish(folder: Path) -> None:
    (folder / "net.py").write_text(FACTORY)
    (folder / "photos").mkdir()
    rng = numpy.random.default_rng(0)
    for number in range(12):
        noise_picture(rng).save(folder / "photos" / f"{number:02d}.png")
    done = run(folder, *CALL, "--save-attributions")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def finished(made_once) -> Path:
    return made_once("a finished run", finish)


@pytest.fixture
def folder(finished, tmp_path) -> Path:
    shutil.copytree(finished, tmp_path / "copy")
    return tmp_path / "copy"


def refused(folder: Path, *call: str) -> str:
    done = run(folder, *call)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def both_refuse(folder: Path, match: str) -> None:
    """`degrade`, which would go on with it, and `report`, which would show it."""
    assert match in refused(folder, *CALL, "--save-attributions")
    with pytest.raises(PgigError, match=match):
        Run.read(folder / "run")


def part(folder: Path, number: int = 0) -> Path:
    return folder / "run" / "parts" / f"part-{number:06d}.parquet"


def unsealed(path: Path, change=lambda table: table) -> None:
    """As an earlier version wrote it: without seal, configuration and digests of images."""
    table = change(pq.read_table(path))
    pq.write_table(table.drop(["image_digest"]), path)


def test_a_second_process_is_refused_and_told_who_is_there(folder):
    slow = FACTORY + "\nimport time\n_make = make\ndef make():\n    net = _make()\n"
    slow += "    net.register_forward_pre_hook(lambda *_: time.sleep(0.1))\n    return net\n"
    (folder / "net.py").write_text(slow)
    shutil.rmtree(folder / "run")
    process = subprocess.Popen([sys.executable, "-m", "pgig", *CALL], cwd=folder, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not (folder / "run" / ".owner").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        said = refused(folder, *CALL, "--seed", "3")
        assert f"run is in use by process {process.pid} on " in said
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    (folder / "net.py").write_text(FACTORY)
    assert run(folder, *CALL).returncode == 0  # whoever was killed has let go


def test_a_folder_is_let_go_whatever_happens(tmp_path):
    with pytest.raises(RuntimeError), owned(tmp_path / "run"):
        raise RuntimeError
    with owned(tmp_path / "run"):
        owner = json.loads((tmp_path / "run" / ".owner").read_text())
        assert set(owner) == {"process", "host", "since"}
        with pytest.raises(PgigError, match="is in use by process"), owned(tmp_path / "run"):
            pass
    assert not (tmp_path / "run" / ".owner").exists()


def test_a_part_of_another_configuration_is_refused(folder):
    assert run(folder, *CALL[:-1], "other", "--seed", "3").returncode == 0
    shutil.copy(folder / "other" / "parts" / "part-000001.parquet", part(folder, 1))
    both_refuse(folder, "was made with another configuration than config.toml says")


def test_a_configuration_that_was_changed_since_is_noticed(folder):
    config = folder / "run" / "config.toml"
    config.write_text(config.read_text().replace('fill = "mean"', 'fill = "blur"'))
    with pytest.raises(PgigError, match="was made with another configuration"):
        Run.read(folder / "run")


def test_where_files_are_and_how_it_was_run_may_change(folder):
    (folder / "photos").rename(folder / "moved")
    call = [word.replace("photos", "moved") for word in CALL]
    assert run(folder, *call, "--save-attributions", "--batch-size", "3").returncode == 0
    assert len(Run.read(folder / "run").images) == 12


def test_a_part_under_another_number_is_refused(folder):
    shutil.copy(part(folder, 1), folder / "spare")
    shutil.copy(part(folder, 0), part(folder, 1))
    both_refuse(folder, "holds other images than it should")
    shutil.copy(folder / "spare", part(folder, 1))
    shutil.copy(part(folder, 0), part(folder, 2))
    both_refuse(folder, "is beyond the 12 images of this run")


def without(method):
    return lambda table: table.filter(pa.compute.not_equal(table["method"], method))


def shorter(table):
    curves = pa.array([row[:-1] for row in table["values"].to_pylist()], table.schema.field("values").type)
    return table.set_column(table.schema.get_field_index("values"), "values", curves)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (without("random"), "lacks methods"),
        (lambda table: table.slice(2), "holds other images than it should"),
        (lambda table: pa.concat_tables([table, table.slice(0, 1)]), "lacks methods"),
        (shorter, "has rows without the 5 values"),
    ],
    ids=["a method", "an image", "twice", "a step"],
)
def test_parts_with_something_missing_are_refused(folder, change, match):
    """Also those of earlier versions, which have no seal."""
    unsealed(part(folder), change)
    with pytest.raises(PgigError, match=match):
        Run.read(folder / "run")
    assert match in refused(folder, *CALL, "--save-attributions")


def test_parts_of_earlier_versions_are_noted_and_continued(folder):
    before = read_rows(folder / "run")
    unsealed(part(folder))
    part(folder, 1).unlink()
    done = run(folder, *CALL)
    assert done.returncode == 0, done.stderr
    assert "1 of 1 parts in run are of an earlier version" in " ".join(done.stderr.split())
    with pytest.warns(pgig.PgigWarning, match="1 of 2 parts in .* are of an earlier version"):
        found = read_rows(folder / "run")
    assert [row["values"] for row in found] == [row["values"] for row in before]
    reported = run(folder, "report", "run")
    assert reported.returncode == 0
    assert "earlier version" in reported.stderr
    assert "1 parts of this run are of an earlier version" in (folder / "report" / "report.md").read_text()


def test_an_image_that_was_exchanged_under_its_name_is_noticed(folder):
    image = folder / "photos" / "03.png"
    whole = image.read_bytes()
    image.write_bytes((folder / "photos" / "04.png").read_bytes())
    part(folder, 1).unlink()
    assert "03.png is another file than when its part of run was made" in refused(folder, *CALL)
    again = (*CALL[:-1], "again", "--attributions-from", "run", "--fill", "blur")
    assert "03.png is another file than the one whose attributions run holds" in refused(folder, *again)
    image.write_bytes(whole)
    assert run(folder, *CALL).returncode == 0


def test_a_skipped_image_that_was_mended_is_noticed(folder):
    shutil.rmtree(folder / "run")
    image = folder / "photos" / "03.png"
    whole = image.read_bytes()
    image.write_bytes(whole[:60])
    assert run(folder, *CALL).returncode == 0
    image.write_bytes(whole)
    part(folder, 1).unlink()
    assert "03.png is another file" in refused(folder, *CALL)


def test_references_that_were_exchanged_are_noticed(folder):
    shutil.rmtree(folder / "run")
    (folder / "others").mkdir()
    for number in range(3):
        shutil.copy(folder / "photos" / f"{number:02d}.png", folder / "others" / f"{number}.png")
    call = [*CALL, "--references", "others"]
    call[call.index("gradient,random")] = "gradient,expected_gradients+samples=3"
    assert run(folder, *call).returncode == 0
    part(folder, 1).unlink()
    shutil.copy(folder / "photos" / "07.png", folder / "others" / "1.png")
    assert "references_contents was" in refused(folder, *call)


def test_a_configuration_is_compared_before_anything_is_built(folder):
    """A model that cannot even be made is not asked for."""
    (folder / "net.py").write_text("raise SystemError('built')")
    assert "seed was 0, now 3" in refused(folder, *CALL, "--seed", "3")
    assert "steps was 4, now 3" in refused(folder, *CALL, "--steps", "3")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('model = "net:make"', "names code to run, net:make, which a file may not: repeat it on the command line"),
        ('model = "squeezenet1_1"\nmethods = ["gradient", "net:mine"]', "names code to run, net:mine"),
        ("steps = 2.5", "steps = 2.5 is no whole number"),
        ('steps = "many"', "steps = 'many' is no whole number"),
        ("steps = [3]", "steps = [3] is no whole number"),
        ("steps = true", "steps = True is no whole number"),
        ("force = 1", "force = 1 is no true or false"),
        ("memory = []", "memory = [] is no number"),
        ("fill = {a = 1}", "unknown option 'a'"),
        ("images = []", "images = [] is no text"),
    ],
)
def test_what_a_file_of_options_may_not_say(folder, text, match):
    (folder / "options.toml").write_text(text)
    named = () if "model" in text else ("--model", "net:make")
    call = (
        "degrade",
        *named,
        "--out",
        "other",
        "--config",
        "options.toml",
        *(() if "images" in text else ("--images", "photos")),
    )
    assert match in refused(folder, *call)
    assert not (folder / "other" / "config.toml").exists()


def test_code_that_the_command_line_repeats_is_run(folder):
    (folder / "net.py").write_text(FACTORY + "\ndef mine(model, inputs, targets):\n    return inputs\n")
    (folder / "options.toml").write_text(
        'model = "net:make"\nmethods = ["net:mine"]\nsize = 32\nresize = 32\npatch = 8\nsteps = 4\n'
    )
    call = ("degrade", "--images", "photos", "--out", "other", "--config", "options.toml")
    assert "names code" in refused(folder, *call, "--model", "net:make")
    done = run(folder, *call, "--model", "net:make", "--methods", "net:mine")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "text", ["[images]\ncount = 12", "x = 3", "[images]\ncount = true", "\x00", "a = " + "[" * 2000]
)
def test_a_damaged_configuration_of_a_run_is_one_line(folder, text):
    (folder / "run" / "config.toml").write_text(text)
    refused(folder, "report", "run")
    refused(folder, *CALL)


def test_more_workers_and_larger_batches_than_there_is_work_are_not_paid_for(folder):
    shutil.rmtree(folder / "run")
    stated = {}
    for name, more in (("few", ()), ("many", ("--workers", "60")), ("large", ("--batch-size", "100000"))):
        done = run(folder, *CALL[:-1], name, "--limit", "8", *more)
        assert done.returncode == 0, done.stderr
        stated[name] = done.stdout.split("at most about ")[1].split(" GB")[0]
    assert len(set(stated.values())) == 1, stated


def test_a_model_that_writes_to_its_input_is_measured_as_one_that_does_not(folder):
    writing = "\ndef twice(in_place):\n    net = make()\n    def change(module, x):\n"
    writing += "        return (x[0].mul_(2),) if in_place else (x[0] * 2,)\n"
    writing += "    net.register_forward_pre_hook(change)\n    return net\n"
    (folder / "net.py").write_text(
        FACTORY + writing + "def one():\n    return twice(True)\ndef two():\n    return twice(False)\n"
    )
    found = []
    for name in ("one", "two"):
        call = [word.replace("net:make", f"net:{name}") for word in CALL]
        call[call.index("gradient,random")] = "gradient,occlusion+window=8,random"
        done = run(folder, *call[:-1], name, "--evaluator", "dense")
        assert done.returncode == 0, done.stderr
        found.append([row["values"] for row in read_rows(folder / name)])
    numpy.testing.assert_allclose(found[0], found[1], atol=1e-6)


def test_a_full_disk_stops_a_run_and_blames_no_image(folder, monkeypatch):
    """On a disk with room for nothing, which `/dev/full` is: here, by a writer that says so."""
    shutil.rmtree(folder / "run")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(numpy, "savez_compressed", full)
        said = refused(folder, *CALL)
    assert "the disk is full: run/heatmaps/" in said
    assert not list((folder / "run" / "parts").glob("*"))
    assert run(folder, *CALL).returncode == 0
    assert len(read_rows(folder / "run")) == 24


def test_attributions_of_earlier_versions_serve_too(folder):
    config = folder / "run" / "config.toml"
    config.write_text("".join(line for line in config.read_text().splitlines(True) if "max_pixels" not in line))
    for path in (folder / "run" / "attributions").iterdir():
        unsealed(path)
    done = run(folder, *CALL[:-1], "again", "--attributions-from", "run", "--fill", "blur")
    assert done.returncode == 0, done.stderr
    assert "earlier version" in done.stderr


@pytest.mark.parametrize("said", [b"not json", b"[1]", b"5", b"\xff"])
def test_unsealed_parts_with_odd_notes_are_one_line(folder, said):
    table = pq.read_table(part(folder)).drop(["image_digest"])
    pq.write_table(table.replace_schema_metadata({b"skipped": said}), part(folder))
    both_refuse(folder, "is damaged")


def test_a_part_by_another_name_is_refused(folder):
    shutil.copy(part(folder), part(folder).with_name("part-0.parquet"))
    both_refuse(folder, "is no part of a run")


def test_a_randomisation_run_notices_exchanged_images(folder):
    call = ["randomize", *BASE[1:7], "--images", "photos", "--methods", "gradient", "--limit", "3", "--layers", "2"]
    call += ["--modes", "cascading", "--out", "sanity"]
    done = run(folder, *call)
    assert done.returncode == 0, done.stderr
    sorted((folder / "sanity" / "stages").glob("*.csv"))[-1].unlink()
    shutil.copy(folder / "photos" / "05.png", folder / "photos" / "01.png")
    assert "contents was" in refused(folder, *call)
