"""Products of matrices: their input gradients, and their sums over rows."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pgig.network.geometry import Sums, at_least_single


@dataclass(frozen=True)
class Product:
    """A matrix product with the weight on the right (`x @ w`), on the left (`w @ x`), transposed (`linear`), or with a
    weight that is a vector (`x @ w`, one unit).
    """

    side: str
    factor: float = 1

    def output(self, x: Tensor, weight: Tensor) -> Tensor:
        match self.side:
            case "linear":
                result = x @ weight.mT
            case "left":
                result = weight @ x
            case _:
                result = x @ weight
        return result if self.factor == 1 else self.factor * result

    def input_gradient(self, arriving: Tensor, shape: torch.Size, weight: Tensor) -> Tensor:
        match self.side:
            case "linear":
                return arriving @ weight
            case "right":
                result = arriving @ weight.mT
            case "vector":
                result = arriving[..., None] * weight
            case _:
                result = weight.mT @ arriving
        return result if self.factor == 1 else self.factor * result

    def canonical(self, weight: Tensor) -> Tensor:
        return weight.mT if self.side == "right" else weight[None] if self.side == "vector" else weight

    def from_canonical(self, rows: Tensor, shape: torch.Size) -> Tensor:
        return rows.mT if self.side == "right" else rows[0] if self.side == "vector" else rows

    def per_unit(self, values: Tensor, output: Tensor) -> Tensor:
        return values[:, None] if self.side == "left" else values

    def unit_axis(self, axes: int) -> int | None:
        return None if self.side == "vector" else axes - 2 if self.side == "left" else axes - 1

    def sums(self, x: Tensor, y: Tensor, mask: Tensor | None, shape: torch.Size) -> Sums:
        x, y = at_least_single(self.rows(x)), at_least_single(self.output_rows(y))
        mask = None if mask is None else self.output_rows(mask).to(y)
        shift_x, shift_y = x.mean(0), y.mean(0)
        x, y = x - shift_x, y - shift_y
        masked = y if mask is None else y * mask
        samples = len(x)
        y_all = y.sum(0, dtype=torch.float64)
        y_active = masked.sum(0, dtype=torch.float64)
        active = torch.full_like(y_all, samples) if mask is None else mask.sum(0, dtype=torch.float64)
        xy = (masked.mT @ x).double()
        x_active = x.sum(0, dtype=torch.float64).expand_as(xy) if mask is None else (mask.mT @ x).double()
        c, d = shift_x.double(), shift_y.double()
        x_active = x_active + active[:, None] * c
        xy = xy + y_active[:, None] * c + d[:, None] * x_active
        return Sums(samples, y_all + samples * d, active, y_active + active * d, x_active, xy)

    def rows(self, values: Tensor) -> Tensor:
        """Inputs as [samples, features]."""
        values = values.mT if self.side == "left" else values
        return values.reshape(-1, values.shape[-1])

    def output_rows(self, values: Tensor) -> Tensor:
        """Outputs as [samples, units]."""
        return values.reshape(-1, 1) if self.side == "vector" else self.rows(values)
