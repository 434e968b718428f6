"""Estimating moments and patterns: one streaming pass over data, forward only."""

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.overrides import TorchFunctionMode

from pgig.attribution.chunks import is_out_of_memory
from pgig.errors import PgigError
from pgig.methods.rules import plain
from pgig.network.checks import check_finite, check_model, uncompiled, without_compilation
from pgig.network.geometry import Product, Sums
from pgig.network.interception import RuleMode
from pgig.network.layer_calls import LayerCall, Operation, read_layer_call
from pgig.network.layers import Layers
from pgig.network.memory_format import formatted, runs_in_channels_last
from pgig.network.trace import TracedLayer, trace
from pgig.patterns.moments import LayerMoments, Mask, MaskedRegime, Moments
from pgig.patterns.patterns import Patterns, model_digest
from pgig.patterns.quality import signal_quality
from pgig.patterns.samples import Call, Further, FurtherNamed, call_of, checked_batches, fingerprint, samples_in

Regime = Literal["auto", "positive", "negative", "linear", "centred"]
Regimes = Regime | Mapping[str, Regime]
Progress = Callable[[int, int | None], object]
_ROWS = 256  # of a product's input, summed up at a time: adding to float64 sums costs more than the product itself


def estimate_patterns(
    model: nn.Module,
    batches: Iterable[Any],
    regime: Regimes = "auto",
    *,
    mask: Mask = "bias",
    preprocessing: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    held_out: Iterable[Any] | None = None,
    forward_args: Further = (),
    forward_kwargs: FurtherNamed | None = None,
) -> Patterns:
    """Patterns of every layer of `model`, from data. See `estimate_moments`.

    held_out: batches that were not among `batches`, to measure the signal quality on (`pgig.signal_quality`), which
        `health()` then shows.
    """
    moments = estimate_moments(
        model, batches, regime, mask=mask, preprocessing=preprocessing, progress=progress,
        forward_args=forward_args, forward_kwargs=forward_kwargs,
    )  # fmt: skip
    patterns = moments.patterns()
    if held_out is None:
        return patterns
    quality = signal_quality(
        model, patterns, held_out, forward_args=forward_args, forward_kwargs=forward_kwargs
    )  # fmt: skip
    return patterns.with_quality(quality)


def estimate_moments(
    model: nn.Module,
    batches: Iterable[Any],
    regime: Regimes = "auto",
    *,
    mask: Mask = "bias",
    preprocessing: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    forward_args: Further = (),
    forward_kwargs: FurtherNamed | None = None,
) -> Moments:
    """The sums behind patterns, which can be saved, added to others', and turned into patterns.

    batches: any iterable of tensors, of tuples whose first member is the input (a DataLoader), or of mappings that the
        model takes by name (what a tokenizer gives). The further members of a tuple are not used: they may be labels.
    regime: which samples count for a unit. "auto": those in which it is active, where the layer feeds a ReLU and
        nothing else (batch norm, dropout and max pooling may lie between), all of them elsewhere. "positive",
        "negative", "linear" (all): the same for every layer. "centred": like auto, with the covariance within the
        regime. Or a mapping of layer names, `*` allowed, to those; layers without a match are "auto".
    mask: where a unit's activity is judged: behind the bias, where the ReLU does, or before it, as the paper writes.
    preprocessing: kept with the result, for the record.
    progress: called with (samples done, samples in all or None).
    forward_args, forward_kwargs: what the model takes beside the input, fixed or as a function of the batch: for
        batches of (ids, mask), `forward_args=lambda batch: (batch[1],)`.
    """
    estimator = Estimator(model, regime, mask, preprocessing, forward_args, forward_kwargs)
    total = samples_in(checked_batches(batches))
    for batch in batches:
        estimator.update(batch)
        if progress is not None:
            progress(estimator.samples, total)
    return estimator.moments()


class Estimator:
    """The pass over data, batch by batch."""

    def __init__(
        self,
        model: nn.Module,
        regime: Regimes = "auto",
        mask: Mask = "bias",
        preprocessing: Mapping[str, Any] | None = None,
        forward_args: Further = (),
        forward_kwargs: FurtherNamed | None = None,
    ) -> None:
        unwrapped = without_compilation(model)
        if not isinstance(unwrapped, nn.Module):
            raise PgigError("patterns are estimated for modules: a plain callable has no named layers")
        check_model(unwrapped, [plain], None)
        for wanted in regime.values() if isinstance(regime, Mapping) else [regime]:
            if wanted not in get_args(Regime):
                raise PgigError(f"unknown regime {wanted!r}; choose one of: {', '.join(get_args(Regime))}")
        if mask not in get_args(Mask):
            raise PgigError(f"unknown mask {mask!r}; choose 'bias' or 'no_bias'")
        check_finite(unwrapped)
        self._model, self._regime, self._mask = unwrapped, regime, mask
        self._preprocessing = dict(preprocessing or {})
        self._further = forward_args, forward_kwargs
        self._started: _MomentsMode | None = None
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
        channels_last = len(positional) == len(call.args) and runs_in_channels_last(
            self._model, positional, (), first.kwargs
        )
        layers = Layers(self._model, None, channels_last)
        # copies: a model may write to what it is given
        args = [value.clone() if isinstance(value, Tensor) else value for value in call.args]
        with RuleMode(layers, [plain], channels_last), self._started.reading(layers):
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
        digest = model_digest(self._model)
        samples, seen = self.samples, self._fingerprint
        if self._before is not None:
            samples, seen = samples + self._before.samples, (seen + self._before.fingerprint) % 2**64
        return Moments(layers, samples, digest, seen, self._preprocessing, self._unsupported)

    def _start(self, first: Call) -> "_MomentsMode":
        traced = trace(self._model, *first.args, **first.kwargs)
        partly = [name for name, layer in traced.layers.items() if layer.form is None]
        self._unsupported = (*traced.hidden, *partly)
        regimes = {name: _resolved(self._regime, layer) for name, layer in traced.layers.items() if name not in partly}
        if not regimes:
            raise PgigError("no convolution or linear layer was called: there is nothing to estimate patterns for")
        if isinstance(self._regime, Mapping):
            for pattern in self._regime:
                if not any(fnmatchcase(name, pattern) for name in regimes):
                    more = ", ..." if len(regimes) > 4 else ""
                    raise PgigError(
                        f"no layer matches {pattern!r}; the layers are {', '.join(list(regimes)[:4])}{more}"
                    )
        before = {} if self._before is None else {name: m.sums for name, m in self._before.layers.items()}
        if before and before.keys() != regimes.keys():
            raise PgigError("the moments to go on from are of other layers than the model calls")
        return _MomentsMode(traced.layers, regimes, self._mask, before)


