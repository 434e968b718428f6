"""Inner places: what a layer gives, or is given, as something to look at and to start from."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import get_ident
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from pgig.errors import PgigError
from pgig.network.layer_calls import Operation, read_layer_call
from pgig.network.layer_mode import LayerMode
from pgig.network.layers import Layers

Side = Literal["output", "input"]


@dataclass(frozen=True)
class Place:
    """One layer, or several, by name; modules themselves where a function is explained that has no names for them.

    A name is a module's, or that of a layer's weight. A layer may give several tensors: `counts` has how many.
    """

    layers: tuple[str | nn.Module, ...]
    side: Side = "output"
    counts: tuple[int, ...] = (1,)
    by_weight: frozenset[str] = frozenset()  # those that are known by their weight: no module need compute them

    @property
    def name(self) -> str:
        return ", ".join(layer if isinstance(layer, str) else type(layer).__name__ for layer in self.layers)

    @classmethod
    def of(
        cls,
        model: Callable[..., Any],
        at: str | nn.Module | Sequence[str | nn.Module],
        side: Side,
        counts: Sequence[int] | None,
    ) -> "Place":
        """Checked against the model's modules, and its layers with weights."""
        if side not in ("output", "input"):
            raise PgigError(f"a place is a layer's 'output' or its 'input', got {side!r}")
        asked = [at] if isinstance(at, str | nn.Module) or not isinstance(at, Sequence) else list(at)
        weighted = _weighted(model) if side == "output" and isinstance(model, nn.Module) else []
        layers = tuple(_checked(model, layer, weighted) for layer in asked)
        weighted = [name for name in weighted if not _is_called(model, name)]
        known = (1,) * len(layers) if counts is None else tuple(counts)
        return cls(layers, side, known, frozenset(weighted) & {layer for layer in layers if isinstance(layer, str)})


def values_at(model: Callable[..., Any], place: Place, *inputs: Any, **named: Any) -> list[tuple[Tensor, ...]]:
    """What is at each layer when the model is called; of one with weights, before any norm behind it."""
    with torch.no_grad(), parametrize.cached(), _seams(model, place, None) as seams:
        model(*(x.clone() if isinstance(x, Tensor) else x for x in inputs), **named)
    return [seam.seen() for seam in seams]


def run_from(model: Callable[..., Any], place: Place, values: Sequence[Tensor], *inputs: Any, **named: Any) -> Any:
    """What the model gives for `inputs` where these values are at the place."""
    if len(values) != sum(place.counts):
        raise PgigError(f"{len(values)} values for the {sum(place.counts)} of layer {place.name!r}")
    with _seams(model, place, values) as seams:
        result = model(*inputs, **named)
    for seam in seams:
        seam.seen()
    return result


def _checked(model: Callable[..., Any], layer: str | nn.Module, weighted: list[str]) -> str | nn.Module:
    if not isinstance(model, nn.Module):
        if isinstance(layer, str):
            raise PgigError(f"no layer {layer!r} in a function: give the module itself, or explain a module")
        return layer
    modules = dict(model.named_modules())
    if isinstance(layer, nn.Module):
        found = next((name for name, module in modules.items() if module is layer), None)
        if found is None:
            raise PgigError(f"this {type(layer).__name__} is no part of the model: give a layer of it")
        return str(found)  # "", of the model itself
    if not isinstance(layer, str):
        raise PgigError(f"a layer is a name or a module, got {type(layer).__name__}")
    if layer not in weighted and layer not in modules:
        some = [name for name in modules if name and not list(modules[name].children())] or weighted
        raise PgigError(
            f"no layer {layer!r} in this model; there are {', '.join(some[:4])}{', ...' if len(some) > 4 else ''}"
        )
    return layer


