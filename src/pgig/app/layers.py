"""Patterns as a person can look at them: health and signal quality layer by layer, and the first layer as pictures."""

from typing import Any

import numpy
from numpy.typing import NDArray
from torch import Tensor

from pgig.app.network import Network
from pgig.drawing.encoded import as_address

_MOST = 32  # units of the first layer
_SIDE = 52  # pixels of a unit's picture


def shown_layers(network: Network) -> dict[str, Any]:
    patterns = network.patterns
    if patterns is None:
        return {"verdict": "there are no patterns of these weights here: `pgig patterns` estimates them from images",
                "layers": [], "units": [], "first": ""}  # fmt: skip
    quality = patterns.facts.get("quality", {})
    layers = []
    for name, layer in patterns.layers.items():
        weight, pattern, _ = quality.get(name) or (None, None, None)
        unhealthy = (layer.dead + layer.weak + layer.negative + layer.few) / max(1, layer.units)
        layers.append({"name": name, "weight": weight, "pattern": pattern, "unhealthy": unhealthy,
                       "regime": layer.regime})  # fmt: skip
    first = next((name for name, pattern in patterns.items() if pattern.dim() == 4 and pattern.shape[1] == 3), "")
    return {"verdict": patterns.health().verdict, "layers": layers, "first": first,
            "units": _units(network, first) if first else []}  # fmt: skip


def _units(network: Network, layer: str) -> list[dict[str, str]]:
    assert network.patterns is not None
    patterns = network.patterns[layer].detach()
    weights = network.subject.module.get_submodule(layer).weight
    assert isinstance(weights, Tensor)
    return [
        {"weight": _address(weights.detach()[unit]), "pattern": _address(patterns[unit])}
        for unit in range(min(_MOST, len(patterns)))
    ]


def _address(kernel: Tensor) -> str:  # [3, height, width]
    values = kernel.permute(1, 2, 0).double().numpy()
    colours: NDArray[Any] = 0.5 + values / (2 * numpy.abs(values).max() or 1)
    times = max(1, _SIDE // max(values.shape[:2]))
    return as_address((colours.repeat(times, 0).repeat(times, 1) * 255).round().astype(numpy.uint8), 95)
