"""Forms: how a parameter holds the units of its layer."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from pgig.network.convolution import Convolution
from pgig.network.geometry import Geometry
from pgig.network.product import Product


@dataclass(frozen=True)
class Form:
    """How a parameter holds its units: a row or a column each, or as joins and transposed convolutions in groups do."""

    kind: Literal["rows", "columns", "transposed", "join"]
    groups: int = 1

    @staticmethod
    def of(geometry: Geometry, used: Tensor, original: Tensor) -> "Form | None":
        """None where the parameter is not used as it is or transposed: only a part of it, or in another shape."""
        upright = _same_view(used, original)
        if isinstance(geometry, Convolution):
            kind = Form("transposed", geometry.groups) if geometry.transposed else Form("rows")
            return kind if upright else None
        if original.dim() != 2:
            flat = used.dim() == 2 and _same_view(used, original.flatten(1)) if original.dim() > 2 else False
            return Form("rows") if upright or flat else None
        if not upright and not _same_view(used, original.mT):
            return None
        by_columns = isinstance(geometry, Product) and geometry.side == "right"
        return Form("rows" if upright != by_columns else "columns")

    def rows(self, parameter: Tensor) -> Tensor:  # [units, fan_in]
        if self.kind == "join":
            return parameter.flatten(1).mT
        if self.kind == "columns":
            return parameter.mT
        if parameter.dim() == 1:  # one unit
            return parameter[None]
        return _grouped(self.groups).canonical(parameter) if self.kind == "transposed" else parameter.flatten(1)

    def parameter(self, rows: Tensor, shape: torch.Size) -> Tensor:
        if self.kind == "join":
            return rows.mT.reshape(shape)
        if self.kind == "columns":
            return rows.mT
        return _grouped(self.groups).from_canonical(rows, shape) if self.kind == "transposed" else rows.reshape(shape)


def _same_view(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and (one.stride() == other.stride() or one.numel() <= 1)


def _grouped(groups: int) -> Convolution:
    return Convolution((), (), (), groups, True, ())
