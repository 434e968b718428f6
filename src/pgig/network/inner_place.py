"""Inner places: a layer's output in the middle of a model, as something to look at and to start from."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import parametrize
from torch.overrides import TorchFunctionMode

from pgig.errors import PgigError
from pgig.network.layer_calls import Operation, read_layer_call
from pgig.network.layers import Layers


def output_at(model: Callable[..., Any], layer: str, *inputs: Any, **named: Any) -> Tensor:
    """What the layer of this name gives when the model is called, before any norm or activation behind it."""
    with torch.no_grad(), parametrize.cached():
        mode = _Replacing(model, layer, None)
        with mode:
            model(*(x.clone() if isinstance(x, Tensor) else x for x in inputs), **named)
    return mode.seen()


def run_from(model: Callable[..., Any], layer: str, value: Tensor, *inputs: Any, **named: Any) -> Any:
    """What the model gives for `inputs` where the output of this layer is `value`."""
    mode = _Replacing(model, layer, value)
    with mode:
        result = model(*inputs, **named)
    mode.seen()
    return result


class _Replacing(TorchFunctionMode):
    def __init__(self, model: Callable[..., Any], layer: str, value: Tensor | None) -> None:
        super().__init__()
        self._layers, self._layer, self._value = Layers(model, None, channels_last=False), layer, value
        self._seen: list[Tensor] = []

    def __torch_function__(
        self, func: Operation, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        call = read_layer_call(func, args, kwargs or {}, self._layers.find)
        if call is None or call.layer.name != self._layer:
            return result
        self._seen.append(result)
        if self._value is not None and self._value.shape != result.shape:
            raise PgigError(
                f"layer {self._layer!r} gives {tuple(result.shape)}, not {tuple(self._value.shape)} as was handed in"
            )
        return result if self._value is None else self._value

    def seen(self) -> Tensor:
        if len(self._seen) != 1:
            times = f"was called {len(self._seen)} times" if self._seen else "was not called"
            raise PgigError(f"layer {self._layer!r} {times}: an inner place is the output of one call")
        return self._seen[0].detach()
