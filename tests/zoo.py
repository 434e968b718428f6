"""Architectures of every kind, small."""

import torch
import torch.nn.functional as F
from networks import Functional
from torch import Tensor, nn

from pgig.vision import MODELS


class Dense(nn.Module):
    """Norm, ReLU, convolution, concatenation: the norm is not behind its layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(8 + 4 * i) for i in range(3))
        self.convs = nn.ModuleList(nn.Conv2d(8 + 4 * i, 4, 3, padding=1) for i in range(3))
        self.fc = nn.Linear(20, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for norm, conv in zip(self.norms, self.convs, strict=True):
            x = torch.cat([x, conv(F.relu(norm(x)))], 1)
        return self.fc(x.mean((2, 3)))


def mobile() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True),
        nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True),
        nn.Conv2d(16, 24, 1, bias=False), nn.BatchNorm2d(24), nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 5),
    )  # fmt: skip


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.join, self.out = nn.Conv2d(16, 8, 3, padding=1), nn.Conv2d(8, 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        first = F.relu(self.down1(x))
        up = F.relu(self.up(F.relu(self.down2(F.max_pool2d(first, 2)))))
        both = F.relu(self.join(torch.cat([first, up], 1)))
        return self.out(F.interpolate(both, scale_factor=0.5)).mean((2, 3))


class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 8, stride=8)
        self.position = nn.Parameter(torch.randn(1, 16, 16))
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.position
        return self.head(self.encoder(tokens).mean(1))


def small_vgg(name: str) -> nn.Module:
    """Its convolutions, without the hundred million weights behind them."""
    return nn.Sequential(MODELS[name](name, 5).features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 5))


def functional() -> nn.Module:
    return nn.Sequential(nn.AdaptiveAvgPool2d(8), Functional())


ZOO = {
    "mlp": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(3072, 20), nn.ReLU(), nn.Dropout(), nn.Linear(20, 10), nn.ReLU(), nn.Linear(10, 5)
    ),
    **{name: lambda name=name: MODELS[name](name, 5) for name in ("squeezenet1_0", "resnet18", "resnet50")},
    "vgg": lambda: small_vgg("vgg11"),
    "vgg-bn": lambda: small_vgg("vgg11_bn"),
    "dense": Dense,
    "mobile": mobile,
    "u-net": UNet,
    "vit": ViT,
    "functional": functional,
}


def made(name: str) -> nn.Module:
    torch.manual_seed(0)
    model = ZOO[name]().eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 2)
    return model
