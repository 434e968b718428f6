"""What a trace tells: every layer with its calls, every operation with its treatment."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from torch import Tensor

from pgig.network.geometry import Geometry
from pgig.network.joins import Joint
from pgig.network.unit_layout import Form

Feeds = Literal["gate", "other"]


class Norm(NamedTuple):
    """A batch norm in eval mode: y * factor + shift, per unit."""

    factor: Tensor
    shift: Tensor


@dataclass(eq=False)
class TracedLayer:
    """What the trace tells about one layer, over all its calls."""

    name: str
    original: Tensor  # the parameter
    geometry: Geometry | Joint
    calls: int = 0
    feeds: set[Feeds] = field(default_factory=set)
    norms: list[Norm | None] = field(default_factory=list)  # one per call
    biases: list[Tensor | None] = field(default_factory=list)  # one per call: a parameter that is added behind
    forms: list[Form | None] = field(default_factory=list)  # one per call

    @property
    def is_rectified(self) -> bool:
        """Does it feed gates and nothing else, always behind the same norm and bias?"""
        return self.feeds == {"gate"} and _all_same(self.norms) and _all_same(self.biases)

    @property
    def norm(self) -> Norm | None:
        """The batch norm that is part of it: behind every call, and always the same."""
        return self.norms[0] if _all_same(self.norms) else None

    @property
    def bias(self) -> Tensor | None:
        """What is added behind every call, always the same, beside the layer's own bias."""
        return self.biases[0] if _all_same(self.biases) else None

    @property
    def form(self) -> Form | None:
        """How the parameter holds its units; None where it is used in part, or in several ways: no pattern then."""
        return self.forms[0] if all(form == self.forms[0] for form in self.forms) else None


def _all_same(things: Sequence[object]) -> bool:
    return all(thing is things[0] for thing in things)


@dataclass(frozen=True)
class Step:
    """One operation of the forward pass, in order."""

    operation: str
    treatment: str
    layer: str | None = None
    part_of: str | None = None  # for a norm, the layer before it


class Embedding(NamedTuple):
    """One look into a table."""

    name: str
    ids: Tensor
    rows: int  # of the table


@dataclass
class Trace:
    layers: dict[str, TracedLayer]
    steps: list[Step]
    hidden: list[
        str
    ]  # weights inside operations that hide them (recurrent ones, einsum), or computed anew in another shape
    others: list[str]  # parameters that are no layers: norms, scales, temperatures, positions, embeddings
    embeddings: list[Embedding]  # in the order of their calls
    unused: list[str]  # parameters that this input does not reach: heads for something else
    paths: float  # from the input to the output, where every join doubles those that meet
