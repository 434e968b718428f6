"""Regimes: which samples count for a unit."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal, get_args

from pgig.errors import PgigError
from pgig.network.trace import TracedLayer

MaskedRegime = Literal["positive", "negative", "linear"]
Regime = Literal["auto", "positive", "negative", "linear", "centred"]
Regimes = Regime | Mapping[str, Regime]
Mask = Literal["bias", "no_bias"]  # where activity is judged: behind the bias, or before it


def check_regimes(regime: Regimes, mask: Mask) -> None:
    for wanted in regime.values() if isinstance(regime, Mapping) else [regime]:
        if wanted not in get_args(Regime):
            raise PgigError(f"unknown regime {wanted!r}; choose one of: {', '.join(get_args(Regime))}")
    if mask not in get_args(Mask):
        raise PgigError(f"unknown mask {mask!r}; choose 'bias' or 'no_bias'")


def check_layers(regime: Regimes, layers: Sequence[str]) -> None:
    """Refuse names of layers that match none."""
    for pattern in regime if isinstance(regime, Mapping) else ():
        if not any(fnmatchcase(name, pattern) for name in layers):
            more = ", ..." if len(layers) > 4 else ""
            raise PgigError(f"no layer matches {pattern!r}; the layers are {', '.join(layers[:4])}{more}")


def resolved(regime: Regimes, layer: TracedLayer) -> tuple[MaskedRegime, bool]:
    """The regime of one layer, and whether it is centred."""
    if isinstance(regime, Mapping):
        regime = next((value for pattern, value in regime.items() if fnmatchcase(layer.name, pattern)), "auto")
    if regime in ("auto", "centred"):
        return ("positive" if layer.is_rectified else "linear"), regime == "centred"
    return regime, False  # type: ignore[return-value]
