"""The command as a user runs it."""

import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import torch
from networks import layer_weights
from PIL import Image
from safetensors.torch import load_file, save_file

import pgig

FACTORY = """
import torch
from torch import nn

def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(64, 6))

def wrong():
    return nn.Linear(7, 2)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(FACTORY)
    (tmp_path / "names.txt").write_text("\n".join(f"name {i}" for i in range(6)))
    rng = numpy.random.default_rng(0)
    for name in ("cat", "dog"):
        Image.fromarray(rng.integers(0, 255, (40, 50, 3), numpy.uint8)).save(tmp_path / f"{name}.png")
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pgig", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


SMALL = ("--model", "net:make", "--size", "32", "--resize", "32")


def test_methods_are_listed(folder):
    done = run(folder, "methods")
    assert done.returncode == 0
    for name in pgig.METHODS:
        assert name in done.stdout


def test_help_has_examples(folder):
    assert "explain" in run(folder, "--help").stdout
    assert "pgig explain dog.jpg --model vgg16" in " ".join(run(folder, "explain", "--help").stdout.split())
    assert run(folder, "--version").stdout.strip() == pgig.__version__


def test_explain_writes_heat_maps_a_sheet_and_arrays(folder):
    done = run(folder, "explain", "cat.png", "dog.png", *SMALL, "--classes", "names.txt", "--save-arrays", "--out", "o")
    assert done.returncode == 0, done.stderr
    assert "left out: pattern_attribution, pgig" in done.stdout
    assert "name " in done.stdout
    written = {path.stem for path in (folder / "o" / "cat").iterdir()}
    without_patterns = {n for n in list(pgig.METHODS)[:11] if not pgig.METHODS[n].rule.needs_patterns}
    assert written == without_patterns | {"sheet", "attributions"}
    arrays = load_file(folder / "o" / "dog" / "attributions.safetensors")
    assert arrays.keys() == without_patterns
    assert all(a.shape == (3, 32, 32) for a in arrays.values())
    with Image.open(folder / "o" / "dog" / "gradient.png") as image:
        assert image.size == (32, 32)


def test_explain_uses_patterns_a_target_and_the_same_seed(folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    import net

    save_file({name: torch.rand_like(w) for name, w in layer_weights(net.make()).items()}, folder / "p.safetensors")
    call = ("explain", "cat.png", *SMALL, "--methods", "pgig,vargrad", "--patterns", "p.safetensors", "--target", "3")
    for out in ("a", "b"):
        done = run(folder, *call, "--save-arrays", "--steps", "5", "--out", out)
        assert done.returncode == 0, done.stderr
    first, second = (load_file(folder / out / "cat" / "attributions.safetensors") for out in ("a", "b"))
    assert first.keys() == {"pgig", "vargrad"}
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_two_images_of_one_name_do_not_overwrite_each_other(folder):
    (folder / "sub").mkdir()
    (folder / "sub" / "cat.png").write_bytes((folder / "cat.png").read_bytes())
    done = run(folder, "explain", "cat.png", "sub/cat.png", *SMALL, "--methods", "gradient")
    assert done.returncode == 0, done.stderr
    assert (folder / "explained" / "cat-2" / "gradient.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("explain", "none.png", *SMALL), "no image at none.png"),
        (("explain", "net.py", *SMALL), "cannot read the image net.py"),
        (("explain", "cat.png", "--model", "vgg99"), "unknown model 'vgg99'"),
        (("explain", "cat.png", "--model", "vgg16"), "vgg16 needs weights"),
        (("explain", "cat.png", "--model", "vgg16", "--weights", "no.pth"), "no weights file at no.pth"),
        (("explain", "cat.png", "--model", "vgg16", "--weights", "names.txt"), "cannot read weights"),
        (("explain", "cat.png", "--model", "net:nothing"), "cannot take a model"),
        (("explain", "cat.png", "--model", "net:wrong"), "the model failed on an image of shape"),
        (("explain", "cat.png", *SMALL, "--methods", "lime"), "unknown method 'lime'"),
        (("explain", "cat.png", *SMALL, "--methods", ","), "no method given"),
        (("explain", "cat.png", *SMALL, "--methods", "pgig"), "pgig needs patterns: give --patterns FILE"),
        (("explain", "cat.png", *SMALL, "--methods", "expected_gradients"), "needs references: give --references DIR"),
        (("explain", "cat.png", *SMALL, "--target", "6"), "target 6 is out of range: the model's classes are 0..5"),
        (("explain", "cat.png", *SMALL, "--mean", "1,2"), "--mean needs three numbers"),
        (("explain", "cat.png", *SMALL, "--patterns", "names.txt"), "cannot read patterns"),
        (("explain", "cat.png", *SMALL, "--classes", "cat.png"), "not UTF-8"),
        (("explain", "cat.png", *SMALL, "--references", "nowhere"), "no folder of references"),
        (("explain", "cat.png", *SMALL, "--steps", "0"), "steps must be"),
        (("explain", "cat.png", *SMALL, "--score", "odds"), "unknown score"),
        (("explain", "cat.png", *SMALL, "--size", "64"), "size 64"),
        (("explain", "cat.png", *SMALL, "--out", "names.txt"), "names.txt"),
        (("explain", *SMALL), "Missing argument"),
        (("explode",), "No such command"),
    ],
)
def test_bad_arguments_get_a_clear_line_and_exit_code_2(folder, arguments, message):
    done = run(folder, *arguments)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr
    if done.stderr.startswith("pgig:"):
        assert done.stderr.count("\n") == 1


def test_nothing_half_written_remains(folder, monkeypatch):
    from pgig.files import written

    target = folder / "deep" / "file.txt"
    with pytest.raises(OSError, match="disk full"), written(target) as path:
        path.write_text("half")
        raise OSError("disk full")
    assert list((folder / "deep").iterdir()) == []
    with written(target) as path:
        path.write_text("whole")
    assert [p.name for p in (folder / "deep").iterdir()] == ["file.txt"]
