"""What holds and what does not: the paper's statements on PGIG as functions (docs/properties.md)."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pgig.errors import PgigError
from pgig.explaining.attribute import attribute, attribute_all
from pgig.methods.table import Method, Start
from pgig.patterns.estimation import estimate_patterns


class Sensitivity(NamedTuple):
    """Feature by feature: the input differs from the baseline in that feature alone."""

    change: Tensor  # [features], of the output
    attribution: Tensor  # [features], of the feature that differs

    @property
    def violated(self) -> Tensor:  # [features], bool: the output changed and the feature got nothing
        return (self.change != 0) & (self.attribution == 0)


def sensitivity(
    method: str | Method,
    model: nn.Module,
    x: Tensor,
    baseline: Tensor,
    patterns: Mapping[str, Tensor] | None = None,
    *,
    target: int = 0,
    start: Start = "one",
) -> Sensitivity:
    """Sensitivity of one input [features]: a feature that alone changes the output must not have attribution zero."""
    if x.dim() != 1 or baseline.shape != x.shape:
        raise PgigError(f"one input and its baseline, [features] each, got {tuple(x.shape)}, {tuple(baseline.shape)}")
    alone = baseline + torch.diag(x - baseline)  # one row per feature
    options = {"patterns": patterns, "baseline": baseline[None].expand_as(alone), "score": "logit", "start": start}
    found = attribute(method, model, alone, target, **options)  # type: ignore[arg-type]
    with torch.no_grad():
        at, before = model(alone)[:, target], model(baseline[None])[:, target]
    return Sensitivity(at - before, found.diagonal())


class LinearCase(NamedTuple):
    pgig: Tensor  # [n, features]
    pattern_times_ig: Tensor  # [n, features]


def linear_case(layer: nn.Linear, x: Tensor, pattern: Tensor) -> LinearCase:
    """PGIG of a layer with one unit, and its pattern times integrated gradients: the same."""
    if layer.out_features != 1:
        raise PgigError(f"the linear case is a layer of one unit, this one has {layer.out_features}")
    model = nn.Sequential(layer).eval()
    found = attribute_all(
        ["pgig", "integrated_gradients"], model, x, 0, patterns={"0": pattern}, score="logit", start="one"
    )
    return LinearCase(found["pgig"], pattern * found["integrated_gradients"])


class Invariance(NamedTuple):
    """The same function as two networks, and what a method says of each."""

    outputs: tuple[Tensor, Tensor]  # [n] each
    attributions: dict[str, tuple[Tensor, Tensor]]  # method -> [2] each, at (3, 3)
    patterns: tuple[Tensor, Tensor]  # of the first layer


def two_networks() -> tuple[nn.Module, nn.Module]:
    """ReLU(w.x - b), and ReLU(1 ReLU(w.x) - b), which is the same since b > 0."""
    one = nn.Sequential(nn.Linear(2, 1), nn.ReLU()).double()
    two = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 1), nn.ReLU()).double()
    w, minus_b = [[1.0, 2.0]], [-1.0]
    values = {"0.weight": w, "0.bias": minus_b}
    more = {"0.weight": w, "0.bias": [0.0], "2.weight": [[1.0]], "2.bias": minus_b}
    one.load_state_dict({name: torch.tensor(value).double() for name, value in values.items()})
    two.load_state_dict({name: torch.tensor(value).double() for name, value in more.items()})
    return one.eval(), two.eval()


def implementation_invariance(seed: int = 0, samples: int = 5000) -> Invariance:
    """The counter-example: integrated gradients agree on both networks, PGIG and pattern attribution do not.

    x1 ~ N(0, 0.7), x2 = x1 or -x1 by a fair coin. The first layers are active on different samples, so their patterns
    differ.
    """
    rng = torch.Generator().manual_seed(seed)
    x1 = 0.7 * torch.randn(samples, generator=rng, dtype=torch.float64)
    data = torch.stack([x1, x1 * (2 * torch.randint(2, (samples,), generator=rng) - 1)], 1)
    networks = two_networks()
    patterns = [estimate_patterns(network, [data]) for network in networks]
    at = torch.tensor([[3.0, 3.0]], dtype=torch.float64)
    names = ["integrated_gradients", "pattern_attribution", "pgig"]
    found = [
        attribute_all(names, network, at, 0, patterns=p, score="logit", start="one", steps=1000)
        for network, p in zip(networks, patterns, strict=True)
    ]
    with torch.no_grad():
        outputs = networks[0](data)[:, 0], networks[1](data)[:, 0]
    attributions = {name: (found[0][name][0], found[1][name][0]) for name in names}
    return Invariance(outputs, attributions, (patterns[0]["0"][0], patterns[1]["0"][0]))
