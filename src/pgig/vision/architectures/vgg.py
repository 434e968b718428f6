"""VGG (Simonyan & Zisserman 2015), with torchvision's parameter names."""

from torch import Tensor, nn

_DEPTHS = {  # convolutions per block; block widths are 64, 128, 256, 512, 512
    "vgg11": (1, 1, 2, 2, 2),
    "vgg13": (2, 2, 2, 2, 2),
    "vgg16": (2, 2, 3, 3, 3),
    "vgg19": (2, 2, 4, 4, 4),
}


class VGG(nn.Module):
    def __init__(self, depths: tuple[int, ...], batch_norm: bool, classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for width, depth in zip((64, 128, 256, 512, 512), depths, strict=True):
            for _ in range(depth):
                norm = [nn.BatchNorm2d(width)] if batch_norm else []
                layers += [nn.Conv2d(channels, width, 3, padding=1), *norm, nn.ReLU(inplace=True)]
                channels = width
            layers.append(nn.MaxPool2d(2, 2))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(7)
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096), nn.ReLU(True), nn.Dropout(),
            nn.Linear(4096, 4096), nn.ReLU(True), nn.Dropout(),
            nn.Linear(4096, classes),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.classifier(self.avgpool(self.features(x)).flatten(1))
        return result


def vgg(name: str, classes: int = 1000) -> VGG:
    return VGG(_DEPTHS[name.removesuffix("_bn")], name.endswith("_bn"), classes)
