"""Packages of others that tests meet: imported when needed, with what their import needs."""

from functools import cache
from importlib.util import find_spec
from types import ModuleType

import pytest
import torch

_HELD: list[torch.library.Library] = []


@cache
def transformers() -> ModuleType:
    _allow_torchvision()
    return pytest.importorskip("transformers")


@cache
def timm() -> ModuleType:
    _allow_torchvision()
    return pytest.importorskip("timm")


def _allow_torchvision() -> None:
    """Its compiled operators do not load beside every build of torch; these two must exist for its import."""
    if find_spec("torchvision") is None or _HELD:
        return
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _HELD.append(library)
