"""Kept activations: whole maps with a margin around them, read and written in windows."""

from functools import lru_cache

import numpy
import torch
from torch import Tensor

from pgig.incremental.reach import Places
from pgig.incremental.windows import Pair, Windows


class Cache:
    """One map for each row, [rows, height, width, channels], with a margin of one value that is never written."""

    def __init__(self, channels: int, size: Pair, dtype: torch.dtype, value: float) -> None:
        self.channels, self.size, self.value = channels, size, value
        self._dtype = dtype
        self._before, self._behind = [0, 0], [0, 0]
        self._data: Tensor | None = None
        self._full: Pair = size

    def widen(self, margins: tuple[Pair, Pair]) -> None:
        """Have at least these margins, (before, behind) along each axis."""
        for axis, (before, behind) in enumerate(margins):
            self._before[axis] = max(self._before[axis], before)
            self._behind[axis] = max(self._behind[axis], behind)
        self._full = (
            self.size[0] + self._before[0] + self._behind[0],
            self.size[1] + self._before[1] + self._behind[1],
        )

    @property
    def bytes_per_row(self) -> int:
        return self._full[0] * self._full[1] * self.channels * self._dtype.itemsize

    def allocate(self, rows: int, device: torch.device) -> None:
        shape = rows, *self._full, self.channels
        self._data = torch.full(shape, self.value, dtype=self._dtype, device=device)

    def free(self) -> None:
        self._data = None

    def repeat(self, row: int, rows: slice) -> None:
        """Let rows be as another is."""
        assert self._data is not None
        self._data[rows] = self._data[row]

    def read(self, rows: Places, windows: Windows, scratch: "Scratch") -> Tensor:  # [e, channels, height, width]
        assert self._data is not None
        flat = self._data.view(-1, self.channels)
        places = self._places(rows, windows).to(flat.device)
        found = scratch.like(flat, len(places))
        torch.index_select(flat, 0, places, out=found)
        return found.view(len(rows), *windows.size, self.channels).permute(0, 3, 1, 2)

    def write(self, rows: Places, windows: Windows, values: Tensor) -> None:
        assert self._data is not None
        flat = self._data.view(-1, self.channels)
        flat.index_copy_(
            0, self._places(rows, windows).to(flat.device), values.permute(0, 2, 3, 1).reshape(-1, self.channels)
        )

    def whole(self, rows: slice) -> Tensor:  # [rows, channels, height, width], channels last
        """The maps without their margins; what is seen changes with the next write."""
        assert self._data is not None
        top, left = self._before
        inner = self._data[rows, top : top + self.size[0], left : left + self.size[1]]
        return inner.permute(0, 3, 1, 2)

    def _places(self, rows: Places, windows: Windows) -> Tensor:
        """Of every window, place by place, the number of each in memory."""
        height, width = self._full
        down, across = windows.starts[0] + self._before[0], windows.starts[1] + self._before[1]
        corner = torch.from_numpy((rows * height + down) * width + across)
        return (corner[:, None] + _inner(*windows.size, width)).view(-1)


@lru_cache(maxsize=4096)
def _inner(height: int, width: int, step: int) -> Tensor:
    return torch.from_numpy((numpy.arange(height)[:, None] * step + numpy.arange(width)).reshape(-1))


class Scratch:
    """Memory for what was just read, used again and again."""

    def __init__(self) -> None:
        self._data: dict[torch.dtype, Tensor] = {}

    def like(self, flat: Tensor, places: int) -> Tensor:  # [places, channels]
        wanted = places * flat.shape[1]
        found = self._data.get(flat.dtype)
        if found is None or len(found) < wanted or found.device != flat.device:
            found = self._data[flat.dtype] = torch.empty(wanted, dtype=flat.dtype, device=flat.device)
        return found[:wanted].view(places, flat.shape[1])
