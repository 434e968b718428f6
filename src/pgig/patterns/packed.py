"""Patterns in a quarter of the space: sixteen bits a number, scaled for each unit, with w.p as it was."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from pgig.errors import PgigError
from pgig.files import written
from pgig.network.join_names import is_join
from pgig.network.layers import Layers
from pgig.patterns.health import LayerHealth
from pgig.patterns.patterns import Patterns
from pgig.sealing import BLANK, check_seal, seal

_MARK = "pgig packed patterns"
_LARGEST = 2**15 - 1


def save_packed(patterns: Patterns, model: nn.Module, path: Path) -> None:
    """Of the model that they belong to. Layers whose units are not along the first axis are kept as they are."""
    patterns.check(model)
    weights = _weights(model)
    tensors: dict[str, Tensor] = {}
    for name, pattern in patterns.items():
        if is_join(name) or name not in weights:
            tensors[f"{name}|whole"] = pattern.contiguous()
            continue
        scale = pattern.flatten(1).abs().amax(1).clamp_min(torch.finfo(torch.float32).tiny)
        tensors[f"{name}|numbers"] = (pattern / _along(scale, pattern) * _LARGEST).round().to(torch.int16)
        tensors[f"{name}|scale"] = scale.float()
        tensors[f"{name}|product"] = _products(weights[name], pattern).float()
    layers = {name: asdict(layer) for name, layer in patterns.layers.items()}
    about = {"digest": patterns.digest, "layers": layers, "facts": patterns.facts, "seal": BLANK}
    with written(path) as temporary:
        save_file(tensors, temporary, {_MARK: json.dumps(about)})
        seal(temporary)


def is_packed(path: Path) -> bool:
    try:
        with safe_open(path, "pt") as file:
            return _MARK in (file.metadata() or {})
    except (SafetensorError, OSError):  # whoever reads it says what is wrong with it
        return False


def packed_about(path: Path) -> dict[str, Any]:
    """What is said about a file's patterns, without reading them: digest, layers, facts."""
    with safe_open(path, "pt") as file:
        return _about(path, file)


def load_packed(path: Path, model: nn.Module, force: bool = False) -> Patterns:
    """For the model that they belong to: rounding is made good in that w.p is what it was, unit by unit.

    force: for another one too, as they are.
    """
    with safe_open(path, "pt") as file:
        about = _about(path, file)
        check_seal(path, "patterns", True)
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
    if not force:
        Patterns({}, about["digest"]).check(model)
    weights = {} if force else _weights(model)
    found: dict[str, Tensor] = {}
    for key, tensor in tensors.items():
        name, _, kind = key.rpartition("|")
        if kind == "whole":
            found[name] = tensor
        elif kind == "numbers":
            rounded = tensor.double() * _along(tensors[f"{name}|scale"].double() / _LARGEST, tensor)
            if name in weights:
                wanted, product = tensors[f"{name}|product"].double(), _products(weights[name], rounded)
                rounded *= _along(torch.where(product != 0, wanted / product, 1.0), rounded)
            found[name] = rounded.float()
    layers = {name: LayerHealth(**layer) for name, layer in about["layers"].items()}
    return Patterns(found, about["digest"], layers, about["facts"])


def _about(path: Path, file: Any) -> dict[str, Any]:
    about = json.loads((file.metadata() or {}).get(_MARK, "null"))
    if not isinstance(about, dict):
        raise PgigError(f"{path} does not hold packed patterns")
    return about


def _weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: weight.detach() for name, weight in Layers(model, None, channels_last=False).weights()}


def _products(weight: Tensor, pattern: Tensor) -> Tensor:
    return (weight.double() * pattern.double()).flatten(1).sum(1)


def _along(values: Tensor, like: Tensor) -> Tensor:
    return values.reshape(-1, *[1] * (like.dim() - 1))
