"""Small networks, each with something that trips explainers up."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def chain(inplace: bool = False) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, stride=2, padding=1),
        nn.ReLU(inplace),
        nn.Conv2d(6, 8, 3, dilation=2, padding=2, groups=2),
        nn.ReLU(inplace),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 2 * 2, 5),
    )


class Residual(nn.Module):
    """One ReLU used twice, batch norm, and a sum of branches."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(6)
        self.conv2 = nn.Conv2d(6, 6, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)
        self.fc = nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.conv2(y) + y)
        return self.fc(y.mean((2, 3)))


class Concatenating(nn.Module):
    """Two branches side by side, with functional ReLUs of every spelling and an old-style view."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Conv2d(3, 4, 1)
        self.right = nn.Conv2d(3, 4, 4, padding="same")
        self.head = nn.Linear(8 * 8 * 8, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.cat([torch.relu(self.left(x)), self.right(x).relu_()], 1)
        return self.head(F.relu(y).view(y.size(0), -1))


class Functional(nn.Module):
    """No layer modules: parameters and functions only, weights to the right, to the left, and transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(6, 3, 3, 3) / 5)
        self.hidden = nn.Parameter(torch.randn(6 * 36, 7) / 15)
        self.middle = nn.Parameter(torch.randn(7, 7) / 3)
        self.out = nn.Parameter(torch.randn(5, 7) / 3)
        self.bias = nn.Parameter(torch.randn(5))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(F.conv2d(x, self.kernel))
        y = (y.flatten(1) @ self.hidden).relu()
        y = torch.relu(self.middle @ y.mT).mT
        return torch.addmm(self.bias, y, self.out.t())


class UpAndDown(nn.Module):
    """A transposed convolution, and a convolution over one axis."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 6, 2, stride=2)
        self.up = nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, output_padding=1, groups=2)
        self.along = nn.Conv1d(4, 5, 3, padding=1, padding_mode="circular")

    def forward(self, x: Tensor) -> Tensor:
        y = self.up(self.down(x).relu()).relu()
        return self.along(y.flatten(2)).relu().mean(2)


NETWORKS = {
    "chain": chain,
    "in place": lambda: chain(inplace=True),
    "residual": Residual,
    "concatenating": Concatenating,
    "functional": Functional,
    "up and down": UpAndDown,
}


def network(name: str, dtype: torch.dtype = torch.float64) -> nn.Module:
    """A network of the table with fixed random weights, in eval mode."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = NETWORKS[name]()
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.weight.data.uniform_(0.5, 2)
                module.bias.data.normal_()
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)
    return model.eval().to(dtype)


class Centring(nn.Module):
    """The answer for a row depends on the mean of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.net = network("chain")

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x - x.mean(0))


def images(count: int = 3, dtype: torch.dtype = torch.float64, seed: int = 2) -> Tensor:
    return torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def layer_weights(model: nn.Module) -> dict[str, Tensor]:
    """Layer name -> weight, of all layers that patterns are for."""
    norms = {name for name, module in model.named_modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)}
    named = {name.removesuffix(".weight"): p.detach() for name, p in model.named_parameters() if p.dim() > 1}
    return {name: p for name, p in named.items() if name not in norms}


def random_patterns(model: nn.Module, seed: int = 3) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(w.shape, generator=generator, dtype=torch.float64).to(w) + 0.5
        for name, w in layer_weights(model).items()
    }


def patterns_of_ones(model: nn.Module) -> dict[str, Tensor]:
    return {name: torch.ones_like(w) for name, w in layer_weights(model).items()}
