"""Summaries: what becomes of the k terms, as running sums that never hold all of them."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

State = tuple[Tensor, ...]


@dataclass(frozen=True)
class Summary:
    """A pure update with some terms [n, *input] and their weights [n], and a pure result."""

    name: str
    update: Callable[[State | None, Tensor, Tensor], State]
    result: Callable[[State], Tensor]


def _add_terms(state: State | None, terms: Tensor, weight: Tensor) -> State:
    share = torch.einsum("n,n...->...", weight, terms)
    return (share,) if state is None else (state[0] + share,)


def _add_squares(state: State | None, terms: Tensor, weight: Tensor) -> State:
    return _add_terms(state, terms.square(), weight)


def _merge_spread(state: State | None, terms: Tensor, weight: Tensor) -> State:
    # weights, mean and squared distances from the mean, merged pairwise: no difference of large numbers
    total = weight.sum()
    (mean,) = _add_terms(None, terms, weight / total)
    (spread,) = _add_squares(None, terms - mean, weight)
    if state is None:
        return total, mean, spread
    seen, seen_mean, seen_spread = state
    both, apart = seen + total, mean - seen_mean
    return both, seen_mean + apart * (total / both), seen_spread + spread + apart.square() * (seen * total / both)


mean = Summary("mean", _add_terms, lambda state: state[0])
mean_of_squares = Summary("mean of squares", _add_squares, lambda state: state[0])
variance = Summary("variance", _merge_spread, lambda state: state[2])
