"""Convolutions of every geometry, drawn at random."""

import hypothesis.strategies as st
import torch
from torch import Tensor, nn


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
        cls = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[axes - 1]  # type: ignore[assignment]
    size = [draw(st.integers(7, 9)) for _ in range(axes)]
    torch.manual_seed(draw(st.integers(0, 1000)))
    layer = cls(2 * groups, 3 * groups, **given).double()
    return layer, torch.randn(2, 2 * groups, *size).double()
