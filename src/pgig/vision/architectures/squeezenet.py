"""SqueezeNet (Iandola et al. 2016), with torchvision's parameter names."""

import torch
from torch import Tensor, nn


class Fire(nn.Module):
    def __init__(self, channels: int, squeeze: int, expand: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels, squeeze, 1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeeze, expand, 1)
        self.expand1x1_activation = nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeeze, expand, 3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.squeeze_activation(self.squeeze(x))
        return torch.cat(
            [self.expand1x1_activation(self.expand1x1(x)), self.expand3x3_activation(self.expand3x3(x))], 1
        )


class SqueezeNet(nn.Module):
    def __init__(self, version: str, classes: int) -> None:
        super().__init__()
        self.features = nn.Sequential(*(_features_1_0() if version == "1_0" else _features_1_1()))
        self.classifier = nn.Sequential(
            nn.Dropout(), nn.Conv2d(512, classes, 1), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1)
        )

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.classifier(self.features(x)).flatten(1)
        return result


def squeezenet(name: str, classes: int = 1000) -> SqueezeNet:
    return SqueezeNet(name.removeprefix("squeezenet"), classes)


def _pool() -> nn.Module:
    return nn.MaxPool2d(3, 2, ceil_mode=True)


def _features_1_0() -> list[nn.Module]:
    return [
        nn.Conv2d(3, 96, 7, stride=2), nn.ReLU(inplace=True), _pool(),
        Fire(96, 16, 64), Fire(128, 16, 64), Fire(128, 32, 128), _pool(),
        Fire(256, 32, 128), Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), _pool(),
        Fire(512, 64, 256),
    ]  # fmt: skip


def _features_1_1() -> list[nn.Module]:
    return [
        nn.Conv2d(3, 64, 3, stride=2), nn.ReLU(inplace=True), _pool(),
        Fire(64, 16, 64), Fire(128, 16, 64), _pool(),
        Fire(128, 32, 128), Fire(256, 32, 128), _pool(),
        Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), Fire(512, 64, 256),
    ]  # fmt: skip
