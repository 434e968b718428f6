"""Weights that a model computes from its parameters at each call: standardised, scaled, masked, joined."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary


class Origin(NamedTuple):
    """The parameter that a computed tensor comes from: the largest, where there are several."""

    name: str
    parameter: Tensor


class DerivedWeights:
    """Knows what was computed from parameters and buffers alone, and from which parameter."""

    def __init__(self, weights: Mapping[int, tuple[str, Tensor]], model: nn.Module | None) -> None:
        self._weights = weights
        self._buffers = {} if model is None else {id(buffer): buffer for buffer in model.buffers()}
        self._origins: Any = WeakTensorKeyDictionary()  # what was computed -> its origin

    def note(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> None:
        """If all tensors that went into an operation are weights, what came out is derived from them."""
        first = args[0] if args else None
        if isinstance(first, Tensor) and not self._is_known(first):  # nearly always
            return
        origins: list[Origin] = []
        for value in (*args, *kwargs.values()):
            for tensor in value if isinstance(value, list | tuple) else (value,):
                if isinstance(tensor, Tensor):
                    if not self._is_known(tensor):
                        return
                    origins += [origin] if (origin := self.origin(tensor)) is not None else []
        if origins:
            origin = max(origins, key=lambda origin: origin.parameter.numel())
            for tensor in result if isinstance(result, list | tuple) else (result,):
                if isinstance(tensor, Tensor) and id(tensor) not in self._weights:
                    self._origins[tensor] = origin

    def origin(self, tensor: Tensor) -> Origin | None:
        """Where a parameter, a view of one, or what was computed from some comes from."""
        for whole in (tensor, tensor._base):
            if whole is not None and (known := self._weights.get(id(whole))) is not None:
                return Origin(*known)
        found: Origin | None = self._origins.get(tensor)
        return found

    def is_of_weights(self, tensor: Tensor) -> bool:
        return self._is_known(tensor)

    def _is_known(self, tensor: Tensor) -> bool:
        base = tensor._base
        return (
            id(tensor) in self._weights
            or id(tensor) in self._buffers
            or (base is not None and (id(base) in self._weights or id(base) in self._buffers))
            or tensor in self._origins
        )
