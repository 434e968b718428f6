"""The mode behind all others: sees what a model's Python calls, reads layers out of it, and knows computed weights."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from inspect import signature
from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from pgig.network.attention import attention_by_parts, can_be_told_apart
from pgig.network.layer_calls import LayerCall, Operation, read_layer_call
from pgig.network.layers import Layers

_ATTENTION: Any = F.multi_head_attention_forward
_ITS_ARGUMENTS = signature(_ATTENTION)


class LayerMode(TorchFunctionMode, ABC):
    def __init__(self, layers: Layers | None = None) -> None:
        super().__init__()
        self._layers = layers  # may come later, but before the mode is opened
        self._reads_layers = True

    def __torch_function__(
        self, func: Operation, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        assert self._layers is not None
        kwargs = kwargs or {}
        if func is _ATTENTION:
            given = _ITS_ARGUMENTS.bind(*args, **kwargs).arguments
            if can_be_told_apart(**given):
                with self:
                    return attention_by_parts(**given)
        if self._reads_layers and (call := read_layer_call(func, args, kwargs, self._layers.find)) is not None:
            return self._layer(func, call)
        result = self._other(func, args, kwargs)
        self._layers.derived.note(args, kwargs, result)
        return result

    @abstractmethod
    def _layer(self, func: Operation, call: LayerCall) -> Tensor:
        """A call of a layer."""

    @abstractmethod
    def _other(self, func: Operation, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Any other operation."""
