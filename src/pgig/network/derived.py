"""Weights that a model computes from its parameters at each call: standardised, scaled, masked, joined."""

from collections.abc import Mapping
from typing import Any, NamedTuple
from weakref import ref

from torch import Tensor

from pgig.network.nested import tensors_in
from pgig.network.torch_ops import OF_THE_SHAPE


class Origin(NamedTuple):
    """The parameter that a computed tensor comes from: the largest, where there are several."""

    name: str
    parameter: Tensor
    names: frozenset[str] = frozenset()  # of all of them


class DerivedWeights:
    """Knows what was computed from parameters and buffers alone, and from which parameter."""

    def __init__(self, weights: Mapping[int, tuple[str, Tensor]], buffers: Mapping[int, Tensor]) -> None:
        self._weights = weights
        self._buffers = buffers
        # what was computed, by its id -> itself, and its origin; None: a constant. Looked at for every operation
        self._origins: dict[int, tuple[ref[Tensor], Origin | None]] = {}

    def note(self, func: object, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> None:
        """If all tensors that went into an operation are weights or constants, so is what came out.

        Constants are what was computed from no input: made by a factory, from a shape, or from buffers.
        """
        first = args[0] if args else None
        if not isinstance(result, Tensor) and type(result) not in (tuple, list):  # a shape, a stride: no values
            if result is None and func is Tensor.__setitem__:
                self._forget(first)
            return
        if isinstance(first, Tensor) and not self._is_known(first) and func not in OF_THE_SHAPE:  # nearly always
            return
        if func not in OF_THE_SHAPE and not all(map(self._is_known, tensors_in((args, kwargs)))):
            self._forget(first)  # it may have been written to
            return
        found = [self.origin(tensor) for tensor in tensors_in((args, kwargs))] if func not in OF_THE_SHAPE else []
        origins = [origin for origin in found if origin is not None]
        origin = max(origins, key=lambda origin: origin.parameter.numel()) if origins else None
        if origin is not None and len(origins) > 1:
            origin = origin._replace(names=frozenset().union(*(one.names or {one.name} for one in origins)))
        for tensor in tensors_in(result):
            if id(tensor) not in self._weights:
                self._keep(tensor, origin)

    def _keep(self, tensor: Tensor, origin: Origin | None) -> None:
        key, origins = id(tensor), self._origins

        def gone(reference: ref[Tensor]) -> None:
            if key in origins and origins[key][0] is reference:
                del origins[key]

        origins[key] = ref(tensor, gone), origin

    def _forget(self, tensor: Any) -> None:
        for whole in (tensor, getattr(tensor, "_base", None)):
            self._origins.pop(id(whole), None)

    def origin(self, tensor: Tensor) -> Origin | None:
        """Where a parameter, a view of one, or what was computed from some comes from."""
        for whole in (tensor, tensor._base):
            if whole is not None and (known := self._weights.get(id(whole))) is not None:
                return Origin(*known)
        kept = self._origins.get(id(tensor))
        return kept[1] if kept is not None and kept[0]() is tensor else None

    def is_of_weights(self, tensor: Tensor) -> bool:
        return self._is_known(tensor)

    def _is_known(self, tensor: Tensor) -> bool:
        key = id(tensor)
        if key in self._weights or key in self._buffers:
            return True
        if (kept := self._origins.get(key)) is not None and kept[0]() is tensor:
            return True
        base = tensor._base
        return base is not None and (id(base) in self._weights or id(base) in self._buffers)
