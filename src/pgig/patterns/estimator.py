"""The pass over data behind moments: batch by batch, forward only."""

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from pgig.errors import PgigError, PgigWarning
from pgig.methods.rules import plain
from pgig.network.checks import check_finite, is_out_of_memory, uncompiled
from pgig.network.interception import RuleMode
from pgig.network.join_names import is_join
from pgig.network.layers import Layers
from pgig.network.memory_format import formatted
from pgig.network.trace import trace, trace_with_joins
from pgig.patterns.moments import Moments
from pgig.patterns.moments_mode import MomentsMode
from pgig.patterns.regimes import Joins, Mask, Regimes, check_joins, check_layers, check_regimes, resolved
from pgig.patterns.samples import Call, Further, FurtherNamed, call_of, fingerprint
from pgig.subject.subject import Subject


class Estimator:
    """The pass over data, batch by batch."""

    def __init__(
        self,
        model: nn.Module | Subject,
        regime: Regimes = "auto",
        mask: Mask = "bias",
        preprocessing: Mapping[str, Any] | None = None,
        forward_args: Further = (),
        forward_kwargs: FurtherNamed | None = None,
        joins: Joins = "summed",
    ) -> None:
        self._subject = Subject.of(model)
        if not isinstance(self._subject.model, nn.Module):
            raise PgigError("patterns are estimated for modules: a plain callable has no named layers")
        self._subject.check([plain])
        check_regimes(regime, mask)
        check_joins(joins)
        self._trace = trace_with_joins if joins == "shared" else trace
        self._paths = 1.0
        self._model, self._regime, self._mask = self._subject.module, regime, mask
        check_finite(self._model)
        self._preprocessing = dict(preprocessing or {})
        self._further = forward_args, forward_kwargs
        self._started: MomentsMode | None = None
        self._before: Moments | None = None
        self._unsupported: tuple[str, ...] = ()
        self._fingerprint = 0
        self.samples = 0

    def update(self, batch: Any) -> None:
        call = call_of(batch, *self._further)
        x = call.x
        try:
            with torch.no_grad(), parametrize.cached(), uncompiled():
                self._read(call)
        except (RuntimeError, TypeError, IndexError, AttributeError) as error:
            if is_out_of_memory(error):
                raise
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise PgigError(f"the model failed on a batch of shape {tuple(x.shape)}, {x.dtype}: {reason}") from error
        self.samples += len(x)
        self._fingerprint = (self._fingerprint + fingerprint(x)) % 2**64

    def _read(self, call: Call) -> None:
        first = call.first_row()
        if self._started is None:
            self._started = self._start(first)
        positional = [value for value in first.args if isinstance(value, Tensor)]
        channels_last = len(positional) == len(call.args) and self._subject.runs_in_channels_last(
            positional, (), first.kwargs
        )
        layers = Layers(self._model, None, channels_last)
        # copies: a model may write to what it is given
        args = [value.clone() if isinstance(value, Tensor) else value for value in call.args]
        reading = self._started.reading(layers)
        with RuleMode(layers, [plain], channels_last), reading, reading.forward():
            self._model(*(formatted(args, True) if channels_last else args), **call.kwargs)

    def settle(self) -> None:
        """Sum up what waits. Sums depend, in their last bits, on when this is done: do it at fixed places."""
        if self._started is not None:
            self._started.settle()

    def go_on_from(self, before: Moments) -> None:
        """Add to sums of earlier batches, as if they had been read here."""
        self._before = before

    def moments(self) -> Moments:
        if self._started is None and self._before is not None:
            return self._before
        if self._started is None:
            raise PgigError("no data: the batches are empty")
        layers = self._started.finished()
        digest = Subject.of(self._subject).digest
        samples, seen = self.samples, self._fingerprint
        if self._before is not None:
            samples, seen = samples + self._before.samples, (seen + self._before.fingerprint) % 2**64
        return Moments(layers, samples, digest, seen, self._preprocessing, self._unsupported, self._paths)

    def _start(self, first: Call) -> "MomentsMode":
        traced = self._trace(self._model, *first.args, **first.kwargs)
        self._paths = traced.paths
        if self._trace is trace_with_joins and not any(map(is_join, traced.layers)):
            warnings.warn(
                "no joins to share: this model adds no two tensors with + or add()", PgigWarning, stacklevel=6
            )
        partly = [name for name, layer in traced.layers.items() if layer.form is None]
        self._unsupported = (*traced.hidden, *partly)
        regimes = {name: resolved(self._regime, layer) for name, layer in traced.layers.items() if name not in partly}
        if not regimes:
            raise PgigError("no convolution or linear layer was called: there is nothing to estimate patterns for")
        check_layers(self._regime, list(regimes))
        earlier = {} if self._before is None else dict(self._before.layers)
        before = {(name, m.regime): m.sums for name, layer in earlier.items() for m in layer.all}
        if before and before.keys() != {(name, each.regime) for name, taken in regimes.items() for each in taken}:
            raise PgigError("the moments to go on from are of other layers than the model calls")
        return MomentsMode(traced.layers, regimes, self._mask, before)
