"""Pairs of small networks that compute the same function: one, and the same rewritten."""

import copy
from typing import Any

import torch
from torch import nn

CHANNELS, SIDE = 4, 5
SCALE, SHIFT = 2.5, -1.5  # of inputs


def _network(rng: torch.Generator) -> Any:  # nn.Sequential; its members have weights
    """Convolution, ReLU, convolution, ReLU, linear; with biases."""
    model = nn.Sequential(
        nn.Conv2d(CHANNELS, 6, 3), nn.ReLU(), nn.Conv2d(6, 5, 2), nn.ReLU(), nn.Flatten(), nn.Linear(20, 3)
    ).double()  # fmt: skip
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.4 * torch.randn(parameter.shape, generator=rng, dtype=torch.float64))
    return model


def _copies(rng: torch.Generator) -> tuple[Any, Any]:
    model = _network(rng)
    return model, copy.deepcopy(model)


def _widen(model: Any, units: int) -> None:
    """So many units in the first layer, whose weights are still to be set."""
    model[0], model[2] = nn.Conv2d(CHANNELS, units, 3).double(), nn.Conv2d(units, 5, 2).double()


@torch.no_grad()
def scaled(rng: torch.Generator) -> tuple[nn.Module, nn.Module]:
    before, after = _copies(rng)
    scale = 0.2 + 3 * torch.rand(6, generator=rng, dtype=torch.float64)
    after[0].weight.mul_(scale[:, None, None, None])
    after[0].bias.mul_(scale)
    after[2].weight.div_(scale[:, None, None])
    return before, after


@torch.no_grad()
def permuted(rng: torch.Generator) -> tuple[nn.Module, nn.Module]:
    before, after = _copies(rng)
    order = torch.randperm(6, generator=rng)
    after[0].weight.copy_(before[0].weight[order])
    after[0].bias.copy_(before[0].bias[order])
    after[2].weight.copy_(before[2].weight[:, order])
    return before, after


@torch.no_grad()
def doubled(rng: torch.Generator) -> tuple[nn.Module, nn.Module]:
    """Every unit of the first layer twice, with a third and two thirds of its outgoing weight."""
    before, after = _copies(rng)
    _widen(after, 12)
    after[0].weight.copy_(before[0].weight.repeat(2, 1, 1, 1))
    after[0].bias.copy_(before[0].bias.repeat(2))
    after[2].weight.copy_(torch.cat([before[2].weight / 3, 2 * before[2].weight / 3], 1))
    after[2].bias.copy_(before[2].bias)
    return before, after


@torch.no_grad()
def dead_units(rng: torch.Generator) -> tuple[nn.Module, nn.Module]:
    """Two further units that nobody listens to."""
    before, after = _copies(rng)
    _widen(after, 8)
    after[0].weight[:6], after[0].bias[:6] = before[0].weight, before[0].bias
    after[2].weight[:, :6], after[2].weight[:, 6:] = before[2].weight, 0
    after[2].bias.copy_(before[2].bias)
    return before, after


@torch.no_grad()
def with_norm(rng: torch.Generator) -> tuple[nn.Module, nn.Module]:
    """A batch norm behind the first convolution, and the same folded into it."""
    folded, loose = _copies(rng)
    norm = nn.BatchNorm2d(6).double()
    for values in (norm.weight, norm.bias, norm.running_mean):
        assert values is not None
        values.copy_(torch.randn(6, generator=rng, dtype=torch.float64))
    assert norm.running_var is not None
    assert norm.running_mean is not None
    norm.running_var.copy_(0.3 + torch.rand(6, generator=rng, dtype=torch.float64))
    factor = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    loose.insert(1, norm)
    folded[0].weight.mul_(factor[:, None, None, None])
    folded[0].bias.sub_(norm.running_mean).mul_(factor).add_(norm.bias)
    return loose, folded


@torch.no_grad()
def two_rectifiers(rng: torch.Generator) -> tuple[nn.Module, nn.Module]:
    before, after = _copies(rng)
    after.insert(1, nn.ReLU())
    return before, after


