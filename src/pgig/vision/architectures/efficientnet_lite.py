"""EfficientNet-Lite 0 to 4 (Tan & Le 2019, without squeeze-excitation), with timm's parameter names."""

import math
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from pgig.errors import PgigError


class Stage(NamedTuple):
    repeats: int
    kernel: int
    stride: int
    expansion: int
    channels: int


class Scale(NamedTuple):
    width: float
    depth: float
    size: int  # of its images


STAGES = (
    Stage(1, 3, 1, 1, 16), Stage(2, 3, 2, 6, 24), Stage(2, 5, 2, 6, 40), Stage(3, 3, 2, 6, 80), Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192), Stage(1, 3, 1, 6, 320),
)  # fmt: skip
SCALES = {
    "efficientnet_lite0": Scale(1.0, 1.0, 224),
    "efficientnet_lite1": Scale(1.0, 1.1, 240),
    "efficientnet_lite2": Scale(1.1, 1.2, 260),
    "efficientnet_lite3": Scale(1.2, 1.4, 280),
    "efficientnet_lite4": Scale(1.4, 1.8, 300),
}
_STEM, _HEAD = 32, 1280  # at every width


class SameConv2d(nn.Conv2d):
    """Padded as TensorFlow does: as many places as strides fit into the input, the odd cell behind."""

    def forward(self, x: Tensor) -> Tensor:
        down, across = (
            max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
            for size, stride, kernel in zip(x.shape[-2:], self.stride, self.kernel_size, strict=True)
        )
        if down % 2 or across % 2:
            x = F.pad(x, (across // 2, across - across // 2, down // 2, down - down // 2))
            return F.conv2d(x, self.weight, self.bias, self.stride, 0, self.dilation, self.groups)
        return F.conv2d(x, self.weight, self.bias, self.stride, (down // 2, across // 2), self.dilation, self.groups)


class Separable(nn.Module):
    """A depthwise convolution and one of single pixels: the block of the first stage."""

    def __init__(self, before: int, after: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv_dw, self.bn1 = _convolution(before, before, kernel, stride, groups=before), _norm(before)
        self.conv_pw, self.bn2 = _convolution(before, after), _norm(after)
        self.act = nn.ReLU6()
        self.skips = before == after and stride == 1

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.bn2(self.conv_pw(self.act(self.bn1(self.conv_dw(x)))))
        return y + x if self.skips else y


class Inverted(nn.Module):
    """Expanded, filtered channel by channel, and brought back."""

    def __init__(self, before: int, after: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = before * expansion
        self.conv_pw, self.bn1 = _convolution(before, wide), _norm(wide)
        self.conv_dw, self.bn2 = _convolution(wide, wide, kernel, stride, groups=wide), _norm(wide)
        self.conv_pwl, self.bn3 = _convolution(wide, after), _norm(after)
        self.act = nn.ReLU6()
        self.skips = before == after and stride == 1

    def forward(self, x: Tensor) -> Tensor:
        wide = self.act(self.bn2(self.conv_dw(self.act(self.bn1(self.conv_pw(x))))))
        y: Tensor = self.bn3(self.conv_pwl(wide))
        return y + x if self.skips else y


class EfficientNetLite(nn.Module):
    def __init__(self, scale: Scale, classes: int = 1000) -> None:
        super().__init__()
        self.conv_stem, self.bn1, self.act = _convolution(3, _STEM, 3, 2), _norm(_STEM), nn.ReLU6()
        stages, before = [], _STEM
        for number, stage in enumerate(STAGES):
            after = _rounded(stage.channels * scale.width)
            ends = number in (0, len(STAGES) - 1)  # are not deepened
            blocks: list[nn.Module] = []
            for repeat in range(stage.repeats if ends else math.ceil(stage.repeats * scale.depth)):
                stride = stage.stride if repeat == 0 else 1
                if stage.expansion == 1:
                    blocks.append(Separable(before, after, stage.kernel, stride))
                else:
                    blocks.append(Inverted(before, after, stage.kernel, stride, stage.expansion))
                before = after
            stages.append(nn.Sequential(*blocks))
        self.blocks = nn.Sequential(*stages)
        self.conv_head, self.bn2 = _convolution(before, _HEAD), _norm(_HEAD)
        self.classifier = nn.Linear(_HEAD, classes)

    def forward(self, x: Tensor) -> Tensor:
        y = self.blocks(self.act(self.bn1(self.conv_stem(x))))
        y = self.act(self.bn2(self.conv_head(y)))
        scores: Tensor = self.classifier(y.mean((2, 3)))
        return scores


def efficientnet_lite(name: str, classes: int = 1000) -> EfficientNetLite:
    if name not in SCALES:
        raise PgigError(f"unknown model {name!r}; known: {', '.join(SCALES)}")
    return EfficientNetLite(SCALES[name], classes)


def _convolution(before: int, after: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    return SameConv2d(before, after, kernel, stride=stride, groups=groups, bias=False)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


def _rounded(channels: float) -> int:
    """To a multiple of 8, and never more than a tenth less."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * channels else rounded + 8
