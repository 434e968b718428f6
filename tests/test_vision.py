"""Architectures, weights and preprocessing."""

import pickle
import tarfile
import zipfile

import numpy
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import pgig
from pgig.vision import MODELS, Preprocess, load_model, load_weights
from pgig.vision.image_folder import ImageFolder
from pgig.vision.weights import _DEFAULT_FILES, read_weights

# the number of parameters that torchvision documents for its ImageNet models
PARAMETERS = {
    "vgg11": 132863336, "vgg13": 133047848, "vgg16": 138357544, "vgg19": 143667240,
    "vgg11_bn": 132868840, "vgg13_bn": 133053736, "vgg16_bn": 138365992, "vgg19_bn": 143678248,
    "squeezenet1_0": 1248424, "squeezenet1_1": 1235496,
    "resnet18": 11689512, "resnet34": 21797672, "resnet50": 25557032,
}  # fmt: skip


@pytest.mark.parametrize("name", PARAMETERS)
def test_architectures_have_torchvisions_parameters(name):
    with torch.device("meta"):
        model = MODELS[name](name, 1000)
    assert sum(p.numel() for p in model.parameters()) == PARAMETERS[name]
    assert name in _DEFAULT_FILES
    keys = set(model.state_dict())
    expected = {
        "v": {"features.0.weight", "classifier.6.bias"},
        "s": {"features.0.weight", "features.3.squeeze.weight", "features.12.expand3x3.bias", "classifier.1.bias"},
        "r": {
            "conv1.weight",
            "layer1.0.bn1.running_var",
            "layer4.1.conv2.weight",
            "layer2.0.downsample.0.weight",
            "fc.bias",
        },
    }
    assert expected[name[0]] <= keys
    assert model.eval()(torch.zeros(2, 3, 224, 224, device="meta")).shape == (2, 1000)


def test_the_real_squeezenet_knows_an_elephant(shared):
    model = load_model("squeezenet1_0", str(shared / "models" / "squeezenet1_0_imagenet.safetensors"))
    (path,) = (shared / "imagenet-sample" / "images").glob("386_*")
    preprocess = Preprocess()
    x = preprocess.normalise(preprocess.pixels(path))[None]
    assert int(model(x).argmax()) == 386
    a = pgig.attribute_all(["integrated_gradients", "guided_backprop", "vargrad"], model, x, steps=5, samples=5)
    assert all(v.isfinite().all() for v in a.values())


@pytest.fixture
def small(tmp_path):
    """A SqueezeNet for seven classes, in files of every format."""
    torch.manual_seed(0)
    state = MODELS["squeezenet1_1"]("squeezenet1_1", 7).state_dict()
    save_file(state, tmp_path / "net.safetensors")
    torch.save(state, tmp_path / "net.pth")
    torch.save({"state_dict": state, "epoch": 3}, tmp_path / "checkpoint.pth")
    return tmp_path, state


def test_weights_come_from_files_and_urls(small, monkeypatch):
    folder, state = small
    sources = [str(folder / n) for n in ("net.safetensors", "net.pth", "checkpoint.pth")]
    sources.append((folder / "net.pth").as_uri())
    for source in sources:
        model = load_model("squeezenet1_1", source)
        assert not model.training
        assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in state.items())


def test_a_url_is_downloaded_once_into_torch_hubs_cache(small, monkeypatch):
    folder, state = small
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(folder / "hub"))
    fetched = []

    def download(url, path, hash_prefix, progress):
        fetched.append((url, hash_prefix))
        torch.save(state, path)

    monkeypatch.setattr(torch.hub, "download_url_to_file", download)
    for _ in range(2):
        load_model("squeezenet1_1", "default")
    assert fetched == [("https://download.pytorch.org/models/squeezenet1_1-b8a52dc0.pth", "b8a52dc0")]

    def offline(*_, **__):
        raise OSError("no route to host")

    monkeypatch.setattr(torch.hub, "download_url_to_file", offline)
    with pytest.raises(pgig.PgigError, match=r"cannot download .*other\.pth: no route to host"):
        read_weights("https://example.org/other.pth")


