"""The mode behind all others: sees what a model's Python calls, reads layers out of it, and knows computed weights."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from inspect import signature
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from pgig.network.attention import attention_by_parts, can_be_told_apart
from pgig.network.join_names import join_name
from pgig.network.joins import JoinCall, read_join
from pgig.network.layer_calls import LayerCall, Operation, read_layer_call
from pgig.network.layers import Layers

_ATTENTION: Any = F.multi_head_attention_forward
_ITS_ARGUMENTS = signature(_ATTENTION)


class LayerMode(TorchFunctionMode):
    """Lets everything pass as it is; other modes change some of it."""

    def __init__(self, layers: Layers | None = None) -> None:
        super().__init__()
        self._layers = layers  # may come later, but before the mode is opened
        self._reads_layers = True
        self._reads_joins = False
        self._joins_seen = 0
        self._passed_on: set[Any] | None = None  # None: every operation is looked at
        self._in_forward, self._in_backward = False, False

    @contextmanager
    def forward(self) -> Iterator[None]:
        """The model's own forward pass, in which joins are known by their number."""
        self._joins_seen, self._in_forward = 0, True
        try:
            yield
            self._check_joins(self._joins_seen)
        finally:
            self._in_forward = False

    def __torch_function__(
        self, func: Operation, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self._passed_on is not None and func not in self._passed_on:
            return func(*args, **kwargs)
        if self._in_backward and not torch.is_grad_enabled():  # what rules and autograd do, not the model
            return func(*args, **kwargs)
        assert self._layers is not None
        if func is _ATTENTION:
            given = _ITS_ARGUMENTS.bind(*args, **kwargs).arguments
            if can_be_told_apart(**given):
                with self:
                    return attention_by_parts(**given)
        if self._reads_layers and (call := read_layer_call(func, args, kwargs, self._layers.find)) is not None:
            if not self._layers.derived.is_of_weights(call.x):
                return self._layer(func, call)
            self._constant(call)
        if (
            self._reads_joins
            and self._is_models_own()
            and (join := read_join(func, args, kwargs, self._layers)) is not None
        ):
            self._joins_seen += 1
            return self._join(replace(join, name=join_name(self._joins_seen)))
        result = self._other(func, args, kwargs)
        if self._passed_on is None:
            self._layers.derived.note(func, args, kwargs, result)
        return result

    def _check_joins(self, seen: int) -> None:
        """After a forward pass: were there as many joins as there should be?"""
        return

    def _layer(self, func: Operation, call: LayerCall) -> Tensor:
        """A call of a layer."""
        return call.as_given(call.run(call.x))

    def _constant(self, call: LayerCall) -> None:
        """A weight that meets weights or constants: what comes of it is one, or a constant, and no layer's output."""
        return

    def _is_models_own(self) -> bool:
        """Does the model itself add here? Also a checkpoint that recomputes, in the middle of the backward pass."""
        return self._in_forward or (self._in_backward and torch.is_grad_enabled())

    def _join(self, join: JoinCall) -> Tensor:
        """An addition in which two branches meet."""
        return join.run()

    def _other(self, func: Operation, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Any other operation."""
        return func(*args, **kwargs)
