"""Gates: activations that pass on what is positive. Hard ones pass on nothing else; soft ones let a little through."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

Operation = Callable[..., Tensor]


class Gate(NamedTuple):
    """One call of a gate."""

    name: str
    x: Tensor
    hard: bool


def read_gate(func: Operation, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Gate | None:
    """The call as a gate's, if it is one: whether `clamp` and its like are depends on their bounds."""
    reader = _READERS.get(func)
    return None if reader is None else reader(func, *args, **kwargs)


def _hard(func: Operation, input: Tensor, *more: Any, **named: Any) -> Gate:
    return Gate(func.__name__.strip("_"), input, hard=True)


def _soft(func: Operation, input: Tensor, *more: Any, **named: Any) -> Gate:
    return Gate(func.__name__.strip("_"), input, hard=False)


def _hardtanh(func: Operation, input: Tensor, min_val: float = -1, max_val: float = 1, inplace: Any = 0) -> Gate | None:
    return _hard(func, input) if min_val == 0 < max_val else None


def _clamp(func: Operation, input: Tensor, min: Any = None, max: Any = None, **named: Any) -> Gate | None:
    above = max is None or _is_positive(max)
    return _hard(func, input) if above and _is_zero(min) and not named else None


def _threshold(func: Operation, input: Tensor, threshold: float, value: float, inplace: Any = 0) -> Gate | None:
    return _hard(func, input) if value == 0 <= threshold else None


def _maximum(func: Operation, input: Tensor, other: Any = None, *more: Any, **named: Any) -> Gate | None:
    if more or named or not isinstance(other, Tensor):  # torch.max along an axis
        return None
    if _is_zero(other):
        return _hard(func, input)
    return _hard(func, other) if _is_zero(input) else None


def _is_positive(bound: Any) -> bool:
    if isinstance(bound, Tensor):
        return not bound.requires_grad and not bound.is_meta and bool((bound > 0).all())
    return isinstance(bound, int | float) and bound > 0


def _is_zero(bound: Any) -> bool:
    if isinstance(bound, Tensor):
        return not bound.requires_grad and not bound.is_meta and not bool(bound.any())
    return isinstance(bound, int | float) and bound == 0


_HARD = F.relu, torch.relu, Tensor.relu, torch.relu_, Tensor.relu_, F.relu_, F.relu6
_SOFT = (
    F.leaky_relu, F.leaky_relu_, F.prelu, torch.prelu, Tensor.prelu, F.rrelu, F.rrelu_, torch.rrelu, torch.rrelu_,
    F.elu, F.elu_, F.selu, F.selu_, torch.selu, torch.selu_, F.celu, F.celu_, torch.celu, torch.celu_, F.silu, F.gelu,
    F.hardswish, F.mish,
)  # fmt: skip
_CLAMPS = (
    torch.clamp, torch.clamp_, Tensor.clamp, Tensor.clamp_, torch.clip, torch.clip_, Tensor.clip, Tensor.clip_,
    torch.clamp_min, torch.clamp_min_, Tensor.clamp_min, Tensor.clamp_min_,
)  # fmt: skip
_READERS: dict[Any, Callable[..., Gate | None]] = {
    **dict.fromkeys(_HARD, _hard),
    **dict.fromkeys(_SOFT, _soft),
    **dict.fromkeys((F.hardtanh, F.hardtanh_), _hardtanh),
    **dict.fromkeys(_CLAMPS, _clamp),
    **dict.fromkeys((F.threshold, torch.threshold, torch.threshold_), _threshold),
    **dict.fromkeys((torch.maximum, Tensor.maximum, torch.max, Tensor.max, torch.fmax, Tensor.fmax), _maximum),
}
GATE_OPERATIONS = frozenset(_READERS)