def test_weights_that_cannot_be_used_are_refused(small, tmp_path):
    folder, _ = small
    (tmp_path / "garbage.pth").write_bytes(b"no weights")
    (tmp_path / "garbage.safetensors").write_bytes(b"no weights either")
    (tmp_path / "empty.pth").write_bytes(b"")

    class Evil:
        def __reduce__(self):
            return (print, ("code ran",))

    (tmp_path / "evil.pth").write_bytes(pickle.dumps({"a": Evil()}))
    torch.save({"a": Evil()}, tmp_path / "evil-zip.pth")
    for name in ("garbage.pth", "garbage.safetensors", "empty.pth", "evil.pth", "evil-zip.pth"):
        with pytest.raises(pgig.PgigError, match="cannot read weights"):
            load_model("squeezenet1_1", str(tmp_path / name))
    torch.save([1, 2], tmp_path / "list.pth")
    refusals = {
        str(tmp_path / "list.pth"): "holds no state dict",
        str(tmp_path / "nowhere.pth"): "no weights file",
        None: "needs weights",
    }
    for weights, match in refusals.items():
        with pytest.raises(pgig.PgigError, match=match):
            load_model("squeezenet1_1", weights)
    with pytest.raises(pgig.PgigError, match=r"for another model: .* names differ"):
        load_model("resnet18", str(folder / "net.pth"))
    with pytest.raises(pgig.PgigError, match=r"for another model: 'features.0.weight' has shape"):
        load_weights(
            MODELS["squeezenet1_0"]("squeezenet1_0", 7),
            {**MODELS["squeezenet1_0"]("squeezenet1_0", 7).state_dict(), "features.0.weight": torch.ones(1)},
        )
    with pytest.raises(pgig.PgigError, match="unknown model 'vgg12'"):
        load_model("vgg12")
    with pytest.raises(pgig.PgigError, match="named models only"):
        read_weights("default")


def test_a_factory_of_the_users_own(tmp_path, monkeypatch):
    (tmp_path / "my_net.py").write_text("import torch\ndef make(): return torch.nn.Linear(2, 3)\ndef bad(): return 5\n")
    monkeypatch.chdir(tmp_path)
    assert load_model("my_net:make").out_features == 3
    for path, match in [("my_net:bad", "returned a int"), ("my_net:no", "cannot take"), ("no_net:make", "cannot take")]:
        with pytest.raises(pgig.PgigError, match=match):
            load_model(path)


# -- preprocessing ------------------------------------------------------------------------------------------------


def picture(mode="RGB", size=(60, 40)) -> Image.Image:
    rng = numpy.random.default_rng(0)
    return Image.fromarray(rng.integers(0, 255, (size[1], size[0], 3), numpy.uint8)).convert(mode)


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "P", "CMYK", "1"])
@pytest.mark.parametrize("size", [(60, 40), (33, 90), (5, 5), (32, 32)])
def test_images_of_every_kind_become_a_square(tmp_path, mode, size):
    path = tmp_path / f"image.{'tif' if mode == 'CMYK' else 'png'}"
    picture(mode, size).save(path)
    pixels = Preprocess(size=24, resize=32).pixels(path)
    assert pixels.shape == (3, 24, 24)
    assert 0 <= pixels.min() <= pixels.max() <= 1


def test_sixteen_bits_keep_their_range(tmp_path):
    ramp = numpy.linspace(0, 65535, 64 * 64).reshape(64, 64).astype(numpy.uint16)
    Image.fromarray(ramp).save(tmp_path / "deep.png")
    pixels = Preprocess(64, 64).pixels(tmp_path / "deep.png")
    assert pixels.min() < 0.02
    assert pixels.max() > 0.98
    assert abs(float(pixels.mean()) - 0.5) < 0.02