def _is_called(model: Callable[..., Any], name: str) -> bool:
    """Is there a module of this name, which gives what is asked for? Attention uses its last layer's weight alone."""
    parent, _, own = name.rpartition(".")
    try:
        module, holder = model.get_submodule(name), model.get_submodule(parent)  # type: ignore[attr-defined]
    except AttributeError:
        return False
    return not (isinstance(holder, nn.MultiheadAttention) and own == "out_proj") and isinstance(module, nn.Module)


def _weighted(model: nn.Module) -> list[str]:
    """Layers known by their weight: also where no module computes them."""
    with parametrize.cached():
        weights = Layers(model, None, channels_last=False).weights()
    return [name for name, weight in weights if weight.dim() > 1]


@contextmanager
def _seams(model: Callable[..., Any], place: Place, values: Sequence[Tensor] | None) -> Iterator[list["_Seam"]]:
    """Open at every layer of the place, for one call of the model."""
    with ExitStack() as stack:
        seams, first = [], 0
        for layer, count in zip(place.layers, place.counts, strict=True):
            own = None if values is None else list(values[first : first + count])
            seams.append(stack.enter_context(_seam(model, layer, place, own)))
            first += count
        yield seams


@contextmanager
def _seam(
    model: Callable[..., Any], layer: str | nn.Module, place: Place, values: list[Tensor] | None
) -> Iterator["_Seam"]:
    seam = _Seam(layer if isinstance(layer, str) else type(layer).__name__, values)
    if isinstance(layer, str) and layer in place.by_weight:
        with _Replacing(model, layer, seam):
            yield seam
        return
    module = model.get_submodule(layer) if isinstance(layer, str) else layer  # type: ignore[attr-defined]
    thread = get_ident()  # others may be running the same model

    def leave(_: nn.Module, args: Any, output: Any) -> Any:
        return seam.passed(output) if get_ident() == thread else None

    def enter(_: nn.Module, args: Any) -> Any:
        return seam.passed(args) if get_ident() == thread else None

    hook = module.register_forward_hook(leave) if place.side == "output" else module.register_forward_pre_hook(enter)
    try:
        yield seam
    finally:
        hook.remove()


class _Seam:
    """Notes what passes by, and puts the values handed in in its place, in the order in which they come."""

    def __init__(self, layer: str, values: list[Tensor] | None) -> None:
        self._layer, self._values = layer, values
        self._calls: list[tuple[Tensor, ...]] = []

    def passed(self, result: Any) -> Any:
        parts = result if isinstance(result, tuple) else (result,)
        tensors = tuple(part for part in parts if isinstance(part, Tensor))
        if not tensors:
            raise PgigError(f"layer {self._layer!r} passes on {type(result).__name__}: a place is tensors, or a tuple")
        if self._values is None:  # what comes behind may work in place
            self._calls.append(tuple(tensor.detach().clone() for tensor in tensors))
            return result
        self._calls.append(tensors)
        replaced = tuple(self._next(part) if isinstance(part, Tensor) else part for part in parts)
        return replaced if isinstance(result, tuple) else replaced[0]

    def _next(self, there: Tensor) -> Tensor:
        if not self._values:
            raise PgigError(f"layer {self._layer!r} passes on more tensors than were handed in")
        value = self._values.pop(0)
        if value.shape != there.shape:
            raise PgigError(f"layer {self._layer!r} gives {tuple(there.shape)}, not {tuple(value.shape)} as handed in")
        return value

    def seen(self) -> tuple[Tensor, ...]:
        if len(self._calls) != 1:
            times = f"was called {len(self._calls)} times" if self._calls else "was not called"
            raise PgigError(f"layer {self._layer!r} {times}: an inner place is the output of one call")
        return tuple(tensor.detach() for tensor in self._calls[0])


class _Replacing(LayerMode):
    """A seam at the operation that a layer's weight is used in."""

    def __init__(self, model: Callable[..., Any], layer: str, seam: _Seam) -> None:
        super().__init__(Layers(model, None, channels_last=False))
        self._place, self._seam = layer, seam
        self._reads_layers = False  # here: other modes must see the call as it is
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
        return self._seam.passed(result) if is_place else result
