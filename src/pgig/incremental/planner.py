"""From a model to a plan."""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor, fx, nn

from pgig.incremental.arrangement import Step
from pgig.incremental.export import Graph, TracingError, arguments_of, graph_of
from pgig.incremental.operators import (
    ALIASES,
    BUILDERS,
    FIRST_OF,
    LAYERS,
    NORMS,
    affine,
    affine_of,
    aten,
    is_first_output,
    is_pointwise,
    pointwise,
)
from pgig.incremental.plan import Plan
from pgig.incremental.reasons import in_words, reason
from pgig.incremental.windows import Convolution, Operation, Pair


def plan_of(model: nn.Module, example: Tensor) -> Plan:
    """A plan for images like the example, [1, channels, height, width]; raises `TracingError` where there is none.

    model: in eval mode, one that torch.fx can trace.

    >>> pgig.incremental.plan_of(pgig.synthetic.embedded(), torch.ones(1, 3, 64, 64)).dense_work > 0
    True
    """
    if example.dim() != 4:
        raise TracingError(f"its input is no image: shape {tuple(example.shape)}")
    graph = graph_of(model, example)
    try:
        return _Planner(graph, example).plan()
    except TracingError:
        raise
    except Exception as error:  # an operator can meet what it was not made for in any way
        reason = str(error).splitlines()[0] if str(error) else "no reason given"
        raise TracingError(f"it cannot be planned ({type(error).__name__}: {reason})") from error