def test_wide_values_and_long_strips(tmp_path):
    fractions = numpy.linspace(0, 1, 64 * 64, dtype=numpy.float32).reshape(64, 64)
    Image.fromarray(fractions).save(tmp_path / "fractions.tif")
    Image.fromarray((fractions * 65535).astype(numpy.int32)).save(tmp_path / "deep.tif")
    for name in ("fractions.tif", "deep.tif"):
        assert abs(float(Preprocess(64, 64).pixels(tmp_path / name).mean()) - 0.5) < 0.02
    Image.fromarray(fractions * 1e9).save(tmp_path / "huge.tif")
    with pytest.raises(pgig.PgigError, match="its values are not"):
        Preprocess().pixels(tmp_path / "huge.tif")
    Image.new("RGB", (2, 60_000), (255, 0, 0)).save(tmp_path / "strip.png")
    pixels = Preprocess().pixels(tmp_path / "strip.png")
    assert pixels[0].min() == 1
    assert pixels[1].max() == 0


def test_a_camera_held_sideways_is_set_upright(tmp_path):
    image = Image.new("RGB", (40, 20))
    image.paste((255, 0, 0), (0, 0, 20, 20))
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees
    image.save(tmp_path / "turned.png", exif=exif)
    pixels = Preprocess(20, 20).pixels(tmp_path / "turned.png")
    assert pixels[0, 0].mean() > 0.9
    assert pixels[0, -1].mean() < 0.1


def test_normalisation_and_channel_order(tmp_path):
    pixels = torch.rand(3, 4, 4)
    standard = Preprocess().normalise(pixels)
    torch.testing.assert_close(standard[1], (pixels[1] - 0.456) / 0.224)
    flipped = Preprocess(mean=(0, 0, 0), std=(1, 1, 1), channels="BGR").normalise(pixels)
    assert torch.equal(flipped, pixels.flip(0))


def test_unreadable_images_are_refused(tmp_path):
    (tmp_path / "text.png").write_text("no image")
    (tmp_path / "empty.jpg").write_bytes(b"")
    picture().save(tmp_path / "whole.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "whole.png").read_bytes()[:2000])
    for name in ("text.png", "empty.jpg", "cut.png", "missing.png"):
        with pytest.raises(pgig.PgigError, match=rf"(cannot read the|no) image .*{name}"):
            Preprocess().pixels(tmp_path / name)
    for bad in ({"size": 0}, {"size": 300}, {"std": (0, 1, 1)}, {"mean": (1, 2)}, {"channels": "XYZ"}):
        with pytest.raises(pgig.PgigError):
            Preprocess(**bad)


def test_a_folder_of_archives_is_one_folder(tmp_path):
    """As data sets are kept on clusters; also at an address."""
    for shard, names in (("a.tar", "one.png two.png"), ("b.zip", "three.png")):
        for name in names.split():
            Image.new("RGB", (4, 4), (len(name), 2, 3)).save(tmp_path / name)
        if shard.endswith("tar"):
            with tarfile.open(tmp_path / shard, "w") as tar:
                for name in names.split():
                    tar.add(tmp_path / name, name)
        else:
            with zipfile.ZipFile(tmp_path / shard, "w") as archive:
                archive.write(tmp_path / "three.png", "three.png")
    single = ImageFolder.open(f"file://{tmp_path}/a.tar")
    assert single.names == ("one.png", "two.png")
    assert single.read("two.png") == (tmp_path / "two.png").read_bytes()
    for path in tmp_path.glob("*.png"):
        path.rename(tmp_path.parent / path.name)
    found = ImageFolder.open(tmp_path)
    assert found.names == ("a.tar/one.png", "a.tar/two.png", "b.zip/three.png")
    assert found.read("b.zip/three.png") == (tmp_path.parent / "three.png").read_bytes()
    assert ImageFolder.open(f"file://{tmp_path}").names == found.names
