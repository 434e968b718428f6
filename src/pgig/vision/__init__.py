"""Images from files, named architectures, and weights."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgig.vision.classes import imagenet_classes
    from pgig.vision.models import MODELS, default_preprocess, load_model
    from pgig.vision.preprocess import Preprocess
    from pgig.vision.weights import load_weights

__all__ = ["MODELS", "Preprocess", "default_preprocess", "imagenet_classes", "load_model", "load_weights"]

# loaded at first use: names of models are known without torch
_HOMES = {
    "MODELS": "models", "Preprocess": "preprocess", "default_preprocess": "models", "imagenet_classes": "classes",
    "load_model": "models", "load_weights": "weights",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'pgig.vision' has no attribute {name!r}")
    value = getattr(import_module(f"pgig.vision.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
