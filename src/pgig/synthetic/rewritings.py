"""Rewritings of a network that change no output: which of them leave PGIG alone (docs/properties.md)?

Each makes of one small network another that computes the same function, and of the data what the other is shown.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from pgig.errors import PgigError
from pgig.explaining.attribute import attribute_all
from pgig.patterns.estimation import estimate_patterns
from pgig.patterns.regimes import Regimes
from pgig.synthetic import rewritten_networks as networks
from pgig.synthetic.rewritten_networks import CHANNELS, SCALE, SHIFT, SIDE

METHODS = "integrated_gradients", "pgig", "pattern_attribution"
_SAMPLES, _EXPLAINED = 400, 6


Stays = Literal["always", "linear", "never"]


@dataclass(frozen=True)
class Rewriting:
    """What is done to the network, and whether PGIG stays: always, with patterns of the linear regime, or never."""

    about: str
    pgig_stays: Stays
    pair: Callable[[torch.Generator], tuple[nn.Module, nn.Module]]  # before, after
    shown: Callable[[Tensor], Tensor] = lambda x: x  # what the second network is shown for x


@dataclass(frozen=True)
class Rewritten:
    """The largest differences between before and after, as shares of the largest value before."""

    outputs: float
    attributions: Mapping[str, float]  # by method


def rewritten(name: str, regime: Regimes = "auto", seed: int = 0) -> Rewritten:
    """Explain both networks, with the patterns of each, on inputs that have a mean other than zero."""
    if name not in REWRITINGS:
        raise PgigError(f"unknown rewriting {name!r}; choose one of: {', '.join(REWRITINGS)}")
    rng = torch.Generator().manual_seed(seed)
    rewriting = REWRITINGS[name]
    with torch.random.fork_rng(devices=[]):  # layers begin with weights of their own
        torch.manual_seed(seed)
        models = [model.double().eval() for model in rewriting.pair(rng)]
    mixing = torch.randn(CHANNELS, CHANNELS, generator=rng, dtype=torch.float64)
    noise = torch.randn(_SAMPLES, CHANNELS, SIDE, SIDE, generator=rng, dtype=torch.float64)
    data = torch.einsum("nchw,cd->ndhw", noise, mixing) + 0.5
    inputs = [data, rewriting.shown(data)]
    found = [
        attribute_all(
            METHODS, model, x[:_EXPLAINED], 1, patterns=estimate_patterns(model, [x], regime), score="logit",
            start="one", baseline=baseline,
        )
        for model, x, baseline in zip(models, inputs, _baselines(rewriting, data), strict=True)
    ]  # fmt: skip
    with torch.no_grad():
        outputs = [model(x) for model, x in zip(models, inputs, strict=True)]
    return Rewritten(_difference(*outputs), {m: _difference(*(each[m] for each in found)) for m in METHODS})


def _baselines(rewriting: Rewriting, data: Tensor) -> tuple[Tensor, Tensor]:
    zero = torch.zeros_like(data[:_EXPLAINED])
    return zero, rewriting.shown(zero)


def _difference(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max() / one.abs().max())


REWRITINGS: Mapping[str, Rewriting] = {
    "units_scaled": Rewriting("units scaled, and scaled back in the next layer", "always", networks.scaled),
    "units_permuted": Rewriting("units in another order", "always", networks.permuted),
    "units_doubled": Rewriting("every unit twice, its outgoing weights shared out", "always", networks.doubled),
    "dead_units": Rewriting("further units that nobody listens to", "always", networks.dead_units),
    "norm_folded": Rewriting("a batch norm folded into its convolution", "always", networks.with_norm),
    "relu_twice": Rewriting("a second ReLU behind the first", "always", networks.two_rectifiers),
    "pooled_first": Rewriting("max pooling before the ReLU in place of behind it", "always", networks.pooled_first),
    "inputs_scaled": Rewriting(
        "inputs not divided by a deviation, the first layer instead",
        "never",
        networks.scaled_inputs,
        lambda x: x / SCALE,
    ),
    "inputs_shifted": Rewriting(
        "inputs not lessened by a mean, the first layer's bias instead",
        "linear",
        networks.shifted_inputs,
        lambda x: x - SHIFT,
    ),
    "threshold_apart": Rewriting("ReLU(w.x - b) as ReLU(1 ReLU(w.x) - b)", "linear", networks.threshold_apart),
    "identity_behind": Rewriting("an identity layer between a layer and its ReLU", "linear", networks.identity_behind),
    "layer_split": Rewriting("a layer as the product of two", "never", networks.split),
    "written_out": Rewriting("a convolution written out as a matrix", "never", networks.written_out),
    "two_signs": Rewriting("y as ReLU(y) - ReLU(-y)", "never", networks.two_signs),
}