def _resolved(regime: Regimes, layer: TracedLayer) -> tuple[MaskedRegime, bool]:
    if isinstance(regime, Mapping):
        regime = next((value for pattern, value in regime.items() if fnmatchcase(layer.name, pattern)), "auto")
    if regime in ("auto", "centred"):
        return ("positive" if layer.is_rectified else "linear"), regime == "centred"
    return regime, False  # type: ignore[return-value]


class _MomentsMode(TorchFunctionMode):
    """Adds every call of a layer to the layer's sums, and lets it pass."""

    def __init__(
        self,
        layers: Mapping[str, TracedLayer],
        regimes: Mapping[str, tuple[MaskedRegime, bool]],
        mask: Mask,
        before: Mapping[str, Sums],
    ) -> None:
        super().__init__()
        self._layers, self._regimes, self._mask = layers, regimes, mask
        self._sums: dict[str, Sums] = dict(before)
        self._lent: set[str] = set(before)  # layers whose sums somebody else holds: not to be written to
        self._rows: dict[str, list[tuple[Product, Tensor, Tensor, Tensor | None]]] = {}
        self._reading: Layers | None = None

    def reading(self, layers: Layers) -> "_MomentsMode":
        self._reading = layers
        return self

    def __torch_function__(
        self, func: Operation, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        assert self._reading is not None
        call = read_layer_call(func, args, kwargs or {}, self._reading.find)
        if call is None or call.layer.name not in self._regimes:
            return func(*args, **(kwargs or {}))
        y = call.run(call.x)
        self._add(call, y)
        return call.as_given(y)

    def settle(self) -> None:
        for name, rows in self._rows.items():
            if rows:
                self._flush(name)

    def finished(self) -> dict[str, LayerMoments]:
        self.settle()
        result = {}
        for name, (regime, centred) in self._regimes.items():
            layer = self._layers[name]
            if layer.form is None or name not in self._sums:
                raise PgigError(f"layer {name!r} was called in the first batch and not later: its moments are missing")
            sums = self._sums[name]
            factor = layer.norm.factor.cpu().clone() if layer.norm is not None else torch.ones(len(sums.y))
            weight = layer.original.detach().cpu().clone()  # the model may change later
            result[name] = LayerMoments(weight, layer.form, regime, centred, factor, sums, self._mask)
        self._lent = set(result)
        return result

    def _add(self, call: LayerCall, y: Tensor) -> None:
        name = call.layer.name
        mask = self._active(call, y)
        if not isinstance(call.geometry, Product):
            self._count(name, call.geometry.sums(call.x, y, mask, call.used.shape))
            return
        self._rows.setdefault(name, []).append((call.geometry, call.x.clone(), y.clone(), mask))
        if sum(len(g.output_rows(y)) for g, _, y, _ in self._rows[name]) >= _ROWS:
            self._flush(name)

    def _flush(self, name: str) -> None:
        for geometry in {g for g, *_ in self._rows[name]}:
            waiting = [row[1:] for row in self._rows[name] if row[0] == geometry]
            x = torch.cat([geometry.rows(x) for x, _, _ in waiting])
            y = torch.cat([geometry.output_rows(y) for _, y, _ in waiting])
            masks = [geometry.output_rows(mask) for _, _, mask in waiting if mask is not None]
            self._count(name, Product("linear").sums(x, y, torch.cat(masks) if masks else None, x.shape))
        self._rows[name] = []

    def _count(self, name: str, sums: Sums) -> None:
        if name not in self._sums:
            self._sums[name] = Sums(sums.samples, *(part.clone().cpu() for part in sums[1:]))
            return
        before = self._sums[name]
        if name in self._lent:
            before = Sums(before.samples, *(part.clone() for part in before[1:]))
            self._lent.discard(name)
        self._sums[name] = before.grown(sums)

    def _active(self, call: LayerCall, y: Tensor) -> Tensor | None:
        regime, _ = self._regimes[call.layer.name]
        if regime == "linear":
            return None
        norm, added = self._layers[call.layer.name].norm, self._layers[call.layer.name].bias
        judged = y if added is None or self._mask == "no_bias" else y + added
        if self._mask == "no_bias":
            if call.bias is not None:
                judged = judged - call.geometry.per_unit(call.bias, y)
            judged = judged if norm is None else judged * call.geometry.per_unit(norm.factor, y)
        elif norm is not None:
            factor, shift = (call.geometry.per_unit(part, y) for part in norm)
            judged = judged * factor + shift
        return judged > 0 if regime == "positive" else judged <= 0
