"""Which memory format a model runs in."""

from collections.abc import Callable, Hashable, Mapping, MutableMapping, Sequence
from itertools import zip_longest
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from pgig.errors import PgigError
from pgig.methods.rules import plain
from pgig.network.checks import is_scripted
from pgig.network.interception import RuleMode
from pgig.network.layer_calls import tensors_in
from pgig.network.layers import Layers
from pgig.subject.rows import FAILURES

# Do a model's outputs stay the same in channels_last? By model and shape of its inputs.
_SAME: MutableMapping[Callable[..., Any], dict[Hashable, bool]] = WeakKeyDictionary()


def runs_in_channels_last(
    model: Callable[..., Any],
    inputs: Sequence[Tensor],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> bool:
    """Is the channels_last format the faster one here, and does it change nothing?

    On CPUs it is faster for convolutions in float32 and below. Some models count on the contiguous layout, as by
    writing through a view: one input is compared in both formats, once per model and shape. `args` and `kwargs` are
    what the model takes beside the inputs, for one input.
    """
    return _is_faster(model, inputs) and _is_same(model, inputs, args, kwargs or {})


def formatted(inputs: Sequence[Tensor], channels_last: bool) -> list[Tensor]:
    if not channels_last:
        return list(inputs)
    return [x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x for x in inputs]


def _is_faster(model: Callable[..., Any], inputs: Sequence[Tensor]) -> bool:
    if not isinstance(model, nn.Module) or is_scripted(model) or any(x.device.type != "cpu" for x in inputs):
        return False
    has_images = any(x.dim() == 4 and x.dtype != torch.float64 for x in inputs)
    return has_images and any(parameter.dim() == 4 for parameter in model.parameters())


def _is_same(
    model: Callable[..., Any], inputs: Sequence[Tensor], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> bool:
    key = tuple(x.shape[1:] for x in inputs)
    answers = _SAME.setdefault(model, {})
    if key not in answers:
        outputs = []
        for channels_last in (False, True):
            mode = RuleMode(Layers(model, None, channels_last), [plain], channels_last)
            try:
                with torch.no_grad(), mode:
                    outputs.append(model(*formatted([x[:1].clone() for x in inputs], channels_last), *args, **kwargs))
            except FAILURES as error:
                if isinstance(error, PgigError):
                    raise
                if not channels_last:
                    return False  # it does not take one input alone: what that means is asked elsewhere
                outputs.append(())
        answers[key] = _agree(*outputs)
    return answers[key]


def _agree(one: Any, other: Any) -> bool:
    pairs = list(zip_longest(tensors_in(one), tensors_in(other)))
    return all(
        a is not None
        and b is not None
        and a.shape == b.shape
        and float((a - b).abs().max()) <= 1e-3 * float(a.abs().max())
        for a, b in pairs
    )
