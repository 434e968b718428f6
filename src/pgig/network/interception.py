"""The mode that lets rules act on operations: it sees what the model's Python calls, and touches nothing in it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pgig.errors import PgigError
from pgig.methods.rules import Rule, plain
from pgig.network.acted import Acted
from pgig.network.functions import JoinFunction, LayerFunction, NormFunction, behind_layer
from pgig.network.gates import GATE_OPERATIONS, Gate, read_gate
from pgig.network.join_names import is_join
from pgig.network.joins import JoinCall
from pgig.network.layer_calls import LAYER_OPERATIONS, LayerCall, Operation
from pgig.network.layer_mode import LayerMode
from pgig.network.layers import Layers
from pgig.network.nested import tensors_in
from pgig.network.torch_ops import ACTIVATIONS, DROPOUTS, IN_PLACE_ADDITIONS, PRODUCTS, WITH_WEIGHT


class UntrackedError(Exception):
    """A norm over a batch, or over a weight: which, only a mode knows that tracks what is computed from weights."""


class RuleMode(LayerMode):
    """Has layers, gates and norms ask in their backward pass which rule is active.

    The rule is chosen when backward runs (`gradients`), so that one forward pass serves several rules.
    """

    def __init__(self, layers: Layers, rules: Iterable[Rule], channels_last: bool, tracks: bool = True) -> None:
        """tracks: follow what is computed from weights, also where no rule needs that."""
        super().__init__(layers)
        self.rule = plain
        self._known = layers
        self._needs_patterns = any(rule.needs_patterns for rule in rules)
        self.keeps_input = any(rule.keeps_input for rule in rules)
        self._reads_layers = self._needs_patterns or self.keeps_input or channels_last
        self._reads_joins = self._needs_patterns and any(is_join(name) for name in layers.with_patterns())
        self._visits_gates = any(rule.gate for rule in rules)
        self._visits_soft_gates = any(rule.gate and rule.soft_gates for rule in rules)
        self._replaces_norms = any(rule.skips_norm for rule in rules)
        self._channels_last = channels_last
        self._acted = Acted()
        self._tracks = tracks or self._needs_patterns or self.keeps_input
        if not self._tracks:
            self._passed_on = _WITHOUT_RULES | (_LAYERS if channels_last else set())
            self._passed_on |= _GATES if self._visits_gates else set()

    @property
    def kind(self) -> tuple[bool, ...]:
        """What the mode does to a forward pass, and so to what autograd keeps."""
        return self._needs_patterns, self.keeps_input, self._reads_joins, self._visits_gates, self._replaces_norms

    def _other(self, func: Operation, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if (self._needs_patterns or self.keeps_input) and func in PRODUCTS:
            self._note_product(func, args, kwargs)
        if func in _RRELUS and (args[3] if len(args) > 3 else kwargs.get("training", False)):
            raise PgigError(_RANDOM)
        if self._visits_gates and (gate := read_gate(func, args, kwargs)) is not None:
            return self._gate(gate, func, args, kwargs)
        if (handler := _HANDLERS.get(func)) is not None:
            return handler(self, func, *args, **kwargs)
        return func(*args, **kwargs)

    def gradients(
        self, rule: Rule, scores: Tensor, leaves: Sequence[Tensor], first: Tensor, keep_graph: bool
    ) -> list[Tensor]:
        """The gradients of `scores` under `rule`, where backpropagation begins with `first`."""
        with self._active(rule):
            # autograd.grad() would leave the mode first; a checkpoint that recomputes needs it open
            run = torch.autograd.Variable._execution_engine.run_backward
            with self:
                found = run((scores,), (first,), keep_graph, False, tuple(leaves), allow_unreachable=True)
        if all(gradient is None for gradient in found):
            raise PgigError("the score does not depend on the inputs: does the model detach them?")
        return [torch.zeros_like(x) if g is None else g for x, g in zip(leaves, found, strict=True)]

    @contextmanager
    def _active(self, rule: Rule) -> Iterator[None]:
        self.rule, self._in_backward = rule, True
        try:
            yield
        finally:
            self.rule, self._in_backward = plain, False

    def forget(self) -> None:
        """What was acted on so far does not count for what comes next."""
        self._acted.forget()

    def note_layer(self) -> None:
        self._acted.on_layers = True

    def check_any(self, rules: Iterable[Rule]) -> None:
        """After the first chunk: was there anything to act on?"""
        self._acted.check_any(rules)

    def check_acted(self, rules: Iterable[Rule]) -> None:
        """Refuse to pass off a plain gradient as the work of a rule."""
        self._acted.check(rules, self._known.with_patterns())

    def _note_product(self, func: Operation, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Weights that were not read as a layer's: in an operation that hides them, or computed from others."""
        tensors = list(tensors_in((args, kwargs)))
        if not any(t.requires_grad and not t.is_leaf for t in tensors):
            return
        name = getattr(func, "__name__", str(func))
        if any(self._known.find(t) is not None and t.dim() > 1 for t in tensors):
            self._acted.products_left.add(name)
        elif func in WITH_WEIGHT and len(args) > 1 and isinstance(args[1], Tensor) and args[1].grad_fn is not None:
            self._acted.products_left.add(f"{name} with a computed weight")

    def _layer(self, func: Operation, call: LayerCall) -> Tensor:
        layer = call.layer
        if torch.is_grad_enabled():  # not in the first pass of a checkpoint, whose graph is thrown away
            self._acted.layers_called.add(layer.name)
        if not call.x.requires_grad or isinstance(call.x, nn.Parameter):  # not on the way from the input
            return call.as_given(call.run(call.x))
        if self._needs_patterns and layer.name in self._known.unsupported:
            self._acted.products_left.add(layer.name)
            return call.as_given(call.run(call.x))
        if self._needs_patterns and layer.pattern is None:
            covered = len(self._known.with_patterns())
            raise PgigError(
                f"no pattern for layer {layer.name!r}: the {covered} patterns given do not cover this model. "
                "Estimate patterns for it, or use a method without the pattern rule"
            )
        return call.as_given(LayerFunction.apply(call.x, self, call))  # type: ignore[no-untyped-call]

    def _constant(self, call: LayerCall) -> None:
        self._acted.layers_called.add(call.layer.name)  # a pattern of it, as files from before have, does nothing

    def _join(self, join: JoinCall) -> Tensor:
        pattern = self._known.join_pattern(join.name)
        if pattern is None:
            raise PgigError(
                f"no pattern for {join.name!r}: the model adds its branches in another order than when these patterns "
                "were estimated, or recomputes some (checkpoints). Estimate them with joins='summed'"
            )
        if torch.is_grad_enabled():
            self._acted.layers_called.add(join.name)
        if not (join.a.requires_grad and join.b.requires_grad):
            return join.run()
        in_place = join.func in IN_PLACE_ADDITIONS
        result: Tensor = JoinFunction.apply(join.a, join.b, self, pattern.detach().to(join.a), in_place)  # type: ignore[no-untyped-call]
        return result

    def _check_joins(self, seen: int) -> None:
        expected = sum(is_join(name) for name in self._known.with_patterns()) if self._reads_joins else seen
        if seen != expected:
            raise PgigError(
                f"the model adds branches {seen} times, and these patterns have {expected} joins: it takes another way "
                "than when they were estimated. Estimate them with joins='summed'"
            )

    def _gate(self, gate: Gate, func: Operation, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor:
        """The gate itself, and a hook at its output: what arrives there is changed before the gate's own gradient."""
        if not gate.hard and gate.x.requires_grad:
            self._acted.soft_gates_left.add(gate.name)
        # now: the gate may work in place
        positive = gate.x.detach() > 0 if not gate.hard and self._visits_soft_gates else None
        output = func(*args, **kwargs)
        # the hook must not hold the gate's input: that of a gate in place is the output, and the whole graph would stay
        hard = gate.hard

        def change(arriving: Tensor) -> Tensor:
            self._acted.on_gates.add(hard)
            if self.rule.gate is None or not (hard or self.rule.soft_gates):
                return arriving
            return self.rule.gate(arriving) if positive is None else self.rule.gate(arriving) * positive

        if output.requires_grad and (gate.hard or positive is not None):
            with torch._C.DisableTorchFunction():  # it is nothing that the model does
                output.register_hook(change)  # type: ignore[no-untyped-call]
        return output

    def _batch_norm(
        self, func: Operation, input: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
        weight: Tensor | None = None, bias: Tensor | None = None, training: bool = False, momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Tensor:  # fmt: skip
        if training and not self._tracks:
            raise UntrackedError
        if self._known.derived.origin(input) is not None:  # a weight is standardised
            return func(input, running_mean, running_var, weight, bias, training, momentum, eps)
        check_norm(running_var, training)

        def run(x: Tensor) -> Tensor:
            return func(x, running_mean, running_var, weight, bias, training, momentum, eps)

        if not input.requires_grad:
            return run(input)
        assert running_var is not None
        factor = (running_var + eps).rsqrt() * (1 if weight is None else weight.detach())
        skips = self._replaces_norms and behind_layer(input)
        result: Tensor = NormFunction.apply(input, self, factor, run, skips)  # type: ignore[no-untyped-call]
        return result

    def _dropout(self, func: Operation, *args: Any, **kwargs: Any) -> Tensor:
        given = dict(zip(("input", "p", "training"), args, strict=False)) | kwargs
        on = given.get("train", given.get("training", True))  # torch.dropout calls it train
        if on and given.get("p", 0.5) > 0:
            raise PgigError(_RANDOM)
        return func(*args, **kwargs)

    def _attention(self, func: Operation, *args: Any, **kwargs: Any) -> Tensor:
        if (args[4] if len(args) > 4 else kwargs.get("dropout_p", 0)) > 0:
            raise PgigError(_RANDOM)
        return func(*args, **kwargs)

    def _activation(self, func: Operation, *args: Any, **kwargs: Any) -> Tensor:
        if any(tensor.requires_grad for tensor in tensors_in(args)):  # what rules do to gradients is not the model's
            self._acted.activations_left.add(func.__name__.strip("_"))
        return func(*args, **kwargs)

    def _view(self, func: Operation, tensor: Tensor, *shape: Any, **kwargs: Any) -> Tensor:
        try:
            return func(tensor, *shape, **kwargs)
        except RuntimeError:
            if not self._channels_last:
                raise
            # the model counts on the contiguous layout that it would have without channels_last
            return func(tensor.contiguous(), *shape, **kwargs)


def check_norm(running_var: Tensor | None, training: bool) -> None:
    if training or running_var is None:
        raise PgigError(
            "a batch norm uses the statistics of the batch, so inputs would influence each other: "
            "call model.eval(), and keep track_running_stats on"
        )


_RANDOM = "dropout is on, so the model is not a function of its input: call model.eval()"
_RRELUS = F.rrelu, F.rrelu_
_HANDLERS: dict[Any, Operation] = {
    F.scaled_dot_product_attention: RuleMode._attention,
    F.batch_norm: RuleMode._batch_norm,
    **dict.fromkeys(DROPOUTS, RuleMode._dropout),
    **dict.fromkeys(ACTIVATIONS, RuleMode._activation),
    Tensor.view: RuleMode._view,
}  # fmt: skip
# what the plain rule must see: no more than that is looked at where no rule acts on layers
_WITHOUT_RULES = set(_HANDLERS) - set(ACTIVATIONS) | set(_RRELUS)
_LAYERS = set(LAYER_OPERATIONS)
_GATES = set(GATE_OPERATIONS) | set(ACTIVATIONS)
