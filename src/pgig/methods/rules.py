"""Rules: what the backward pass does at a layer, at a gate, and at a norm behind a layer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


class Visit(Protocol):
    """What a rule that must see a layer's input sees on the way back."""

    x: Tensor  # as the layer got it
    weight: Tensor  # as it was used; or what stands for it, where the rule has patterns
    arriving: Tensor  # the gradient of the output

    def output(self, weight: Tensor) -> Tensor:
        """The layer's output for x, without a bias, had it this weight."""
        ...

    def gradient(self, arriving: Tensor, weight: Tensor) -> Tensor:
        """What this weight sends back to x of what arrives."""
        ...


@dataclass(frozen=True)
class Rule:
    """Changes gradients, never values. The default of every field is what autograd does."""

    name: str
    weight: Callable[[Tensor, Tensor], Tensor] | None = None  # (w, p) -> what stands for w in the backward pass
    layer: Callable[[Visit], Tensor] | None = (
        None  # what goes back to x, where that depends on x; the layer keeps it then
    )
    gate: Callable[[Tensor], Tensor] | None = None  # what becomes of the gradient that arrives at a rectifier
    soft_gates: bool = False  # at gates that are soft too, where their input is positive; 0 where it is not
    skips_norm: bool = False  # does a batch norm behind a layer pass gradients on unchanged?
    backward: bool = True  # False: no backward pass at all, the gradient is taken to be one

    @property
    def needs_patterns(self) -> bool:
        return self.weight is not None

    @property
    def keeps_input(self) -> bool:
        return self.layer is not None


plain = Rule("plain")
guided = Rule("guided", gate=lambda gradient: gradient.clamp(min=0))
pattern = Rule("pattern", weight=lambda w, p: w * p)
patternnet = Rule("patternnet", weight=lambda w, p: p, skips_norm=True)
none = Rule("none", backward=False)
