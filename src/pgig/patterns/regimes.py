"""Regimes: which samples count for a unit."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple, get_args

from pgig.errors import PgigError
from pgig.network.join_names import is_join
from pgig.network.traced import TracedLayer

MaskedRegime = Literal["positive", "negative", "linear"]
Regime = Literal["auto", "positive", "negative", "linear", "centred", "quality"]
Regimes = Regime | Mapping[str, Regime]
Joins = Literal["summed", "shared"]  # what a join sends back to its branches: all to each, or a share each
Mask = Literal["bias", "no_bias"]  # where activity is judged: behind the bias, or before it


class Taken(NamedTuple):
    """A regime that moments are summed up for."""

    regime: MaskedRegime
    centred: bool = False


CANDIDATES = Taken("positive"), Taken("linear")  # of "quality"


def check_regimes(regime: Regimes, mask: Mask) -> None:
    for wanted in regime.values() if isinstance(regime, Mapping) else [regime]:
        if wanted not in get_args(Regime):
            raise PgigError(f"unknown regime {wanted!r}; choose one of: {', '.join(get_args(Regime))}")
    if mask not in get_args(Mask):
        raise PgigError(f"unknown mask {mask!r}; choose 'bias' or 'no_bias'")


def check_joins(joins: Joins) -> None:
    if joins not in get_args(Joins):
        raise PgigError(f"unknown joins {joins!r}; choose 'summed' or 'shared'")


def check_layers(regime: Regimes, layers: Sequence[str]) -> None:
    """Refuse names of layers that match none."""
    for pattern in regime if isinstance(regime, Mapping) else ():
        if not any(fnmatchcase(name, pattern) for name in layers):
            more = ", ..." if len(layers) > 4 else ""
            raise PgigError(f"no layer matches {pattern!r}; the layers are {', '.join(layers[:4])}{more}")


def resolved(regime: Regimes, layer: TracedLayer) -> tuple[Taken, ...]:
    """The regime of one layer, and whether it is centred; for "quality" all that are to choose from, auto's first."""
    if isinstance(regime, Mapping):
        regime = next((value for pattern, value in regime.items() if fnmatchcase(layer.name, pattern)), "auto")
    traced = Taken("positive" if layer.is_rectified else "linear", centred=regime == "centred")
    if regime == "quality" and not is_join(layer.name):
        return tuple(sorted(CANDIDATES, key=lambda taken: taken != traced))
    return (traced,) if regime in ("auto", "centred", "quality") else (Taken(regime),)  # type: ignore[arg-type]


def asks_for_quality(regime: Regimes) -> bool:
    return "quality" in (regime.values() if isinstance(regime, Mapping) else (regime,))
