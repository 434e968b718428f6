"""`pgig patterns` and `pgig check`, as a user runs them."""

import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import numpy
import pytest
import torch
from commands import FACTORY, run
from PIL import Image

import pgig
from pgig.vision import MODELS, Preprocess
from pgig.vision.image_folder import ImageFolder
from pgig.vision.published import _LAYERS, PUBLISHED_PREPROCESS, read_published_patterns

SMALL = ("--model", "net:make", "--size", "32", "--resize", "32")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(FACTORY)
    rng = numpy.random.default_rng(0)
    for number in range(12):
        target = tmp_path / "photos" / f"class{number % 3}"
        target.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (40, 50, 3), numpy.uint8)).save(target / f"{number:02d}.png")
    return tmp_path


def estimated(folder: Path, out: str, *arguments: str, images: str = "photos") -> pgig.Patterns:
    done = run(folder, "patterns", *SMALL, "--images", images, "--out", out, "--batch-size", "4", *arguments)
    assert done.returncode == 0, done.stderr
    return pgig.Patterns.load(folder / out)


def same(one: pgig.Patterns, other: pgig.Patterns) -> bool:
    return one.keys() == other.keys() and all(close(one[name], other[name]) for name in one)


def close(one: torch.Tensor, other: torch.Tensor) -> bool:
    """The rounding of float32 sums in another order."""
    return float((one - other).abs().max()) < 1e-4 * float(other.abs().max())


def test_folders_zips_and_tars_give_the_same(folder):
    with zipfile.ZipFile(folder / "photos.zip", "w") as archive:
        for path in sorted((folder / "photos").rglob("*.png")):
            archive.write(path, path.relative_to(folder / "photos"))
    with tarfile.open(folder / "photos.tar.gz", "w:gz") as tar:
        tar.add(folder / "photos", "photos")
    found = [
        estimated(folder, f"{i}.safetensors", images=n) for i, n in enumerate(("photos", "photos.zip", "photos.tar.gz"))
    ]
    assert same(found[0], found[1])
    assert same(found[0], found[2])
    assert found[0].facts["samples"] == 12
    assert found[0].facts["preprocessing"]["size"] == 32
    assert not list(folder.glob("*.moments.safetensors"))


def test_unreadable_images_are_skipped_and_listed(folder):
    (folder / "photos" / "class0" / "broken.png").write_bytes(b"no image")
    (folder / "photos" / "class1" / "empty.jpg").write_bytes(b"")
    (folder / "photos" / "notes.txt").write_text("not an image, and not asked to be")
    done = run(folder, "patterns", *SMALL, "--images", "photos", "--out", "p.safetensors")
    assert done.returncode == 0
    assert "skipped class0/broken.png" in done.stdout
    assert "2 of 14 images skipped" in done.stdout
    assert pgig.Patterns.load(folder / "p.safetensors").facts["samples"] == 12