def pooled_first(rng: torch.Generator) -> tuple[nn.Module, nn.Module]:
    """Max pooling behind the ReLU, and before it."""
    model = _network(rng)
    rest = [model[2], nn.ReLU(), nn.Flatten(), nn.Linear(5, 3).double()]
    pool = nn.MaxPool2d(2, 1)
    return nn.Sequential(model[0], nn.ReLU(), pool, *rest), nn.Sequential(model[0], pool, nn.ReLU(), *rest)


@torch.no_grad()
def scaled_inputs(rng: torch.Generator) -> tuple[nn.Module, nn.Module]:
    """The deviation that inputs were divided by, in the first layer."""
    before, after = _copies(rng)
    after[0].weight.mul_(SCALE)
    return before, after


@torch.no_grad()
def shifted_inputs(rng: torch.Generator) -> tuple[nn.Module, nn.Module]:
    """The mean that inputs were lessened by, in the first layer's bias."""
    before, after = _copies(rng)
    after[0].bias.add_(SHIFT * before[0].weight.sum((1, 2, 3)))
    return before, after


@torch.no_grad()
def threshold_apart(rng: torch.Generator) -> tuple[nn.Module, nn.Module]:
    """ReLU(w.x - b) as ReLU(1 ReLU(w.x) - b), the authors' counter-example, for units with b > 0."""
    before, after = _copies(rng)
    before[0].bias.copy_(-before[0].bias.abs())
    ones = nn.Conv2d(6, 6, 1, groups=6).double()
    ones.weight.fill_(1)
    ones.bias.copy_(before[0].bias)  # type: ignore[union-attr]
    after[0].bias.zero_()
    after.insert(2, ones)
    after.insert(3, nn.ReLU())
    return before, after


@torch.no_grad()
def split(rng: torch.Generator) -> tuple[nn.Module, nn.Module]:
    """The first layer as two linear ones: the second turns back what the first turned."""
    before, after = _copies(rng)
    turn = torch.linalg.qr(torch.randn(6, 6, generator=rng, dtype=torch.float64))[0]
    back = nn.Conv2d(6, 6, 1).double()
    after[0].weight.copy_(torch.einsum("ij,jcab->icab", turn, before[0].weight))
    after[0].bias.copy_(turn @ before[0].bias)
    back.weight.copy_(turn.T[:, :, None, None])
    back.bias.zero_()  # type: ignore[union-attr]
    after.insert(1, back)
    return before, after


@torch.no_grad()
def identity_behind(rng: torch.Generator) -> tuple[nn.Module, nn.Module]:
    """A layer that passes on what it gets, between the first layer and its ReLU."""
    before, after = _copies(rng)
    same = nn.Conv2d(6, 6, 1, groups=6, bias=False).double()
    same.weight.fill_(1)
    after.insert(1, same)
    return before, after


@torch.no_grad()
def written_out(rng: torch.Generator) -> tuple[nn.Module, nn.Module]:
    """The first convolution as the matrix that it is."""
    before, after = _copies(rng)
    width = CHANNELS * SIDE * SIDE
    zero = before[0](torch.zeros(1, CHANNELS, SIDE, SIDE).double()).flatten()
    basis = torch.eye(width, dtype=torch.float64).reshape(width, CHANNELS, SIDE, SIDE)
    dense = nn.Linear(width, len(zero)).double()
    dense.weight.copy_((before[0](basis).flatten(1) - zero).T)
    dense.bias.copy_(zero)
    return before, nn.Sequential(nn.Flatten(), dense, nn.Unflatten(1, (6, 3, 3)), *after[1:])


@torch.no_grad()
def two_signs(rng: torch.Generator) -> tuple[nn.Module, nn.Module]:
    """A linear layer, ReLU(y) - ReLU(-y) in place of its y."""
    before, after = _copies(rng)
    first, last = before[0], before[2]
    before = nn.Sequential(first, last, *before[3:])
    _widen(after, 12)
    after[0].weight.copy_(torch.cat([first.weight, -first.weight]))
    after[0].bias.copy_(torch.cat([first.bias, -first.bias]))
    after[2].weight.copy_(torch.cat([last.weight, -last.weight], 1))
    after[2].bias.copy_(last.bias)
    return before, after
