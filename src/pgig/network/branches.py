"""Following tensors through a trace: on how many paths they come from the input, and which axis counts their units."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from pgig.network.joins import JoinCall, read_join
from pgig.network.layer_calls import Operation
from pgig.network.layers import Layers
from pgig.network.nested import tensors_in

_TURNING = {Tensor.permute, torch.permute, Tensor.transpose, torch.transpose}


class Branches:
    def __init__(self, layers: Layers) -> None:
        self._layers = layers
        self._paths: dict[int, float] = {}
        self._axes: dict[int, int] = {}
        self._held: list[Tensor] = []  # so that no id is reused
        self.most = 1.0

    def begin(self, inputs: Any) -> None:
        for tensor in tensors_in(inputs):
            self._set(tensor, 1.0, None)

    def through(self, x: Tensor, result: Tensor, axis: int | None) -> None:
        """A layer."""
        self._set(result, self._paths.get(id(x), 1.0), axis)

    def follow(self, func: Operation, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> None:
        """Any other operation: branches that are added bring their paths together, others the most of one."""
        found = [self._paths[id(t)] for t in tensors_in((args, kwargs)) if id(t) in self._paths]
        if not found:
            return
        joined = read_join(func, args, kwargs, self._layers) is not None
        paths = sum(found) if joined else max(found)
        axis = self._axis_behind(func, args, kwargs)
        for tensor in tensors_in(result):
            same = axis is not None and (func in _TURNING or any(_alike(tensor, t) for t in tensors_in(args)))
            self._set(tensor, paths, axis if same else None)

    def axis(self, join: JoinCall) -> int | None:
        """Which axis of a join's branches counts units, if that is known."""
        return next((self._axes[id(t)] for t in (join.a, join.b) if id(t) in self._axes), None)

    def _axis_behind(self, func: Operation, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int | None:
        known = next((t for t in tensors_in(args) if id(t) in self._axes), None)
        if known is None:
            return None
        axis = self._axes[id(known)]
        if func not in _TURNING:
            return axis
        if kwargs or known is not args[0]:
            return None
        order = args[1] if len(args) == 2 and isinstance(args[1], list | tuple) else args[1:]
        if func in (Tensor.transpose, torch.transpose):
            one, other = (int(a) % known.dim() for a in order)
            return other if axis == one else one if axis == other else axis
        turned = [int(a) % known.dim() for a in order]
        return turned.index(axis) if axis in turned else None

    def _set(self, tensor: Tensor, paths: float, axis: int | None) -> None:
        self._held.append(tensor)
        self._paths[id(tensor)] = paths
        self.most = max(self.most, paths)
        self._axes.pop(id(tensor), None)
        if axis is not None:
            self._axes[id(tensor)] = axis


def _alike(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape
