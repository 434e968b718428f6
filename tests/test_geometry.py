"""Convolutions of every geometry: the pattern rule on random cases against the detach trick."""

import hypothesis.strategies as st
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from torch import Tensor, nn

import pgig


@st.composite
def convolutions(draw) -> tuple[nn.Module, Tensor]:
    axes = draw(st.integers(1, 3))
    groups = draw(st.integers(1, 2))
    transposed = draw(st.booleans())
    per_axis = st.tuples(*[st.integers(1, 3)] * axes)
    kernel, stride, dilation = draw(per_axis), draw(per_axis), draw(per_axis)
    given = {
        "kernel_size": kernel,
        "stride": stride,
        "dilation": dilation,
        "groups": groups,
        "bias": draw(st.booleans()),
    }
    if transposed:
        reach = [max(s, d) for s, d in zip(stride, dilation, strict=True)]
        given["output_padding"] = tuple(draw(st.integers(0, r - 1)) for r in reach)
        given["padding"] = tuple(draw(st.integers(0, d * (k - 1))) for k, d in zip(kernel, dilation, strict=True))
        cls = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)[axes - 1]
    else:
        if set(stride) == {1} and draw(st.booleans()):
            given["padding"] = draw(st.sampled_from(["same", "valid"]))
        else:
            given["padding"] = draw(st.tuples(*[st.integers(0, 3)] * axes))
            given["padding_mode"] = draw(st.sampled_from(["zeros", "reflect", "replicate", "circular"]))
            if axes == 3 and given["padding_mode"] == "reflect":
                given["padding_mode"] = "zeros"
        cls = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[axes - 1]
    size = [draw(st.integers(7, 9)) for _ in range(axes)]
    torch.manual_seed(draw(st.integers(0, 1000)))
    layer = cls(2 * groups, 3 * groups, **given).double()
    return layer, torch.randn(2, 2 * groups, *size).double()


@settings(max_examples=150, deadline=None, derandomize=True)
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
