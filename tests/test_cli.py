"""The command as a user runs it."""

from contextlib import chdir
from pathlib import Path

import numpy
import pytest
import torch
from commands import FACTORY, run, with_pictures
from networks import layer_weights
from PIL import Image
from safetensors.torch import save_file

import pgig
from pgig.plugins import forgotten_afterwards


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return with_pictures(tmp_path)


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
    done = run(
        folder, "explain", "cat.png", "dog.png", *SMALL, "--classes", "names.txt", "--save-arrays", "--methods", "all",
        "--formats", "png,svg,pdf", "--out", "o",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "left out: pattern_attribution, pgig" in done.stderr
    assert "name " in done.stdout
    written = {path.stem for path in (folder / "o" / "cat").iterdir()}
    without_patterns = {n for n in list(pgig.METHODS)[:11] if not pgig.METHODS[n].rule.needs_patterns}
    assert written == without_patterns | {"sheet"}
    for name in without_patterns:
        kept = pgig.Explanation.load(folder / "o" / "dog" / f"{name}.safetensors")
        assert (kept.method, kept.version, kept.score) == (name, pgig.__version__, "probability")
        assert kept.label.startswith("Why “name ")
        array = numpy.load(folder / "o" / "dog" / f"{name}.npy")
        assert array.shape == (3, 32, 32)
        assert numpy.array_equal(array, kept.attribution[0])
    assert {path.suffix for path in (folder / "o" / "cat").glob("sheet.*")} == {".png", ".svg", ".pdf"}
    with Image.open(folder / "o" / "dog" / "gradient.png") as image:
        assert image.size == (32, 32)


def made(folder: Path) -> torch.nn.Module:
    with chdir(folder), forgotten_afterwards():
        return pgig.vision.load_model("net:make")


def test_explain_uses_patterns_a_target_and_the_same_seed(folder):
    save_file({name: torch.rand_like(w) for name, w in layer_weights(made(folder)).items()}, folder / "p.safetensors")
    call = ("explain", "cat.png", *SMALL, "--methods", "pgig,vargrad", "--patterns", "p.safetensors", "--target", "3")
    for out in ("a", "b"):
        done = run(folder, *call, "--save-arrays", "--steps", "5", "--out", out)
        assert done.returncode == 0, done.stderr
    for name in ("pgig", "vargrad"):
        first, second = (numpy.load(folder / out / "cat" / f"{name}.npy") for out in ("a", "b"))
        assert numpy.array_equal(first, second)


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
        (("explain", "cat.png", *SMALL, "--target", "6"), "no class 6: the model knows 6, from 0 to 5"),
        (
            ("explain", "cat.png", *SMALL, "--target", "cat"),
            "the names of this model's classes are not known: give --cl",
        ),
        (("explain", "cat.png", *SMALL, "--contrast", "1"), "a contrast is of two classes"),
        (("explain", "cat.png", *SMALL, "--contrast", "1,1"), "two different classes"),
        (("explain", "cat.png", *SMALL, "--top", "0"), "the likeliest classes are from 1 to 6"),
        (("explain", "cat.png", *SMALL, "--formats", "gif"), "--formats needs some of png, svg, pdf"),
        (("explain", "cat.png", *SMALL, "--patterns", "auto:negative"), "no patterns of these weights with the regime"),
        (("explain", "cat.png", "--target", "egyptian dog"), "did you mean 'Egyptian cat'"),
        (("explain", "cat.png", "--target", "crane"), "'crane' are several classes: give one of the numbers 134, 517"),
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
    of_the_parser = message in ("Missing argument", "No such command")  # which says how a command is used, in a box
    assert of_the_parser or (done.stderr.startswith("pgig:") and done.stderr.count("\n") == 1)


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


def test_a_folder_is_explained_image_by_image(folder):
    photos = folder / "photos" / "class0"
    photos.mkdir(parents=True)
    for name in ("cat", "dog"):
        (folder / f"{name}.png").rename(photos / f"{name}.png")
    (photos / "bad.png").write_bytes(b"no image")
    (photos / "e\x1b[31mvil.jpg").write_bytes(b"")
    done = run(folder, "explain", "photos", *SMALL, "--methods", "gradient,expected_gradients", "--samples", "2")
    assert done.returncode == 0, done.stderr
    found = {path.name for path in (folder / "explained").iterdir()}
    assert found == {"class0-cat", "class0-dog", "index.html", "results.json"}
    assert "skipped photos/class0/bad.png: not an image" in done.stderr
    assert "2 of 4 images skipped" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    for path in photos.glob("*og.png"):
        path.unlink()
    (photos / "cat.png").write_bytes(b"")
    done = run(folder, "explain", "photos", *SMALL, "--methods", "gradient")
    assert done.returncode == 2
    assert "none of the 3 images could be read" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_option_is_not_given_twice(folder):
    call = ("explain", "cat.png", *SMALL, "--methods", "integrated_gradients+steps=100", "--steps", "5")
    done = run(folder, *call)
    assert done.returncode == 2
    assert "steps is given twice: in 'integrated_gradients+steps=100', and as 5 for all methods" in done.stderr


def test_the_traceback_is_there_for_those_who_ask(folder, monkeypatch):
    call = ("explain", "nowhere.png", *SMALL)
    assert "Traceback" not in run(folder, *call).stderr
    monkeypatch.setenv("PGIG_TRACEBACK", "1")
    said = run(folder, *call).stderr
    assert "Traceback (most recent call last)" in said
    assert said.splitlines()[-1] == "pgig: no image at nowhere.png"


COMPUTING = {
    "explain": ("cat.png", *SMALL), "patterns": (*SMALL, "--images", ".", "--out", "p.safetensors"),
    "check": SMALL[:4],
    "degrade": (*SMALL, "--images", ".", "--methods", "gradient", "--patch", "8", "--steps", "4", "--out", "run"),
    "randomize": (*SMALL, "--images", ".", "--out", "sanity"), "stress": (), "truth": (), "demo": (),
}  # fmt: skip


@pytest.mark.parametrize("command", COMPUTING)
def test_every_command_that_computes_takes_threads_and_refuses_none(folder, command):
    wrong = {"explain": "100000"}.get(command, "0")
    done = run(folder, command, *COMPUTING[command], "--threads", wrong)
    assert done.returncode == 2
    assert done.stderr.strip() == f"pgig: threads must be from 1 to 512, got {wrong}"


@pytest.mark.parametrize("command", ["explain", "patterns", "check", "degrade", "randomize"])
@pytest.mark.parametrize(
    ("made", "match"),
    [
        ("net[4].weight.data[0, 0] = float('nan')", "NaN or infinite weights ('4.weight')"),
        ("net = net.to('meta')", "no weights: '0.weight' is on the meta device"),
        ("with torch.inference_mode(): net = make()", "was made under torch.inference_mode"),
    ],
    ids=["NaN", "meta", "inference"],
)
def test_models_that_cannot_be_used_are_named_at_once(folder, command, made, match):
    (folder / "net.py").write_text(FACTORY + f"\ndef odd():\n    net = make()\n    {made}\n    return net\n")
    call = [word.replace("net:make", "net:odd") for word in COMPUTING[command]]
    done = run(folder, command, *call)
    assert done.returncode == 2
    assert match in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("dtype", [torch.int64, torch.float8_e4m3fn, torch.bool, torch.complex64])
def test_weights_of_another_kind_are_refused(folder, dtype):
    net = made(folder)
    state = {name: tensor.to(dtype) if name == "4.weight" else tensor for name, tensor in net.state_dict().items()}
    torch.save(state, folder / "odd.pth")
    done = run(folder, "explain", "cat.png", *SMALL, "--weights", "odd.pth")
    assert done.returncode == 2
    assert "the weights '4.weight' are" in done.stderr


def test_patterns_from_one_image_say_that_layers_are_dead(folder):
    silent = FACTORY + "\ndef silent():\n    net = make()\n    net[0].bias.data.fill_(-50)\n    return net\n"
    (folder / "net.py").write_text(silent)
    call = ["patterns", *SMALL, "--images", ".", "--limit", "1", "--out", "p.safetensors"]
    done = run(folder, *[word.replace("net:make", "net:silent") for word in call])
    assert done.returncode == 0
    assert "all units of '0', '4' are dead" in done.stderr


def test_a_folder_with_one_image_that_can_be_read(folder):
    (folder / "photos").mkdir()
    (folder / "cat.png").rename(folder / "photos" / "cat.png")
    (folder / "photos" / "bad.png").write_bytes(b"")
    done = run(folder, "explain", "photos", *SMALL, "--samples", "2", "--steps", "2", "--methods", "all")
    assert done.returncode == 0, done.stderr
    assert "left out: expected_gradients" in done.stderr
    assert "skipped photos/bad.png" in done.stderr


def test_a_model_that_mixes_its_rows_on_the_command_line(folder):
    mixing = "\nclass Mix(nn.Sequential):\n    def forward(self, x):\n        return super().forward(x - x.mean(0))\n"
    (folder / "net.py").write_text(FACTORY + mixing + "\ndef mix():\n    return Mix(*make())\n")
    call = ("explain", "cat.png", "--model", "net:mix", *SMALL[2:], "--methods", "integrated_gradients", "--steps", "2")
    done = run(folder, *call)
    assert done.returncode == 2
    assert "batch_size='whole'" in done.stderr
    assert run(folder, *call, "--batch-size", "whole").returncode == 0
    done = run(folder, *call, "--batch-size", "some")
    assert done.returncode == 2
    assert "--batch-size needs a whole number, or `whole`" in done.stderr
    degrade = ("degrade", "--model", "net:mix", *COMPUTING["degrade"][2:])
    assert "its scores cannot be measured here" in run(folder, *degrade).stderr


def test_infinite_masks_are_no_bad_weights(folder):
    masked = (
        "\ndef masked():\n    net = make()\n    net.register_buffer('mask', torch.full((3, 3), -torch.inf).triu(1))\n"
    )
    (folder / "net.py").write_text(FACTORY + masked + "    return net\n")
    call = ("explain", "cat.png", "--model", "net:masked", *SMALL[2:], "--methods", "gradient", "--weights", "random")
    assert run(folder, *call).returncode == 0


def test_a_command_leaves_its_process_as_it_was(folder):
    """Warnings, signals, threads, modules of the working folder, the path: whether it succeeds or not."""
    import signal
    import sys
    import warnings

    def state() -> tuple[object, ...]:
        handlers = tuple(signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM))
        return (
            handlers,
            torch.get_num_threads(),
            warnings.showwarning,
            list(warnings.filters),
            list(sys.path),
            Path.cwd(),
        )

    before = state()
    call = ("explain", "cat.png", *SMALL, "--methods", "gradient", "--threads")
    assert run(folder, *call, "2").returncode == 0
    assert state() == before
    assert run(folder, *call, "-2").returncode == 2
    assert run(folder, "patterns", *SMALL, "--images", ".", "--out", "p.safetensors").returncode == 0
    assert run(folder, "explain", "cat.png", *SMALL, "--weights", "none").returncode == 2
    assert state() == before
    assert "net" not in sys.modules
    (folder / "net.py").write_text(
        FACTORY.replace("make()", "other()")
    )  # another file of the same name is another module
    done = run(folder, *call, "1")
    assert done.returncode == 2
    assert "has no attribute 'make'" in done.stderr


def test_hints_name_options_that_the_command_has(folder):
    """What is said to be lacking inside is tied to a flag at the command; every word has one."""
    import re

    from pgig.cli.hints import _OF_COMMAND, HINTS

    words = set()
    for path in (Path(pgig.__file__).parent).rglob("*.py"):
        words |= set(re.findall(r'lacks="([^"]+)"', path.read_text()))
    assert words == HINTS.keys()
    commands = "explain", "bench", "degrade", "randomize", "patterns", "app"
    helped = {name: run(folder, name, "--help").stdout for name in commands}
    everything = "".join(helped.values())
    for hint in HINTS.values():
        assert all(flag in everything for flag in re.findall(r"--[a-z-]+", hint)), hint
    for (command, _), hint in _OF_COMMAND.items():
        assert all(flag in helped[command] for flag in re.findall(r"--[a-z-]+", hint)), hint
    done = run(folder, "explain", "cat.png", *SMALL, "--methods", "pgig")
    assert "pgig needs patterns: give --patterns FILE" in done.stderr
    done = run(folder, "randomize", *SMALL, "--images", ".", "--methods", "pgig", "--out", "sanity")
    assert "pgig need patterns: give --patterns FILE, --estimate-from DIR" in done.stderr
