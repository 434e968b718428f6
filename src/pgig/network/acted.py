"""What rules acted on while a model ran, and what they left: a plain gradient is never passed off as their work."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field

from pgig.errors import PgigError, PgigWarning
from pgig.methods.rules import Rule


@dataclass
class Acted:
    on_layers: bool = False  # in a backward pass, so on the way from the input to the score
    on_gates: set[bool] = field(default_factory=set)  # hard ones, and soft ones
    layers_called: set[str] = field(default_factory=set)
    soft_gates_left: set[str] = field(default_factory=set)
    activations_left: set[str] = field(default_factory=set)
    products_left: set[str] = field(default_factory=set)

    def forget(self) -> None:
        """What was acted on so far does not count for what comes next."""
        self.layers_called.clear()
        self.on_layers = False
        self.on_gates.clear()

    def check_any(self, rules: Iterable[Rule]) -> None:
        for rule in rules:
            if rule.gate is not None and not self.on_gates & ({True, False} if rule.soft_gates else {True}):
                self._refuse_without_gates(rule)
            if (rule.needs_patterns or rule.keeps_input) and not self.on_layers:
                name = "pattern" if rule.needs_patterns else rule.name
                raise PgigError(f"the {name} rule found no layer to act on: no convolution or linear layer was called")

    def check(self, rules: Iterable[Rule], with_patterns: set[str]) -> None:
        for rule in rules:
            if rule.gate is not None and (left := self._left_by(rule)):
                _warn(f"guided backpropagation left these activations alone: {left}")
            if rule.needs_patterns and (missed := with_patterns - self.layers_called):
                raise PgigError(
                    f"no operation was seen for layer {sorted(missed)[0]!r}, which has a pattern: it was not called, "
                    "or only inside an operation that hides it (attention, a recurrent layer). Leave its pattern "
                    "out to let its gradient be plain"
                )
            if (rule.needs_patterns or rule.keeps_input) and self.products_left:
                name = "pattern" if rule.needs_patterns else rule.name
                left = ", ".join(sorted(self.products_left))
                _warn(f"the {name} rule left these alone, their gradient is plain: {left}")

    def _refuse_without_gates(self, rule: Rule) -> None:
        left = self._left_by(rule)
        soft = self.soft_gates_left and not rule.soft_gates
        raise PgigError(
            "guided backpropagation found no rectifier to act on"
            + (f"; {left} keep their plain gradient" if left else "")
            + (": give soft_gates=True to have it act on soft ones too, or " if soft else ": ")
            + "use another method for this model"
        )

    def _left_by(self, rule: Rule) -> str:
        left = self.activations_left | (set() if rule.soft_gates else self.soft_gates_left)
        return ", ".join(sorted(left))


def _warn(text: str) -> None:
    warnings.warn(text, PgigWarning, stacklevel=4)
