"""ResNet (He et al. 2016), with torchvision's parameter names."""

from torch import Tensor, nn

_DEPTHS = {"resnet18": (2, 2, 2, 2), "resnet34": (3, 4, 6, 3), "resnet50": (3, 4, 6, 3)}


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, channels: int, width: int, stride: int, downsample: nn.Module | None) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        result: Tensor = self.relu(self.bn2(self.conv2(y)) + identity)
        return result


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, channels: int, width: int, stride: int, downsample: nn.Module | None) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, width * self.expansion, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        result: Tensor = self.relu(self.bn3(self.conv3(y)) + identity)
        return result


class ResNet(nn.Module):
    def __init__(self, block: type[BasicBlock] | type[Bottleneck], depths: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        widths, channels = (64, 128, 256, 512), 64
        for number, (width, depth) in enumerate(zip(widths, depths, strict=True), start=1):
            self.add_module(f"layer{number}", _stage(block, channels, width, depth, stride=1 if number == 1 else 2))
            channels = width * block.expansion
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for number in range(1, 5):
            x = self.get_submodule(f"layer{number}")(x)
        result: Tensor = self.fc(self.avgpool(x).flatten(1))
        return result


def resnet(name: str, classes: int = 1000) -> ResNet:
    return ResNet(Bottleneck if name == "resnet50" else BasicBlock, _DEPTHS[name], classes)


def _stage(
    block: type[BasicBlock] | type[Bottleneck], channels: int, width: int, depth: int, stride: int
) -> nn.Sequential:
    out = width * block.expansion
    downsample = None
    if stride != 1 or channels != out:
        downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))
    blocks = [block(channels, width, stride, downsample)]
    blocks += [block(out, width, 1, None) for _ in range(depth - 1)]
    return nn.Sequential(*blocks)
