"""A model as a graph of torch's own operators, whatever way it is written; by torch.export."""

import logging
import operator
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export import Dim, ExportedProgram, export

from pgig.errors import PgigError
from pgig.network.outputs import answer_of


class TracingError(PgigError):
    """Why a model cannot be seen as a graph.

    >>> class Undecided(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x.flatten(1) if x.sum() > 0 else -x.flatten(1)
    >>> pgig.incremental.plan_of(Undecided().eval(), torch.rand(1, 3, 16, 16))
    Traceback (most recent call last):
    pgig.incremental.export.TracingError: ...
    """


_OVER_THE_BATCH = torch.ops.aten._native_batch_norm_legit.no_stats, torch.ops.aten._native_batch_norm_legit.default


@dataclass(frozen=True)
class Graph:
    """Operators in order, without side effects; batches may have any size."""

    nodes: tuple[fx.Node, ...]  # without those of constants
    constants: Mapping[fx.Node, Tensor]  # parameters and buffers
    input: fx.Node
    output: fx.Node  # what the model returns


def graph_of(model: nn.Module, example: Tensor) -> Graph:
    """example: one image, [1, channels, height, width]."""
    pair = example.expand(2, *example.shape[1:])
    try:
        with torch.no_grad(), _in_silence():
            shapes = ({0: Dim("batch", min=1, max=2**20)},)
            exported = export(_Answering(model), (pair,), dynamic_shapes=shapes, strict=False)
            _without_dropout(exported.graph_module)
            exported = exported.run_decompositions({})
    except Exception as error:  # what a model's own code or the tracer may raise has no common type
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        if "data-dependent" in reason:
            reason = "its way depends on the values that it computes"
        raise TracingError(f"it cannot be traced ({reason[:160]})") from error
    signature = exported.graph_signature
    if signature.buffers_to_mutate or signature.user_inputs_to_mutate:
        raise TracingError("it changes its own state or its input")
    of_input = _depending_on_input(exported)
    for node in exported.graph.nodes:
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) and _is_random(node):
            raise TracingError(f"it draws random numbers ({node.target})")
        if node.target in _OVER_THE_BATCH and node in of_input:  # weights may be standardised
            raise TracingError("it normalises over the batch")
    names = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    held = {**exported.state_dict, **exported.constants}
    lifted = signature.inputs_to_lifted_tensor_constants
    constants, nodes, inputs = {}, [], []
    for node in exported.graph.nodes:
        key = names.get(node.name, lifted.get(node.name))
        if key is not None:
            constants[node] = held[key].detach()
        elif node.op == "placeholder":
            inputs.append(node)
        elif node.op == "call_function":
            nodes.append(node)
    (returned,) = next(node for node in exported.graph.nodes if node.op == "output").args[0][:1]
    if len(inputs) != 1 or len(signature.user_outputs) != 1 or not isinstance(returned, fx.Node):
        raise TracingError("it does not take one tensor and return one")
    return Graph(tuple(nodes), constants, inputs[0], returned)


class _Answering(nn.Module):
    """The tensor that is meant by what a model returns."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return answer_of(self.model(x))


def _depending_on_input(exported: ExportedProgram) -> set[fx.Node]:
    found: set[fx.Node] = set()
    for node in exported.graph.nodes:
        is_input = node.op == "placeholder" and node.name in exported.graph_signature.user_inputs
        if is_input or not found.isdisjoint(node.all_input_nodes):
            found.add(node)
    return found


def _without_dropout(module: fx.GraphModule) -> None:
    """In evaluation it gives its input itself: what is done to the one in place is done to the other.

    The tracer takes it for a copy.
    """
    for node in module.graph.nodes:
        if node.target is torch.ops.aten.dropout.default:
            given = arguments_of(node)
            if not given["train"] or given["p"] == 0:
                node.target, node.args, node.kwargs = torch.ops.aten.alias.default, (given["input"],), {}
    module.recompile()


def _is_random(node: fx.Node) -> bool:
    """Attention is marked so for its dropout, which is off in evaluation."""
    return float(arguments_of(node).get("dropout_p", 1.0)) != 0


@contextmanager
def _in_silence() -> Iterator[None]:
    """What the tracer has to say of models that it cannot trace fills pages; the reason is enough."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def arguments_of(node: fx.Node) -> dict[str, Any]:
    """The arguments of an operator by their names, defaults included."""
    if node.target is operator.getitem:
        return {"self": node.args[0], "index": node.args[1]}
    schema = node.target._schema  # type: ignore[union-attr]
    found = dict(zip((argument.name for argument in schema.arguments), node.args, strict=False))
    found |= node.kwargs
    return {
        argument.name: found.get(argument.name, argument.default_value if argument.has_default_value() else None)
        for argument in schema.arguments
    }
