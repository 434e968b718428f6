"""The mode that adds up moments while a model runs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from pgig.errors import PgigError
from pgig.network.geometry import Sums
from pgig.network.join_names import is_join
from pgig.network.joins import JoinCall, Joint
from pgig.network.layer_calls import LayerCall, Operation
from pgig.network.layer_mode import LayerMode
from pgig.network.layers import Layers
from pgig.network.product import Product
from pgig.network.traced import TracedLayer
from pgig.patterns.moments import LayerMoments
from pgig.patterns.regimes import Mask, MaskedRegime, Taken

Key = tuple[str, MaskedRegime]  # a layer, and one of its regimes
_ROWS = 256  # of a product's input, summed up at a time: adding to float64 sums costs more than the product itself


class MomentsMode(LayerMode):
    """Adds every call of a layer to the layer's sums, and lets it pass."""

    def __init__(
        self,
        layers: Mapping[str, TracedLayer],
        regimes: Mapping[str, Sequence[Taken]],
        mask: Mask,
        before: Mapping[Key, Sums],
    ) -> None:
        super().__init__()
        self._reads_joins = any(is_join(name) for name in regimes)
        self._traced, self._regimes, self._mask = layers, regimes, mask
        self._sums: dict[Key, Sums] = dict(before)
        self._lent: set[Key] = set(before)  # sums that somebody else holds: not to be written to
        self._rows: dict[Key, list[tuple[Product, Tensor, Tensor, Tensor | None]]] = {}

    def reading(self, layers: Layers) -> "MomentsMode":
        self._layers = layers
        return self

    def _layer(self, func: Operation, call: LayerCall) -> Tensor:
        y = call.run(call.x)
        if call.layer.name in self._regimes:
            self._add(call, y)
        return call.as_given(y)

    def _join(self, join: JoinCall) -> Tensor:
        layer = self._traced.get(join.name)
        if layer is None or not isinstance(layer.geometry, Joint):
            raise PgigError("the model adds its branches in another order than before: give joins='summed'")
        a, b = join.a.clone(), join.b.clone()  # the sum may be written over one of them
        z = join.run()
        for taken in self._regimes[join.name]:
            mask = None if taken.regime == "linear" else z > 0 if taken.regime == "positive" else z <= 0
            self._count((join.name, taken.regime), layer.geometry.sums(a, b, mask))
        return z

    def _check_joins(self, seen: int) -> None:
        expected = sum(map(is_join, self._regimes)) if self._reads_joins else seen
        if seen != expected:
            raise PgigError(
                f"the model adds branches {seen} times in this batch, and {expected} times in the first: give "
                "joins='summed'"
            )

    def settle(self) -> None:
        for key, rows in self._rows.items():
            if rows:
                self._flush(key)

    def finished(self) -> dict[str, LayerMoments]:
        self.settle()
        result = {}
        for name, taken in self._regimes.items():
            first, *others = (self._finished(name, each) for each in taken)
            result[name] = replace(first, others=tuple(others))
        self._lent = set(self._sums)
        return result

    def _finished(self, name: str, taken: Taken) -> LayerMoments:
        layer, key = self._traced[name], (name, taken.regime)
        if layer.form is None or key not in self._sums:
            raise PgigError(f"layer {name!r} was called in the first batch and not later: its moments are missing")
        sums = self._sums[key]
        factor = layer.norm.factor.cpu().clone() if layer.norm is not None else torch.ones(len(sums.y))
        weight = layer.original.detach().cpu().clone()  # the model may change later
        return LayerMoments(weight, layer.form, taken.regime, taken.centred, factor, sums, self._mask)

    def _add(self, call: LayerCall, y: Tensor) -> None:
        for taken in self._regimes[call.layer.name]:
            key = call.layer.name, taken.regime
            mask = self._active(call, y, taken.regime)
            if not isinstance(call.geometry, Product):
                self._count(key, call.geometry.sums(call.x, y, mask, call.used.shape))
                continue
            self._rows.setdefault(key, []).append((call.geometry, call.x.clone(), y.clone(), mask))
            if sum(len(g.output_rows(y)) for g, _, y, _ in self._rows[key]) >= _ROWS:
                self._flush(key)

    def _flush(self, key: Key) -> None:
        for geometry in {g for g, *_ in self._rows[key]}:
            waiting = [row[1:] for row in self._rows[key] if row[0] == geometry]
            x = torch.cat([geometry.rows(x) for x, _, _ in waiting])
            y = torch.cat([geometry.output_rows(y) for _, y, _ in waiting])
            masks = [geometry.output_rows(mask) for _, _, mask in waiting if mask is not None]
            self._count(key, Product("linear").sums(x, y, torch.cat(masks) if masks else None, x.shape))
        self._rows[key] = []

    def _count(self, key: Key, sums: Sums) -> None:
        if key not in self._sums:
            self._sums[key] = Sums(sums.samples, *(part.clone().cpu() for part in sums[1:]))
            return
        before = self._sums[key]
        if key in self._lent:
            before = Sums(before.samples, *(part.clone() for part in before[1:]))
            self._lent.discard(key)
        self._sums[key] = before.grown(sums)

    def _active(self, call: LayerCall, y: Tensor, regime: MaskedRegime) -> Tensor | None:
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