class _Planner:
    def __init__(self, graph: Graph, example: Tensor) -> None:
        self._graph = graph
        self._constants = dict(graph.constants)
        self._steps = [Step(None, (), example.shape[1], _size(example), example.dtype)]
        self._number: dict[fx.Node, int] = {graph.input: 0}  # of nodes whose changes are windows
        self._whole: list[fx.Node] = []  # the others, in order
        self._refused: list[fx.Node] = []  # of those, the first on their paths

    def plan(self) -> Plan:
        for node in self._graph.nodes:
            needs = [other for other in node.all_input_nodes if other not in self._constants]
            if not needs:
                self._constants[node] = _evaluated(node, self._constants)
                continue
            known = [other in self._number for other in needs]
            if not all(known) or not self._step(node):
                self._whole.append(node)
                sizes = [other.target is aten.sym_size.int for other in needs]
                if node.target is not aten.sym_size.int and all(map(any, zip(known, sizes, strict=True))):
                    self._refused.append(node)
        if not any(isinstance(step.operation, Convolution) for step in self._steps):
            behind = f" that is not behind {in_words(self._refused[0])}" if self._refused else ""
            raise TracingError(f"it has no convolution{behind}")
        outputs, rest = self._rest()
        return Plan(self._steps, outputs, rest, self._rest_work(), self._reasons())

    def _step(self, node: fx.Node) -> bool:
        """Treat an operator in windows, if that is possible."""
        needs = [other for other in node.all_input_nodes if other in self._number]
        before = self._steps[self._number[needs[0]]]
        if node.target in ALIASES or (is_first_output(node) and needs[0].target in FIRST_OF):
            self._number[node] = self._number[needs[0]]
            return True
        several = node.target in FIRST_OF
        if several and not all(is_first_output(user) for user in node.users):
            return False
        found = _first(node.meta.get("val")) if several else node.meta.get("val")
        if not isinstance(found, Tensor) or found.dim() != 4:
            return False
        size, channels = _size(found), int(found.shape[1])
        if node.target in NORMS:
            return self._norm(node, needs[0], size, channels)
        if is_pointwise(node.target) or (node.target is aten.cat.default and arguments_of(node)["dim"] in (1, -3)):
            if any(self._steps[self._number[other]].size != size for other in needs) or not self._constants_fit(node):
                return False
            slots = {other: place for place, other in enumerate(needs)}
            inputs = tuple(self._number[other] for other in needs)
            self._add(node, pointwise(node, slots, self._constants, size), inputs, channels, size, found.dtype)
            return True
        if node.target not in BUILDERS or len(needs) != 1:
            return False
        given = {key: self._constants.get(value, value) if isinstance(value, fx.Node) else value
                 for key, value in arguments_of(node).items()}  # fmt: skip
        operations = BUILDERS[node.target](given, before.size, size)
        if operations is None:
            return False
        if not operations:
            self._number[node] = self._number[needs[0]]
        inputs = (self._number[needs[0]],)
        for operation in operations:
            last = operation is operations[-1]
            its_size: Pair = size if last else (operation.axes[0].size, operation.axes[1].size)
            self._add(node, operation, inputs, channels if last else before.channels, its_size, found.dtype)
            inputs = (len(self._steps) - 1,)
        return True

    def _norm(self, node: fx.Node, before: fx.Node, size: Pair, channels: int) -> bool:
        found = affine_of(node, self._constants)
        if found is None:
            return False
        number = self._number[before]
        step = self._steps[number]
        same = {other for other, its in self._number.items() if its == number}  # the convolution, and aliases of it
        others = {user for other in same for user in other.users} - same - {node}
        if isinstance(step.operation, Convolution) and not others:
            step.operation = step.operation.followed_by(*found)
            self._number[node] = number
        else:
            self._add(node, affine(*found, size), (number,), channels, size, step.dtype)
        return True

    def _add(
        self,
        node: fx.Node,
        operation: Operation,
        inputs: tuple[int, ...],
        channels: int,
        size: Pair,
        dtype: torch.dtype,
    ) -> None:
        self._number[node] = len(self._steps)
        self._steps.append(Step(operation, inputs, channels, size, dtype))

    def _constants_fit(self, node: fx.Node) -> bool:
        """Is what it is combined with the same at every place?"""
        given = [self._constants[other] for other in node.all_input_nodes if other in self._constants]
        shapes = [value.shape for value in given if isinstance(value, Tensor)]
        per_channel = node.target is aten.prelu.default
        return all(per_channel or not shape or set(shape[-2:]) == {1} for shape in shapes)

    def _reasons(self) -> tuple[str, ...]:
        """Why layers other than the last few of a classifier are computed whole."""
        many = [node for node in self._whole if node.target in LAYERS and self._places(node) > 1]
        return (reason(self._refused, len(many)),) if many and self._refused else ()

    def _rest_work(self) -> int:
        """Multiply-adds of the layers that are computed whole."""
        total = 0
        for node in self._whole:
            found: Any = arguments_of(node).get("weight") if node.target in LAYERS else None
            weight = self._constants.get(found)
            if weight is not None and weight.dim() > 1:
                total += weight.numel() * self._places(node)
        return total

    def _places(self, node: fx.Node) -> int:
        """Of a layer's output, for one row: pixels of a map, or tokens."""
        shape = _first(node.meta["val"]).shape
        is_product = node.target is aten.linear.default
        return prod(int(size) for size in (shape[1:-1] if is_product else shape[2:]))

    def _rest(self) -> tuple[tuple[int, ...], fx.GraphModule]:
        """What is computed whole, as a function of maps."""
        needed = _needed(self._graph.output, self._whole)
        taken = [other for node in needed for other in node.all_input_nodes if node.target is not aten.sym_size.int]
        boundary = list(dict.fromkeys(node for node in [*taken, self._graph.output] if node in self._number))
        numbers = tuple(dict.fromkeys(self._number[node] for node in boundary))
        graph = fx.Graph()
        inputs = {number: graph.placeholder(f"map{number}") for number in numbers}
        made: dict[fx.Node, Any] = {node: inputs[self._number[node]] for node in boundary}
        attributes: dict[str, Tensor] = {}
        for node in needed:
            if node.target is aten.sym_size.int and node.all_input_nodes[0] in self._number:
                made[node] = _extent(node, graph, inputs[numbers[0]])
                continue
            for other in node.all_input_nodes:
                if other not in made:
                    attributes[other.name] = self._constants[other]
                    made[other] = graph.get_attr(other.name)
            made[node] = graph.node_copy(node, lambda other: made[other])
            if node.target in (aten.view.default, aten._unsafe_view.default):  # maps have their channels last
                made[node].target = aten.reshape.default
        graph.output(made[self._graph.output])
        holder = nn.Module()
        for name, value in attributes.items():
            holder.register_buffer(name, value)
        return numbers, fx.GraphModule(holder, graph)


def _extent(node: fx.Node, graph: fx.Graph, some_map: fx.Node) -> Any:
    """A size of a map: only the number of rows is not known before."""
    axis = int(node.args[1])  # type: ignore[arg-type]
    if axis == 0:
        return graph.call_function(aten.sym_size.int, (some_map, 0))
    return int(_first(node.all_input_nodes[0].meta["val"]).shape[axis])


def _needed(output: fx.Node, whole: list[fx.Node]) -> list[fx.Node]:
    """Of what is computed whole, all that the output depends on, in order."""
    wanted = {output}
    for node in reversed(whole):
        if node in wanted:
            wanted.update(node.all_input_nodes)
    return [node for node in whole if node in wanted]


def _evaluated(node: fx.Node, constants: dict[fx.Node, Tensor]) -> Tensor:
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda other: constants[other])
    with torch.no_grad():
        result: Tensor = node.target(*args, **kwargs)  # type: ignore[operator]
    return result


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, Sequence) and value else value


def _size(x: Tensor) -> Pair:
    return int(x.shape[-2]), int(x.shape[-1])
