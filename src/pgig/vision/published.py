"""The published VGG-16 files: weights and patterns as numpy archives, for BGR input."""

from pathlib import Path

import numpy
import torch
from torch import Tensor

from pgig.errors import PgigError
from pgig.patterns.patterns import Patterns
from pgig.vision.preprocess import Preprocess

# the layers in the order of the files; the last three are fully connected and stored transposed
_LAYERS = [f"features.{i}" for i in (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)] + [
    f"classifier.{i}" for i in (0, 3, 6)
]
# 0..255 minus these means, in the order blue, green, red
PUBLISHED_PREPROCESS = Preprocess(
    mean=(103.939 / 255, 116.779 / 255, 123.68 / 255), std=(1 / 255, 1 / 255, 1 / 255), channels="BGR"
)


def read_published_weights(path: Path) -> dict[str, Tensor]:
    """A state dict of VGG-16 from `arr_0 .. arr_31`: weight and bias by turns."""
    arrays = _arrays(path, [f"arr_{i}" for i in range(32)])
    state = {}
    for number, layer in enumerate(_LAYERS):
        state[f"{layer}.weight"] = _upright(layer, arrays[2 * number])
        state[f"{layer}.bias"] = arrays[2 * number + 1]
    return state


def read_published_patterns(path: Path) -> Patterns:
    """The patterns `A_0 .. A_15`; without a digest, since the file does not say which weights they belong to."""
    arrays = _arrays(path, [f"A_{i}" for i in range(16)])
    return Patterns(
        {layer: _upright(layer, array) for layer, array in zip(_LAYERS, arrays, strict=True)},
        facts={"samples": f"unknown, imported from {path.name}"},
    )


def _upright(layer: str, array: Tensor) -> Tensor:
    if not layer.startswith("classifier"):
        return array
    if array.dim() != 2:
        raise PgigError(f"not in the published format: the array of {layer} has {array.dim()} axes, expected 2")
    return array.mT.contiguous()


def _arrays(path: Path, names: list[str]) -> list[Tensor]:
    if not path.is_file():
        raise PgigError(f"no file at {path}")
    try:
        with numpy.load(path, allow_pickle=False) as file:
            if missing := [name for name in names if name not in file.files]:
                raise PgigError(f"{path} is not in the published format: no array {missing[0]!r}")
            return [torch.from_numpy(numpy.ascontiguousarray(file[name], dtype=numpy.float32)) for name in names]
    except PgigError:
        raise
    except Exception as error:  # a broken archive can break its reader in any way
        raise PgigError(f"cannot read {path}: it is not a numpy archive of plain arrays") from error
