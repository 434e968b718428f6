"""Inner places: the output of a layer or an embedding, as something to look at and to start from."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils import parametrize

from pgig.errors import PgigError
from pgig.network.layer_calls import Operation, read_layer_call
from pgig.network.layer_mode import LayerMode
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


class _Replacing(LayerMode):
    def __init__(self, model: Callable[..., Any], layer: str, value: Tensor | None) -> None:
        super().__init__(Layers(model, None, channels_last=False))
        self._place, self._value = layer, value
        self._reads_layers = False  # here: other modes must see the call as it is
        self._seen: list[Tensor] = []
        self._is_embedding = False

    def _other(self, func: Operation, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        assert self._layers is not None
        result = func(*args, **kwargs)
        if func is F.embedding:
            found = self._layers.find(kwargs.get("weight", args[1] if len(args) > 1 else None))
            is_place = found is not None and found.name == self._place
            self._is_embedding |= is_place
        else:  # the same weight may also be that of a model's last layer
            call = None if self._is_embedding else read_layer_call(func, args, kwargs, self._layers.find)
            is_place = call is not None and call.layer.name == self._place
        return self._replaced(result) if is_place else result

    def _replaced(self, result: Tensor) -> Tensor:
        self._seen.append(result)
        if self._value is not None and self._value.shape != result.shape:
            raise PgigError(
                f"layer {self._place!r} gives {tuple(result.shape)}, not {tuple(self._value.shape)} as was handed in"
            )
        return result if self._value is None else self._value

    def seen(self) -> Tensor:
        if len(self._seen) != 1:
            times = f"was called {len(self._seen)} times" if self._seen else "was not called"
            raise PgigError(f"layer {self._place!r} {times}: an inner place is the output of one call")
        return self._seen[0].detach()
