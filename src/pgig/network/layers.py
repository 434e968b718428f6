"""Layers: finding the parameter that an operation was called with, and its pattern."""

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from pgig.errors import PgigError
from pgig.methods.rules import Rule
from pgig.network.channels_last import in_channels_last
from pgig.network.derived import DerivedWeights
from pgig.network.join_names import is_join

# Memory of former stand-ins by pattern. It is filled anew in every call, so never stale; but it is mapped already, and
# mapping the half gigabyte of VGG-16 costs several times more than filling it.
Spare = MutableMapping[Tensor, Tensor]
_BLOCK = 2**20  # elements that are combined at a time


@dataclass(eq=False)
class Layer:
    """A weight of the model, and what stands for it under each rule."""

    name: str
    original: Tensor  # as the model holds it
    weight: Tensor  # the same in the memory format in use
    pattern: Tensor | None = None
    spare: Spare | None = None
    _stand_ins: dict[Rule, Tensor] = field(default_factory=dict)

    def plain(self, used: Tensor) -> Tensor:
        """The weight for the forward pass, where an operation was called with `used`: it, or a view of it."""
        return self.weight if _same_view(used, self.original) else used.detach()

    def under(self, rule: Rule, used: Tensor) -> Tensor:
        """What stands for `used` in the backward pass under `rule`."""
        if rule.weight is None:
            return self.plain(used)
        if rule not in self._stand_ins:
            self._stand_ins[rule] = self._filled(rule.weight)
        stand_in = self._stand_ins[rule]
        if _same_view(used, self.original):
            return stand_in
        # laid out like the original, a view of the original is the same view of its stand-in
        offset = used.storage_offset() - self.original.storage_offset()
        return _laid_out_like(self.original, stand_in).as_strided(used.shape, used.stride(), offset)

    def close(self) -> None:
        """Leave the memory of the stand-ins to the next call with the same pattern."""
        if self.spare is not None and self.pattern is not None and self._stand_ins:
            self.spare[self.pattern] = self._stand_ins.popitem()[1]

    def _filled(self, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        assert self.pattern is not None
        stand_in = None if self.spare is None else self.spare.pop(self.pattern, None)
        if stand_in is None or not _same_kind(stand_in, self.weight):
            stand_in = torch.empty_like(self.weight)
        rows = max(1, _BLOCK * len(self.weight) // self.weight.numel())
        for block in range(0, len(self.weight), rows):
            w, p = self.weight[block : block + rows], self.pattern[block : block + rows].detach()
            stand_in[block : block + rows] = combine(w, p.to(w))
        return stand_in


def _same_kind(one: Tensor, other: Tensor) -> bool:
    return _same_view(one, other) and one.dtype == other.dtype and one.device == other.device


def _laid_out_like(model: Tensor, tensor: Tensor) -> Tensor:
    return tensor if _same_view(tensor, model) else torch.empty_like(model).copy_(tensor)


def _same_view(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.stride() == other.stride()


class Collected(NamedTuple):
    """The tensors of a model: parameters with their layers' names, and buffers, by identity."""

    weights: dict[int, tuple[str, Tensor]]
    buffers: dict[int, Tensor]


class Layers:
    """The layers of a model, found by the identity of their weight.

    A layer's name is its parameter's, without a trailing `.weight`; a weight with several names goes by the first.
    Parametrised weights are new tensors at each access, so keep `parametrize.cached()` open while this is in use.
    """

    def __init__(
        self,
        model: object,
        patterns: Mapping[str, Tensor] | None,
        channels_last: bool,
        spare: Spare | None = None,
        kept: list["Collected"] | None = None,
    ) -> None:
        """kept: where to keep what was collected for calls to come, as long as the model stays as it is."""
        self._channels_last = channels_last
        self._spare = spare
        self._weights: dict[int, tuple[str, Tensor]] = {}  # holds the tensors, so that no id is reused
        self._recomputed: list[tuple[str, nn.Module]] = []
        self._held: list[tuple[str, nn.Module, str, Tensor]] = []  # parametrised weights, as long as they are cached
        self._layers: dict[tuple[str, bool], Layer] = {}  # a parameter, and what is computed from it, are two
        if kept:
            self._weights, buffers = kept[0]
        else:
            buffers = self._collect(model) if isinstance(model, nn.Module) else {}
            if kept is not None and not self._recomputed and not self._held:  # those are new tensors each time
                kept.append(Collected(self._weights, buffers))
        self.derived = DerivedWeights(self._weights, buffers)
        self._patterns = {} if patterns is None else self._checked(patterns)
        self.unsupported = frozenset(getattr(patterns, "unsupported", ()))  # known to keep their plain gradient

    def find(self, weight: object) -> Layer | None:
        """The layer of a weight: a parameter of the model, a view of one, or what was computed from it in its shape."""
        if not isinstance(weight, Tensor):
            return None
        for whole in (weight, weight._base):
            if whole is not None and (found := self._weights.get(id(whole)) or self._find_recomputed(whole)):
                return self._layer(*found)
        return self._find_derived(weight)

    def check_held(self) -> None:
        """Refuse to go on where parametrised weights are not those that the layers are known by any more."""
        for name, module, attribute, weight in self._held:
            if getattr(module, attribute) is not weight:
                raise PgigError(
                    f"the parametrised weight of layer {name!r} was made anew in the middle of the work: did another "
                    "thread or a callback end parametrize.cached()?"
                )

    def close(self) -> None:
        for layer in self._layers.values():
            layer.close()

    def weights(self) -> list[tuple[str, Tensor]]:
        """The names of all parameters, as layers would have them, and their tensors."""
        return [*self._weights.values(), *((name, vars(module)["weight"]) for name, module in self._recomputed)]

    def with_patterns(self) -> set[str]:
        return set(self._patterns)

    def join_pattern(self, name: str) -> Tensor | None:
        return self._patterns.get(name)

    def _layer(self, name: str, weight: Tensor, derived: bool = False) -> Layer:
        layer = self._layers.get((name, derived))
        if layer is None:
            original = ours = weight.detach()
            if self._channels_last and weight.dim() == 4:
                ours = in_channels_last(original)
            layer = self._layers[name, derived] = Layer(name, original, ours, self._patterns.get(name), self._spare)
        return layer

    def _find_recomputed(self, weight: Tensor) -> tuple[str, Tensor] | None:
        # older weight and spectral norms put a new tensor into the module before each call
        return next(((name, weight) for name, module in self._recomputed if vars(module)["weight"] is weight), None)

    def _find_derived(self, weight: Tensor) -> Layer | None:
        origin = self.derived.origin(weight)
        used_as_it_is = origin is not None and (origin.name, False) in self._layers
        if origin is None or used_as_it_is or origin.parameter.shape != weight.shape:
            return None
        layer = self._layer(origin.name, weight, derived=True)
        # what is computed in several ways from one parameter has no pattern
        return layer if torch.equal(layer.original, weight) else None

    def _collect(self, model: nn.Module) -> dict[int, Tensor]:
        for name, parameter in model.named_parameters():
            if ".parametrizations." not in f".{name}":
                self._weights[id(parameter)] = (_layer_name(name), parameter)
        for prefix, module in model.named_modules():
            if isinstance(vars(module).get("weight"), Tensor):
                self._recomputed.append((prefix, module))
            if parametrize.is_parametrized(module):
                for attribute in module.parametrizations:
                    weight = getattr(module, attribute)
                    name = _layer_name(f"{prefix}.{attribute}".lstrip("."))
                    self._weights[id(weight)] = (name, weight)
                    self._held.append((name, module, attribute, weight))
        return {id(buffer): buffer for buffer in model.buffers()}

    def _checked(self, patterns: Mapping[str, Tensor]) -> dict[str, Tensor]:
        known = {name: tuple(weight.shape) for name, weight in self._weights.values()}
        known |= {name: tuple(vars(module)["weight"].shape) for name, module in self._recomputed}
        for name, tensor in patterns.items():
            known |= {name: (2, *tensor.shape[1:])} if is_join(name) and isinstance(tensor, Tensor) else {}
            if not isinstance(tensor, Tensor):
                raise PgigError(f"the pattern of layer {name!r} must be a tensor, got {type(tensor).__name__}")
            if name not in known:
                raise PgigError(
                    f"a pattern for layer {name!r}, which this model does not have: patterns of another model? "
                    f"Its layers are {_some(known)}"
                )
            if tuple(tensor.shape) != known[name]:
                raise PgigError(
                    f"the pattern of layer {name!r} has shape {tuple(tensor.shape)}, its weight {known[name]}: "
                    "were these patterns estimated for another model?"
                )
            if not torch.stack(torch.aminmax(tensor.detach())).isfinite().all():  # NaN passes through; one quick look
                raise PgigError(f"the pattern of layer {name!r} has NaN or infinite values")
        return dict(patterns)


def _layer_name(parameter: str) -> str:
    return parameter.removesuffix(".weight")


def _some(names: Mapping[str, object]) -> str:
    shown = [name for name in names if not name.endswith("bias")]
    return ", ".join(shown[:4]) + (", ..." if len(shown) > 4 else "")
