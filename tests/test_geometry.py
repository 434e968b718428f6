"""Convolutions of every geometry: the pattern rule on random cases against the detach trick."""

import torch
import torch.nn.functional as F
from convolutions import convolutions
from hypothesis import given
from torch import Tensor

import pgig


@given(convolutions())
def test_the_pattern_rule_is_exact_for_every_geometry(case):
    layer, x = case
    pattern = torch.randn_like(layer.weight)
    fast = pgig.attribute(
        "pattern_attribution", layer, x, patterns={"weight": pattern}, score=total, start="one", batch_size=2
    )
    inside = x.clone().requires_grad_()
    with torch.no_grad():
        original = layer.weight.clone()
        layer.weight.mul_(pattern)
    (slow,) = torch.autograd.grad(total(layer(inside)).sum(), inside)
    with torch.no_grad():
        layer.weight.copy_(original)
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-11)


def total(y: Tensor) -> Tensor:
    """A linear score in which every output counts differently."""
    weights = torch.linspace(-1, 1, y[0].numel(), dtype=y.dtype)
    return F.linear(y.flatten(1), weights[None])[:, 0]
