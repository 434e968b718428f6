"""Tracing: one batch through the model tells which layer feeds which gate, and how every operation is treated."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.overrides import resolve_name

from pgig.network.branches import Branches
from pgig.network.gates import Gate, read_gate
from pgig.network.interception import check_norm
from pgig.network.joins import JoinCall, Joint
from pgig.network.layer_calls import LayerCall, Operation
from pgig.network.layer_mode import LayerMode
from pgig.network.layers import Layers
from pgig.network.nested import tensors_in
from pgig.network.torch_ops import ADDITIONS, BY_CHANNEL, COMMUTING, OF_THE_SHAPE, PRODUCTS, UNREMARKABLE
from pgig.network.traced import Embedding, Norm, Step, Trace, TracedLayer
from pgig.network.unit_layout import Form


def trace(model: nn.Module, *inputs: Any, **named: Any) -> Trace:
    """Follow one batch. `inputs` and `named` are what the model takes."""
    return _followed(model, inputs, named, with_joins=False)


def trace_with_joins(model: nn.Module, *inputs: Any, **named: Any) -> Trace:
    """The same, with additions of branches among the layers."""
    return _followed(model, inputs, named, with_joins=True)


def _followed(model: nn.Module, inputs: Sequence[Any], named: Mapping[str, Any], with_joins: bool) -> Trace:
    with torch.no_grad(), parametrize.cached():
        layers = Layers(model, None, channels_last=False)
        with _TraceMode(layers, with_joins) as mode, mode.forward():
            copies = [x.clone() if isinstance(x, Tensor) else x for x in inputs]
            mode.branches.begin((copies, named))
            mode.finish(model(*copies, **named))
        rest = [(name, weight) for name, weight in layers.weights() if name not in mode.layers]
        hidden = [name for name, weight in rest if weight.dim() > 1 and name in mode.multiplied]
        others = [name for name, _ in rest if name in mode.used and name not in hidden]
        unused = [name for name, _ in rest if name not in mode.used]
    return Trace(mode.layers, mode.steps, hidden, others, mode.embeddings, unused, mode.branches.most)


class _Source(NamedTuple):
    """Where a tensor comes from: a layer's output, possibly through a norm and operations that commute with gates."""

    layer: TracedLayer
    call: int
    fresh: bool  # nothing in between that a norm behind could not stand before


