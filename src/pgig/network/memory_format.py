"""Which memory format a model runs in."""

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor, nn

from pgig.errors import PgigError
from pgig.methods.rules import plain
from pgig.network.channels_last import in_channels_last
from pgig.network.checks import FAILURES, is_scripted
from pgig.network.interception import RuleMode
from pgig.network.layers import Layers
from pgig.network.nested import tensors_in


def formatted(inputs: Sequence[Tensor], channels_last: bool) -> list[Tensor]:
    if not channels_last:
        return list(inputs)
    return [in_channels_last(x) if x.dim() == 4 else x for x in inputs]


def is_faster_in_channels_last(model: Callable[..., Any], inputs: Sequence[Tensor]) -> bool:
    """On CPUs it is, for convolutions in float32 and below."""
    if not isinstance(model, nn.Module) or is_scripted(model) or any(x.device.type != "cpu" for x in inputs):
        return False
    has_images = any(x.dim() == 4 and x.dtype != torch.float64 for x in inputs)
    return has_images and any(parameter.dim() == 4 for parameter in model.parameters())


def is_same_in_channels_last(
    model: Callable[..., Any], run: Callable[..., Any], inputs: Sequence[Tensor], args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> bool | None:  # fmt: skip
    """Does the format change nothing? None where one input alone does not go through at all.

    Some models count on the contiguous layout, as by writing through a view: one input is compared in both formats.
    run: what is called, `model` or some of it. args, kwargs: what it takes beside the inputs, for one input.
    """
    outputs = []
    for channels_last in (False, True):
        mode = RuleMode(Layers(model, None, channels_last), [plain], channels_last)
        try:
            with torch.no_grad(), mode:
                outputs.append(run(*formatted([x[:1].clone() for x in inputs], channels_last), *args, **kwargs))
        except FAILURES as error:
            if isinstance(error, PgigError):
                raise
            if not channels_last:
                return None
            outputs.append(())
    return _agree(*outputs)


def _agree(one: Any, other: Any) -> bool:
    pairs = list(zip_longest(tensors_in(one), tensors_in(other)))
    return all(
        a is not None
        and b is not None
        and a.shape == b.shape
        and float((a - b).abs().max()) <= 1e-3 * float(a.abs().max())
        for a, b in pairs
    )
