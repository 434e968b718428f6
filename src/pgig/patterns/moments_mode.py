"""The mode that adds up moments while a model runs."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from pgig.errors import PgigError
from pgig.network.geometry import Sums
from pgig.network.layer_calls import LayerCall, Operation
from pgig.network.layer_mode import LayerMode
from pgig.network.layers import Layers
from pgig.network.product import Product
from pgig.network.trace import TracedLayer
from pgig.patterns.moments import LayerMoments
from pgig.patterns.regimes import Mask, MaskedRegime

_ROWS = 256  # of a product's input, summed up at a time: adding to float64 sums costs more than the product itself


class MomentsMode(LayerMode):
    """Adds every call of a layer to the layer's sums, and lets it pass."""

    def __init__(
        self,
        layers: Mapping[str, TracedLayer],
        regimes: Mapping[str, tuple[MaskedRegime, bool]],
        mask: Mask,
        before: Mapping[str, Sums],
    ) -> None:
        super().__init__()
        self._traced, self._regimes, self._mask = layers, regimes, mask
        self._sums: dict[str, Sums] = dict(before)
        self._lent: set[str] = set(before)  # layers whose sums somebody else holds: not to be written to
        self._rows: dict[str, list[tuple[Product, Tensor, Tensor, Tensor | None]]] = {}

    def reading(self, layers: Layers) -> "MomentsMode":
        self._layers = layers
        return self

    def _layer(self, func: Operation, call: LayerCall) -> Tensor:
        y = call.run(call.x)
        if call.layer.name in self._regimes:
            self._add(call, y)
        return call.as_given(y)

    def _other(self, func: Operation, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return func(*args, **kwargs)

    def settle(self) -> None:
        for name, rows in self._rows.items():
            if rows:
                self._flush(name)

    def finished(self) -> dict[str, LayerMoments]:
        self.settle()
        result = {}
        for name, (regime, centred) in self._regimes.items():
            layer = self._traced[name]
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
        norm, added = self._traced[call.layer.name].norm, self._traced[call.layer.name].bias
        judged = y if added is None or self._mask == "no_bias" else y + added
        if self._mask == "no_bias":
            if call.bias is not None:
                judged = judged - call.geometry.per_unit(call.bias, y)
            judged = judged if norm is None else judged * call.geometry.per_unit(norm.factor, y)
        elif norm is not None:
            factor, shift = (call.geometry.per_unit(part, y) for part in norm)
            judged = judged * factor + shift
        return judged > 0 if regime == "positive" else judged <= 0
