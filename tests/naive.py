"""The rules the slow way: networks written out again, with the detach trick at layers and hooks at ReLUs.

A layer's value is that of `w`, its gradient that of `w * p`: `y' + (y - y').detach()`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Naive:
    def __init__(self, rule: str, patterns: dict[str, Tensor]) -> None:
        self.rule = rule
        self.patterns = patterns

    def layer(self, name: str, weight: Tensor, operation, x: Tensor) -> Tensor:
        value = operation(x, weight)
        if self.rule == "guided":
            return value
        stand_in = self.patterns[name] if self.rule == "patternnet" else weight * self.patterns[name]
        other = operation(x, stand_in)
        return other + (value - other).detach()

    def relu(self, x: Tensor) -> Tensor:
        y = x * (x > 0)
        if self.rule == "guided" and y.requires_grad:
            y.register_hook(lambda gradient: gradient * (gradient > 0))
        return y

    def norm(self, bn: nn.BatchNorm2d, x: Tensor) -> Tensor:
        value = bn(x)
        return x + (value - x).detach() if self.rule == "patternnet" else value

    def chain(self, m: nn.Module, x: Tensor) -> Tensor:
        c = m[2]
        x = self.relu(self.layer("0", m[0].weight, lambda x, w: F.conv2d(x, w, m[0].bias, 2, 1), x))
        x = self.relu(self.layer("2", c.weight, lambda x, w: F.conv2d(x, w, c.bias, 1, 2, 2, 2), x))
        x = F.max_pool2d(x, 2).flatten(1)
        return self.layer("6", m[6].weight, lambda x, w: F.linear(x, w, m[6].bias), x)

    def residual(self, m: nn.Module, x: Tensor) -> Tensor:
        y = self.layer("conv1", m.conv1.weight, lambda x, w: F.conv2d(x, w, None, 1, 1), x)
        y = self.relu(self.norm(m.bn1, y))
        z = self.layer("conv2", m.conv2.weight, lambda x, w: F.conv2d(x, w, m.conv2.bias, 1, 1), y)
        y = self.relu(z + y)
        return self.layer("fc", m.fc.weight, lambda x, w: F.linear(x, w, m.fc.bias), y.mean((2, 3)))

    def concatenating(self, m: nn.Module, x: Tensor) -> Tensor:
        left = self.layer("left", m.left.weight, lambda x, w: F.conv2d(x, w, m.left.bias), x)
        right = self.layer("right", m.right.weight, lambda x, w: F.conv2d(F.pad(x, (1, 2, 1, 2)), w, m.right.bias), x)
        y = self.relu(torch.cat([self.relu(left), self.relu(right)], 1))
        return self.layer("head", m.head.weight, lambda x, w: F.linear(x, w, m.head.bias), y.flatten(1))

    def functional(self, m: nn.Module, x: Tensor) -> Tensor:
        y = self.relu(self.layer("kernel", m.kernel, F.conv2d, x)).flatten(1)
        y = self.relu(self.layer("hidden", m.hidden, lambda x, w: x @ w, y))
        y = self.relu(self.layer("middle", m.middle, lambda x, w: x @ w.T, y))
        return self.layer("out", m.out, lambda x, w: x @ w.T + m.bias, y)

    def up_and_down(self, m: nn.Module, x: Tensor) -> Tensor:
        y = self.relu(self.layer("down", m.down.weight, lambda x, w: F.conv2d(x, w, m.down.bias, 2), x))
        up = {"bias": m.up.bias, "stride": 2, "padding": 1, "output_padding": 1, "groups": 2}
        y = self.relu(self.layer("up", m.up.weight, lambda x, w: F.conv_transpose2d(x, w, **up), y)).flatten(2)
        y = torch.cat([y[..., -1:], y, y[..., :1]], 2)
        return self.relu(self.layer("along", m.along.weight, lambda x, w: F.conv1d(x, w, m.along.bias), y)).mean(2)


def naive_gradient(net: str, model: nn.Module, x: Tensor, target: int, rule: str, patterns, start: str) -> Tensor:
    x = x.clone().requires_grad_()
    forward = getattr(Naive(rule, patterns), {"in place": "chain"}.get(net, net).replace(" ", "_"))
    score = forward(model, x).softmax(1)[:, target]
    first = score.detach() if start == "score" else torch.ones_like(score)
    return torch.autograd.grad(score, x, first)[0]


def matrix_gradient(model: nn.Sequential, x: Tensor, target: int, patterns: dict[str, Tensor]) -> Tensor:
    """PatternAttribution of the logit of a convolutional chain, by writing out every layer as a matrix."""
    values, matrices = x[None], []
    for name, module in model.named_children():
        shape = values.shape[1:]
        if hasattr(module, "weight"):
            plain = _matrix(module, shape, module.weight)
            matrices.append(_matrix(module, shape, module.weight * patterns[name]))
            out = module(values)
            torch.testing.assert_close(plain @ values.flatten() + _bias(module, out), out.flatten())
        else:
            out = module(values)
            jacobian = torch.autograd.functional.jacobian(module, values)
            matrices.append(jacobian.reshape(out.numel(), values.numel()))
        values = out.detach()
    row = torch.zeros(values.numel(), dtype=x.dtype)
    row[target] = 1
    for matrix in reversed(matrices):
        row = row @ matrix
    return row.reshape(x.shape).detach()


def _matrix(module: nn.Module, shape: torch.Size, weight: Tensor) -> Tensor:
    basis = torch.eye(shape.numel(), dtype=weight.dtype).reshape(-1, *shape)
    if isinstance(module, nn.Linear):
        columns = F.linear(basis, weight)
    else:
        columns = F.conv2d(basis, weight, None, module.stride, module.padding, module.dilation, module.groups)
    return columns.flatten(1).T.detach()


def _bias(module: nn.Module, out: Tensor) -> Tensor:
    return module.bias.reshape(-1, *[1] * (out.dim() - 2)).expand(out.shape[1:]).flatten()