def test_damaged_members_of_a_zip_are_skipped(folder):
    paths = sorted((folder / "photos").rglob("*.png"))
    with zipfile.ZipFile(folder / "photos.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in paths:
            archive.write(path, path.name)
        start = archive.infolist()[3].header_offset
    data = bytearray((folder / "photos.zip").read_bytes())
    data[start + 200 : start + 260] = b"x" * 60
    (folder / "photos.zip").write_bytes(data)
    done = run(folder, "patterns", *SMALL, "--images", "photos.zip", "--out", "p.safetensors")
    assert done.returncode == 0, done.stderr
    assert f"skipped {paths[3].name}" in done.stdout


def test_held_out_images_measure_the_quality(folder):
    found = estimated(folder, "p.safetensors", "--held-out", "4")
    assert found.facts["samples"] == 8
    assert "rho(p)" in str(found.health())
    assert len(found.facts["quality"]["0"]) == 3


def test_moments_can_be_kept_and_resumed(folder):
    whole = estimated(folder, "whole.safetensors")
    estimated(folder, "part.safetensors", "--moments", "m.safetensors")
    moments = pgig.Moments.load(folder / "m.safetensors")
    assert moments.notes["done"] == 12
    assert same(moments.patterns(), whole)
    assert same(estimated(folder, "again.safetensors", "--moments", "m.safetensors", "--resume"), whole)
    done = run(folder, "patterns", *SMALL, "--images", "photos", "--limit", "5", "--out", "p", "--moments",
               "m.safetensors", "--resume")  # fmt: skip
    assert done.returncode == 2
    assert "made with other images" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_what_is_interrupted_and_resumed_equals_what_is_not(folder, how):
    (folder / "slow.py").write_text(
        FACTORY + "\nimport time, pgig.runs.patterns\npgig.runs.patterns.CHECKPOINT_SECONDS = 0\n"
        "pgig.runs.patterns.SETTLED = 4\n"
        "class Slow(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.net = make()\n"
        "    def forward(self, x):\n        time.sleep(0.5)\n        return self.net(x)\n"
        "def slow():\n    return Slow()\n"
    )
    call = [sys.executable, "-m", "pgig", "patterns", "--model", "slow:slow", "--size", "32", "--resize", "32"]
    call += ["--images", "photos", "--out", "p.safetensors", "--batch-size", "2"]
    process = subprocess.Popen(call, cwd=folder, stderr=subprocess.PIPE, text=True)
    checkpoint = folder / "p.moments.safetensors"
    deadline = time.monotonic() + 60
    while not checkpoint.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(how)
    _, said = process.communicate(timeout=60)
    assert process.returncode == {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}[how]
    assert how == signal.SIGKILL or "--resume goes on" in " ".join(said.split())
    assert 0 < pgig.Moments.load(checkpoint).notes["done"] < 12
    assert not (folder / "p.safetensors").exists()
    subprocess.run([*call, "--resume"], cwd=folder, check=True, capture_output=True)
    resumed = pgig.Patterns.load(folder / "p.safetensors")
    assert resumed.facts["samples"] == 12
    whole = estimated(folder, "whole.safetensors")
    assert all(close(resumed[f"net.{name}"], whole[name]) for name in whole)
    assert resumed.facts["data"] == whole.facts["data"]
    if how == signal.SIGKILL:  # it goes on from where sums were settled: the same bits
        call[call.index("p.safetensors")] = "again.safetensors"
        subprocess.run(call, cwd=folder, check=True, capture_output=True)
        again = pgig.Patterns.load(folder / "again.safetensors")
        assert all(torch.equal(resumed[name], again[name]) for name in again)


def test_patterns_work_in_explain_and_for_no_other_weights(folder):
    estimated(folder, "p.safetensors")
    image = "photos/class0/00.png"
    call = ("explain", image, "--size", "32", "--resize", "32", "--methods", "pgig", "--patterns", "p.safetensors")
    assert run(folder, *call, "--model", "net:make").returncode == 0
    (folder / "other.py").write_text(FACTORY.replace("manual_seed(0)", "manual_seed(1)"))
    refused = run(folder, *call, "--model", "other:make")
    assert refused.returncode == 2
    assert "other weights" in refused.stderr
    assert run(folder, *call, "--model", "other:make", "--force").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--images", "nowhere"), "no images at nowhere"),
        (("--images", "net.py"), "expected a folder, a zip or a tar file"),
        (("--images", "empty"), "no images in empty"),
        (("--images", "photos", "--regime", "up"), "unknown regime 'up'"),
        (("--images", "photos", "--regime", "conv=linear"), "no layer matches 'conv'"),
        (("--images", "photos", "--batch-size", "0"), "batch size"),
        ((), "either --images or --import"),
        (("--images", "photos", "--out", "/dev/full"), "not a regular file"),
        (("--images", "photos", "--out", "photos"), "photos is a folder"),
        (("--images", "photos", "--moments", "p.safetensors"), "give two files"),
        (("--images", "photos", "--weights", "w.safetensors", "--out", "w.safetensors"), "is the weights file"),
        (("--images", "photos", "--held-out", "12"), "some must remain"),
        (("--images", "photos", "--size", "1"), "failed on an image of shape (1, 3, 1, 1)"),
        (("--images", "damaged.tar"), "the archive damaged.tar is damaged"),
        (("--images", "cut.tar.gz"), "the archive cut.tar.gz is damaged"),
        (("--import", "net.py"), "cannot read net.py: it is not a numpy archive"),
    ],
)
def test_bad_arguments(folder, arguments, message):
    (folder / "empty").mkdir()
    (folder / "w.safetensors").write_bytes(b"weights")
    for name, kind, share in (("damaged.tar", "w", 0.4), ("cut.tar.gz", "w:gz", 0.6)):
        with tarfile.open(folder / name, kind) as tar:
            tar.add(folder / "photos", "photos")
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[: int(share * len(whole))])
    done = run(folder, "patterns", *SMALL, "--out", "p.safetensors", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (folder / "p.safetensors").exists()


def test_check_says_yes_or_no(folder):
    done = run(folder, "check", "--model", "net:make", "--size", "32")
    assert done.returncode == 0
    assert "pattern, positive regime" in done.stdout
    verdict, evaluator = done.stdout.strip().splitlines()[-2:]
    assert verdict.startswith("yes")
    assert evaluator.startswith("degradation: dense: whole forward passes")  # so small a network is quick enough
    assert "times faster by the cost model" in evaluator
    (folder / "nothing.py").write_text(
        "from torch import nn\ndef make(): return nn.Sequential(nn.Flatten(), nn.ReLU())\n"
    )
    done = run(folder, "check", "--model", "nothing:make", "--size", "32")
    assert done.returncode == 2
    assert done.stdout.strip().splitlines()[-2].startswith("no")


def test_pattern_methods_on_the_real_squeezenet(shared):
    from pgig.vision import load_model

    model = load_model("squeezenet1_0", str(shared / "models" / "squeezenet1_0_imagenet.safetensors"))
    folder = ImageFolder.open(shared / "imagenet-sample" / "images").first(12)
    batches = [batch for _, batch in folder.batches(Preprocess(), 4, 0, {})]
    patterns = pgig.estimate_patterns(model, batches)
    assert max(layer.error for layer in patterns.layers.values()) < 1e-5
    found = pgig.attribute_all(["pattern_attribution", "pgig"], model, batches[0][:2], patterns=patterns, steps=5)
    for attribution in found.values():
        assert attribution.isfinite().all()
        assert attribution.abs().sum() > 0


def test_sorted_flat_and_by_class(folder):
    nested = ImageFolder.open(folder / "photos")
    assert list(nested.names) == sorted(nested.names)
    assert nested.names[0] == "class0/00.png"
    assert len(ImageFolder.open(folder / "photos" / "class1").names) == 4
    assert nested.first(5).digest != nested.digest


# -- the published files -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Files in the authors' format, written from random weights."""
    folder = tmp_path_factory.mktemp("published")
    torch.manual_seed(0)
    with torch.device("meta"):
        shapes = {name: p.shape for name, p in MODELS["vgg16"]("vgg16", 1000).named_parameters()}
    state = {name: torch.full(shape, 0.01) for name, shape in shapes.items()}
    for layer in _LAYERS:
        state[f"{layer}.weight"][:2] = torch.randn(2, *shapes[f"{layer}.weight"][1:])
    arrays, patterns = {}, {}
    for number, layer in enumerate(_LAYERS):
        weight = state[f"{layer}.weight"].numpy()
        arrays[f"arr_{2 * number}"] = weight.T if layer.startswith("classifier") else weight
        arrays[f"arr_{2 * number + 1}"] = state[f"{layer}.bias"].numpy()
        patterns[f"A_{number}"] = 2 * arrays[f"arr_{2 * number}"]
    numpy.savez(folder / "weights.npz", **arrays)
    numpy.savez(folder / "patterns.npz", **patterns)
    return folder, state


@pytest.mark.slow
def test_the_published_files_are_read(published):
    from pgig.vision import load_model

    folder, state = published
    model = load_model("vgg16", str(folder / "weights.npz"))
    assert all(torch.equal(p, state[name]) for name, p in model.named_parameters())
    call = (
        "patterns",
        "--model",
        "vgg16",
        "--weights",
        "weights.npz",
        "--import",
        "patterns.npz",
        "--out",
        "p.safetensors",
    )
    done = run(folder, *call)
    assert done.returncode == 0, done.stderr
    found = pgig.Patterns.load(folder / "p.safetensors")
    found.check(model)
    for layer in _LAYERS:
        assert torch.equal(found[layer], 2 * state[f"{layer}.weight"])


def test_the_published_preprocessing_is_bgr_minus_means():
    pixels = torch.rand(3, 4, 4)
    x = PUBLISHED_PREPROCESS.normalise(pixels)
    torch.testing.assert_close(x[0], 255 * pixels[2] - 103.939)
    torch.testing.assert_close(x[2], 255 * pixels[0] - 123.68)
    assert Preprocess().channels == "RGB"


def test_archives_with_code_or_without_the_arrays_are_refused(tmp_path):
    numpy.savez(tmp_path / "other.npz", A_0=numpy.zeros(3))
    with pytest.raises(pgig.PgigError, match="no array 'A_1'"):
        read_published_patterns(tmp_path / "other.npz")
    numpy.savez(tmp_path / "code.npz", **{f"A_{i}": numpy.array([object()]) for i in range(16)})
    with pytest.raises(pgig.PgigError, match="cannot read"):
        read_published_patterns(tmp_path / "code.npz")


def test_unfinished_work_is_not_thrown_away_and_exchanged_images_are_noticed(folder):
    call = ("patterns", "--model", "net:make", "--size", "32", "--resize", "32", "--images", "photos")
    call += ("--out", "p.safetensors")  # type: ignore[assignment]
    assert run(folder, *call, "--moments", "kept.safetensors").returncode == 0
    (folder / "kept.safetensors").rename(folder / "p.moments.safetensors")
    (folder / "p.safetensors").unlink()
    done = run(folder, *call)
    assert done.returncode == 2
    assert "give --resume to go on, or delete it" in done.stderr
    image = next((folder / "photos").glob("*/*.png"))
    whole = image.read_bytes()
    image.write_bytes(whole + b"x")
    done = run(folder, *call, "--resume")
    assert done.returncode == 2
    assert "an image file is another than when it was read" in done.stderr
    image.write_bytes(whole)
    assert run(folder, *call, "--resume").returncode == 0


def test_sums_of_several_workers_leave_other_files_alone(folder):
    """A folder that is named like the moments is the user's; work that was begun is not thrown away."""
    (folder / "m").mkdir()
    (folder / "m" / "mine.txt").write_text("mine")
    whole = estimated(folder, "whole.safetensors")
    found = estimated(folder, "p.safetensors", "--backend", "serial", "--moments", "m.safetensors")
    assert same(found, whole)
    assert (folder / "m" / "mine.txt").read_text() == "mine"
    assert pgig.Moments.load(folder / "m.safetensors").samples == 12
    assert not list(folder.glob("*.sums"))
    sums = folder / "p.moments.safetensors.sums" / "sums"
    sums.mkdir(parents=True)
    (sums / "shards-00-01.safetensors").write_bytes(b"")
    call = ("patterns", *SMALL, "--images", "photos", "--out", "p.safetensors", "--backend", "serial")
    assert "give --resume to go on" in run(folder, *call).stderr
    assert run(folder, *call, "--resume").returncode == 2  # it is damaged
    assert (sums / "shards-00-01.safetensors").exists()


def test_shards_are_fixed_by_the_list_alone_and_added_in_a_fixed_tree():
    from pgig.runs.shards import Branch, branch_of, branches, part_of, shard_count, shards_of

    names = tuple(str(number) for number in range(1000))
    assert [shard_count(n) for n in (1, 256, 257, 10**6)] == [1, 1, 2, 64]
    shards = shards_of(names, 7)
    assert sum(shards, ()) == names
    whole = Branch(0, 7)

    def written(branch):  # what is added to what
        return str(branch.first) if branch.halves is None else None

    tree = whole.folded(written, lambda one, two: f"({one}+{two})")
    for wanted in range(1, 9):
        found = branches(7, wanted)
        assert len(found) >= min(wanted, 7)
        assert sum((part_of(branch, shards).images for branch in found), ()) == names
        assert [branch_of(part_of(branch, shards)) for branch in found] == found
        of = {branch: branch.folded(written, lambda one, two: f"({one}+{two})") for branch in found}
        assert whole.folded(of.get, lambda one, two: f"({one}+{two})") == tree
        rest = branches(7, 8, found[:2])  # with others finished before
        assert sorted([*rest, *found[:2]])[0].first == 0
        assert sum(branch.end - branch.first for branch in [*rest, *found[:2]]) == 7
