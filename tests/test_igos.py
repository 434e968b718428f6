"""I-GOS against its definition, written out."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import pgig
from pgig.draws import draws
from pgig.explainers.igos import Igos, blurred_away


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 5, stride=2), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Linear(32, 4),
    ).double().eval()  # fmt: skip


def by_definition(net: nn.Module, x: torch.Tensor, target: int, asked: Igos, name: str) -> torch.Tensor:
    """One image, the loss as one expression and autograd through all of it."""
    far, side = blurred_away(x), x.shape[-1]
    draw, l1 = draws(0, name, asked), asked.l1
    mask = torch.ones(1, 1, round(112 * side / 224), round(112 * side / 224)).double()
    first = None

    def up(mask):
        return F.interpolate(mask, size=(side, side), mode="bilinear", align_corners=True)

    def score(image):
        return net(image).softmax(1)[:, target]

    def price(mask):
        tv = (mask[:, :, 1:] - mask[:, :, :-1]).pow(2).mean() + (mask[..., 1:] - mask[..., :-1]).pow(2).mean()
        return l1 * (1 - mask).abs().mean() + asked.tv * tv

    def loss(mask):
        return price(mask) + score(x * up(mask) + far * (1 - up(mask)))[0]

    for i in range(asked.iterations):
        leaf = mask.clone().requires_grad_()
        noise = torch.randn(asked.intervals, *x.shape[1:], generator=draw(i)).double()
        total = price(leaf)
        for k in range(asked.intervals):
            part = (k + 1) / asked.intervals * up(leaf)
            total = total + score(x * part + far * (1 - part) + asked.noise * noise[k])[0] / asked.intervals
        (gradient,) = torch.autograd.grad(total, leaf)
        with torch.no_grad():
            now = loss(mask)
            fall = score(x * up(mask) + far * (1 - up(mask)))[0]
            first = fall if first is None else first
            step = 200.0
            while (
                loss((mask - step * gradient).clamp(0, 1)) > now - 1e-4 * step * gradient.pow(2).sum() and step >= 1e-5
            ):
                step *= 0.2
            mask = (mask - step * gradient).clamp(0, 1)
            if asked.iterations > 3 and i == asked.iterations // 2 and abs(first - fall) <= 0.001:
                l1 /= 10
            elif asked.iterations > 3 and i == int(asked.iterations / 1.25) and abs(first - fall) <= 0.01:
                l1 /= 5
    return (1 - up(mask)).expand_as(x)


@pytest.mark.parametrize("asked", [Igos(iterations=5, intervals=4, l1=0.05, tv=1.0), Igos(iterations=6, intervals=3)])
def test_igos_is_what_its_definition_says(asked):
    net = model()
    x = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1)).double()
    found = pgig.explain(net, x, {"igos": asked}, [1, 2], ids=["a", "b"])["igos"].attribution
    for n, (target, name) in enumerate([(1, "a"), (2, "b")]):
        wanted = by_definition(net, x[n : n + 1], target, asked, name)[0]
        torch.testing.assert_close(torch.as_tensor(found[n]), wanted, rtol=1e-6, atol=1e-9)


def test_the_mask_finds_what_counts():
    """Only the upper left corner matters: nothing else is removed."""

    class Corner(nn.Module):
        def forward(self, x):
            strength = (x[:, :, :8, :8] - 0.2).relu().mean((1, 2, 3))
            return torch.stack([6 * strength, torch.ones_like(strength)], 1)

    x = torch.zeros(1, 3, 32, 32)
    x[:, :, :8, :8] = 1
    done = []
    asked = Igos(l1=0.1, tv=0.5, noise=0.0)
    found = pgig.explain(Corner(), x, {"igos": asked}, 0, progress=lambda now, all: done.append((now, all)))["igos"]
    heat = torch.as_tensor(found.attribution[0, 0])
    assert heat[:8, :8].mean() > 10 * heat[12:, 12:].mean()
    assert heat[:8, :8].max() > 0.3
    assert done[-1] == (15, 15)
    assert len(done) >= 15


def test_it_is_an_explainer_by_name():
    x = torch.randn(1, 3, 24, 24).double()
    quick = pgig.explain(model(), x, "igos+iterations=2+intervals=2", 1)
    assert quick["igos+iterations=2+intervals=2"].options["iterations"] == 2
    for bad, message in [
        ("igos+iterations=0", "at least 1"),
        ("igos+speed=3", "no option speed"),
        ("igos+l1=x", "number"),
    ]:
        with pytest.raises(pgig.PgigError, match=message):
            pgig.explain(model(), x, bad, 1)
    with pytest.raises(pgig.PgigError, match="not a function"):
        pgig.explain(model(), x, "igos", score=lambda y: y[:, 0])
    with pytest.raises(pgig.PgigError, match="no method of gradients"):
        pgig.attribute("igos", model(), x)