class _TraceMode(LayerMode):
    def __init__(self, layers: Layers, with_joins: bool) -> None:
        super().__init__(layers)
        self._reads_joins = with_joins
        self.branches = Branches(layers)
        self.layers: dict[str, TracedLayer] = {}
        self.steps: list[Step] = []
        self._known = layers
        self._sources: dict[int, _Source] = {}
        self._held: list[Tensor] = []  # so that no id is reused
        self._norms: dict[int, Norm] = {}
        self.embeddings: list[Embedding] = []
        self.used: set[str] = set()  # parameters that went into any operation
        self.multiplied: set[str] = set()  # those that went into a product, and were not read as a layer's

    def _other(self, func: Operation, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        self._note_parameters(func, args, kwargs)
        sources = [source for tensor in tensors_in((args, kwargs)) if (source := self._sources.get(id(tensor)))]
        gate = read_gate(func, args, kwargs)
        norm = self._norm(*args, **kwargs) if func is F.batch_norm and not self._of_weights(args) else None
        result = func(*args, **kwargs)
        if args and result is args[0]:  # in place: its value is behind the operation from now on
            self._sources.pop(id(result), None)
        self.branches.follow(func, args, kwargs, result)
        if func not in OF_THE_SHAPE and next(tensors_in(result), None) is not None:
            self._note(func, sources, result, args, norm, gate)
        return result

    def _note_parameters(self, func: Operation, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if func is F.embedding and (origin := self._known.derived.origin(kwargs.get("weight", args[-1]))) is not None:
            self.embeddings.append(Embedding(origin.name, args[0], len(origin.parameter)))
        tensors = list(tensors_in((args, kwargs)))
        is_layer = func in PRODUCTS and not all(map(self._known.derived.is_of_weights, tensors))
        for tensor in tensors:
            if (origin := self._known.derived.origin(tensor)) is not None:
                self.used |= origin.names or {origin.name}
                if is_layer and tensor.dim() > 1:
                    self.multiplied |= origin.names or {origin.name}

    def finish(self, output: Any) -> None:
        for tensor in tensors_in(output):
            if (source := self._sources.get(id(tensor))) is not None:
                source.layer.feeds.add("other")

    def _layer(self, func: Operation, call: LayerCall) -> Tensor:
        if (before := self._sources.get(id(call.x))) is not None:
            before.layer.feeds.add("other")
        if call.bias is not None and (origin := self._known.derived.origin(call.bias)) is not None:
            self.used.add(origin.name)
        name = call.layer.name
        layer = self.layers.setdefault(name, TracedLayer(name, call.layer.original, call.geometry))
        layer.norms.append(None)
        layer.biases.append(None)
        same = layer.original is call.layer.original
        layer.forms.append(Form.of(call.geometry, call.used, call.layer.original) if same else None)
        result = call.as_given(call.run(call.x))
        self.branches.through(call.x, result, call.geometry.unit_axis(result.dim()))
        self._hold(result, _Source(layer, layer.calls, fresh=True))
        layer.calls += 1
        self.steps.append(Step(_name(func), "layer", name))
        return result

    def _join(self, join: JoinCall) -> Tensor:
        for branch in (join.a, join.b):
            if (before := self._sources.pop(id(branch), None)) is not None:
                before.layer.feeds.add("other")
        axis = self.branches.axis(join)
        result = join.run()
        geometry = Joint(axis)
        layer = TracedLayer(join.name, geometry.weight(result), geometry, 1, set(), [None], [None], [Form("join")])
        self.layers[join.name] = layer
        self.branches.follow(join.func, (join.a, join.b), {}, result)
        self._hold(result, _Source(layer, 0, fresh=True))
        self.steps.append(Step(_name(join.func), "layer", join.name))
        return result

    def _note(
        self, func: Operation, sources: list[_Source], result: Any, args: tuple[Any, ...], norm: Norm | None,
        gate: Gate | None,
    ) -> None:  # fmt: skip
        source, part_of = sources[0] if len(sources) == 1 else None, None
        if gate is not None:
            treatment = "gate" if gate.hard else "soft gate"
            for s in sources:
                s.layer.feeds.add("gate")
        elif norm is not None and source is not None and source.fresh and _counts_units(source.layer, result):
            treatment, part_of = "plain gradient", source.layer.name
            source.layer.norms[source.call] = norm
            self._hold(result, source._replace(fresh=False))
        elif func in ADDITIONS and source is not None and (bias := _bias(source, result, args)) is not None:
            treatment = "passes on"
            source.layer.biases[source.call] = bias
            self._hold(result, source._replace(fresh=False))
        elif func in COMMUTING and source is not None and isinstance(result, Tensor):
            treatment = "passes on"
            # a norm behind dropout or a max pool is still a norm behind the layer
            self._hold(result, source._replace(fresh=source.fresh and func in BY_CHANNEL))
        else:
            treatment = "plain gradient"
            for s in sources:
                s.layer.feeds.add("other")
        if func not in UNREMARKABLE:
            self.steps.append(Step(_name(func), treatment, part_of=part_of))

    def _of_weights(self, args: tuple[Any, ...]) -> bool:
        return self._known.derived.origin(args[0]) is not None

    def _norm(
        self, input: Tensor, running_mean: Tensor, running_var: Tensor, weight: Tensor | None = None,
        bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
    ) -> Norm:  # fmt: skip
        check_norm(running_var, training)
        key = id(running_var) if weight is None else id(weight)
        if key not in self._norms:
            factor = (running_var + eps).rsqrt() * (1 if weight is None else weight)
            shift = (0 if bias is None else bias) - running_mean * factor
            self._norms[key] = Norm(factor.detach().clone(), shift.detach().clone())
        return self._norms[key]

    def _hold(self, tensor: Tensor, source: _Source) -> None:
        self._held.append(tensor)
        self._sources[id(tensor)] = source


def _counts_units(layer: TracedLayer, output: Tensor) -> bool:
    """Does axis 1 of the output, which batch norm has its factors for, count the layer's units?"""
    return layer.geometry.unit_axis(output.dim()) == 1


def _bias(source: _Source, output: Tensor, args: tuple[Any, ...]) -> Tensor | None:
    """The parameter that is added to a layer's output as a bias: one number per unit, along its last axis."""
    added = next((x for x in args if isinstance(x, nn.Parameter)), None)
    if added is None or not source.fresh or source.layer.geometry.unit_axis(output.dim()) != output.dim() - 1:
        return None
    return added.detach() if added.shape == output.shape[-1:] else None


def _name(func: Operation) -> str:
    name = str(resolve_name(func) or getattr(func, "__name__", func))
    return name.removeprefix("torch.").removeprefix("nn.functional.").removeprefix("Tensor.")
