"""Tracing: one batch through the model tells which layer feeds which ReLU, and how every operation is treated."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.overrides import TorchFunctionMode, resolve_name

from pgig.calls import LayerCall, Operation, read_layer_call, tensors_in
from pgig.geometry import Geometry
from pgig.layers import Layers
from pgig.mode import IN_PLACE_RELUS, RELUS

Feeds = Literal["relu", "other"]


class Norm(NamedTuple):
    """A batch norm in eval mode: y * factor + shift, per unit."""

    factor: Tensor
    shift: Tensor


@dataclass(eq=False)
class TracedLayer:
    """What the trace tells about one layer, over all its calls."""

    name: str
    weight: Tensor  # as the operations got it: the parameter or a view
    original: Tensor  # the parameter
    geometry: Geometry
    calls: int = 0
    feeds: set[Feeds] = field(default_factory=set)
    norms: list[Norm | None] = field(default_factory=list)

    @property
    def is_rectified(self) -> bool:
        """Does it feed ReLUs and nothing else?"""
        return self.feeds == {"relu"}

    @property
    def norm(self) -> Norm | None:
        """The batch norm that is part of it: behind every call, and always the same."""
        first = self.norms[0]
        if first is None or any(norm is None or norm.factor is not first.factor for norm in self.norms):
            return None
        return first


@dataclass(frozen=True)
class Step:
    """One operation of the forward pass, in order."""

    operation: str
    treatment: str
    layer: str | None = None


@dataclass
class Trace:
    layers: dict[str, TracedLayer]
    steps: list[Step]
    hidden: list[str]  # parameters of at least two axes that no operation of layers was seen with


def trace(model: nn.Module, *inputs: Any) -> Trace:
    """Follow one batch. `inputs` are what the model takes."""
    with torch.no_grad(), parametrize.cached():
        layers = Layers(model, None, channels_last=False)
        with _TraceMode(layers) as mode:
            mode.finish(model(*(x.clone() if isinstance(x, Tensor) else x for x in inputs)))
        norms = {id(parameter) for m in model.modules() for parameter in _norm_parameters(m)}
        hidden = [
            name
            for name, weight in layers.weights()
            if weight.dim() > 1 and name not in mode.layers and id(weight) not in norms
        ]
    return Trace(mode.layers, mode.steps, hidden)


class _Source(NamedTuple):
    """Where a tensor comes from: a layer's output, possibly through a norm and operations that commute with ReLU."""

    layer: TracedLayer
    call: int
    fresh: bool  # nothing in between


class _TraceMode(TorchFunctionMode):
    def __init__(self, layers: Layers) -> None:
        super().__init__()
        self.layers: dict[str, TracedLayer] = {}
        self.steps: list[Step] = []
        self._known = layers
        self._sources: dict[int, _Source] = {}
        self._held: list[Tensor] = []  # so that no id is reused
        self._norms: dict[int, Norm] = {}

    def __torch_function__(
        self, func: Operation, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if (call := read_layer_call(func, args, kwargs, self._known.find)) is not None:
            return self._layer(func, call)
        sources = [source for tensor in tensors_in((args, kwargs)) if (source := self._sources.get(id(tensor)))]
        if func in IN_PLACE_RELUS or (func in RELUS and (kwargs.get("inplace") or args[1:] == (True,))):
            self._sources.pop(id(args[0]), None)  # its value is behind the ReLU from now on
        result = func(*args, **kwargs)
        if next(tensors_in(result), None) is not None:
            self._note(func, sources, result, args, kwargs)
        return result

    def finish(self, output: Any) -> None:
        for tensor in tensors_in(output):
            if (source := self._sources.get(id(tensor))) is not None:
                source.layer.feeds.add("other")

    def _layer(self, func: Operation, call: LayerCall) -> Tensor:
        if (before := self._sources.get(id(call.x))) is not None:
            before.layer.feeds.add("other")
        name = call.layer.name
        layer = self.layers.setdefault(name, TracedLayer(name, call.used, call.layer.original, call.geometry))
        layer.norms.append(None)
        result = call.as_given(call.run(call.x))
        self._hold(result, _Source(layer, layer.calls, fresh=True))
        layer.calls += 1
        self.steps.append(Step(_name(func), "layer", name))
        return result

    def _note(
        self, func: Operation, sources: list[_Source], result: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        source = sources[0] if len(sources) == 1 else None
        if func in RELUS:
            treatment = "ReLU"
            for s in sources:
                s.layer.feeds.add("relu")
        elif func is F.batch_norm and source is not None and source.fresh:
            treatment = f"norm, part of {source.layer.name}"
            source.layer.norms[source.call] = self._norm(*args, **kwargs)
            self._hold(result, source._replace(fresh=False))
        elif func in _COMMUTING and source is not None and isinstance(result, Tensor):
            treatment = "passes on"
            # dropout and identity change nothing: a norm behind them is still a norm behind the layer
            self._hold(result, source._replace(fresh=source.fresh and func in _UNCHANGING))
        else:
            treatment = "plain gradient"
            for s in sources:
                s.layer.feeds.add("other")
        if func not in _UNREMARKABLE:
            self.steps.append(Step(_name(func), treatment))

    def _norm(
        self, input: Tensor, running_mean: Tensor, running_var: Tensor, weight: Tensor | None = None,
        bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
    ) -> Norm:  # fmt: skip
        if id(running_var) not in self._norms:
            factor = (running_var + eps).rsqrt() * (1 if weight is None else weight)
            shift = (0 if bias is None else bias) - running_mean * factor
            self._norms[id(running_var)] = Norm(factor.detach().clone(), shift.detach().clone())
        return self._norms[id(running_var)]

    def _hold(self, tensor: Tensor, source: _Source) -> None:
        self._held.append(tensor)
        self._sources[id(tensor)] = source


def _norm_parameters(module: nn.Module) -> Iterator[Tensor]:
    if isinstance(module, nn.LayerNorm | nn.GroupNorm | nn.modules.batchnorm._NormBase):
        yield from module.parameters(recurse=False)


def _name(func: Operation) -> str:
    name = str(resolve_name(func) or getattr(func, "__name__", func))
    return name.removeprefix("torch.").removeprefix("nn.functional.").removeprefix("Tensor.")


_UNCHANGING = {F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, torch.dropout, Tensor.contiguous,
               Tensor.clone, torch.clone, Tensor.to}  # fmt: skip
# what commutes with a ReLU: relu(op(x)) = op(relu(x)), value by value
_COMMUTING = _UNCHANGING | {
    F.max_pool1d, F.max_pool2d, F.max_pool3d, torch.max_pool1d, torch.max_pool2d, torch.max_pool3d,
    F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d, torch.flatten, Tensor.flatten, Tensor.view,
    Tensor.reshape, torch.reshape, Tensor.permute, torch.permute, Tensor.transpose, torch.transpose, Tensor.unsqueeze,
    torch.unsqueeze, Tensor.squeeze, torch.squeeze, Tensor.__getitem__, torch.movedim, Tensor.movedim, Tensor.t,
}  # fmt: skip
_UNREMARKABLE = {Tensor.__getitem__, Tensor.contiguous, Tensor.to, Tensor.clone, Tensor.t}
