"""Convolutions: their input gradients, and their sums over windows by weight gradients."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pgig.network.geometry import Sums, at_least_single

_PLACES = 8192  # of an output that are summed up in float32, before float64 takes over


@dataclass(frozen=True)
class Convolution:
    """A convolution, or a transposed one, over any number of axes."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    transposed: bool
    output_padding: tuple[int, ...]

    def output(self, x: Tensor, weight: Tensor) -> Tensor:
        return torch.as_tensor(torch.ops.aten.convolution(x, weight, None, *self._settings))

    def input_gradient(self, arriving: Tensor, shape: torch.Size, weight: Tensor) -> Tensor:
        like_x = _shaped_like_x(arriving, shape)
        result, _, _ = torch.ops.aten.convolution_backward(
            arriving, like_x, weight, None, *self._settings, [True, False, False]
        )
        return torch.as_tensor(result)

    def canonical(self, weight: Tensor) -> Tensor:
        if self.transposed:  # [in, out / groups, *kernel]
            weight = torch.unflatten(weight, 0, (self.groups, -1)).transpose(1, 2).flatten(0, 1)
        return weight.flatten(1)

    def from_canonical(self, rows: Tensor, shape: torch.Size) -> Tensor:
        if not self.transposed:
            return rows.reshape(shape)
        by_group = rows.reshape(self.groups, shape[1], shape[0] // self.groups, *shape[2:])
        return by_group.transpose(1, 2).reshape(shape)

    def per_unit(self, values: Tensor, output: Tensor) -> Tensor:
        return values.reshape(-1, *[1] * (output.dim() - 2))

    def unit_axis(self, axes: int) -> int | None:
        return 1 if axes == 2 + len(self.stride) else None

    def sums(self, x: Tensor, y: Tensor, mask: Tensor | None, shape: torch.Size) -> Sums:
        """A few images at a time, since the sums within a call are float32."""
        x, y = at_least_single(x), at_least_single(y)
        few = max(1, _PLACES // max(1, y[0, 0].numel()))
        total: Sums | None = None
        for first in range(0, len(x), few):
            some = slice(first, first + few)
            part = self._sums(x[some], y[some], None if mask is None else mask[some], shape)
            total = part if total is None else total.grown(part)
        assert total is not None
        return total

    def _sums(self, x: Tensor, y: Tensor, mask: Tensor | None, shape: torch.Size) -> Sums:
        """By the weight's gradient: that of `g` as the output's gradient is the sum of g times the windows of x.

        float32 would cancel where means are large, so x and y are shifted by about their means, which is undone in
        float64: a window's shift counts where the window lies inside x, which `_inside` sums up.
        """
        shift_x, shift_y = _about_mean(x), _about_mean(y)
        x = x - self.per_unit(shift_x, x)
        arriving, y_all = self._stacked(y, shift_y, mask)
        windows = torch.unflatten(self._correlate(x, arriving, shape), 0, (self.groups, -1))
        inside, totals = self._inside(arriving, x.shape[2:], shape[2:])
        inside, totals = torch.unflatten(inside, 0, (self.groups, -1)), torch.unflatten(totals, 0, (self.groups, -1))
        # [groups, g, fan_in]: the shift of x comes back
        by_channel = shift_x.double().reshape(self.groups, 1, -1, 1) * inside.flatten(2)[:, :, None, :]
        windows = windows + by_channel.flatten(2)
        units = y.shape[1] // self.groups
        ym, m = (part.flatten(0, 1) for part in (windows[:, :units], windows[:, units:].expand_as(windows[:, :units])))
        y_active, active = (
            part.flatten() for part in (totals[:, :units], totals[:, units:].expand_as(totals[:, :units]))
        )
        m, active = m.contiguous(), active.contiguous()  # where there is no mask they are the same for all units
        d, samples = shift_y.double(), y.numel() // y.shape[1]
        return Sums(samples, y_all + samples * d, active, y_active + active * d, m, ym + d[:, None] * m)

    def windows(self, x: Tensor, shape: torch.Size, units: Tensor, most: int, generator: torch.Generator) -> Tensor:
        """At most `most` random windows of x, as each of `units` sees them: [n, units, fan_in].

        By a convolution whose kernels are one at one place each: it gives the window's value at that place.
        """
        kernel, channels = shape[2:], x.shape[1] // self.groups
        fan_in = channels * int(torch.Size(kernel).numel())
        each = torch.eye(fan_in, dtype=x.dtype).reshape(fan_in, channels, *kernel)
        per_group = (shape[1] * self.groups if self.transposed else shape[0]) // self.groups
        found: dict[int, Tensor] = {}
        some = torch.randperm(len(x), generator=generator)[: max(1, -(-most // 50))]
        for group in sorted({int(unit) // per_group for unit in units}):
            part = x[some, group * channels : (group + 1) * channels]
            weight = each.transpose(0, 1) if self.transposed else each
            settings = self.stride, self.padding, self.dilation, self.transposed, self.output_padding, 1
            seen = torch.ops.aten.convolution(part, weight.contiguous(), None, *settings)
            found[group] = torch.as_tensor(seen).flatten(2).transpose(1, 2)  # [images, places, fan_in]
        places = next(iter(found.values())).shape[1]
        pick = torch.randperm(len(some) * places, generator=generator)[:most]
        return torch.stack([found[int(unit) // per_group].flatten(0, 1)[pick] for unit in units], 1)

    def _stacked(self, y: Tensor, shift: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Per group, the shifted y under the mask and then the mask (the same ones for all units where there is none);
        and the sums of the shifted y over all samples.
        """
        by_group = torch.unflatten(y, 1, (self.groups, -1))
        units = by_group.shape[2]
        masks = units if mask is not None else 1
        stacked = _empty(y, (len(y), self.groups * (units + masks), *y.shape[2:]))
        parts = torch.unflatten(stacked, 1, (self.groups, -1))
        shifted, ones = parts[:, :, :units], parts[:, :, units:]
        torch.sub(by_group, shift.reshape(self.groups, units, *[1] * (y.dim() - 2)), out=shifted)
        totals = shifted.flatten(3).sum(3).sum(0, dtype=torch.float64).flatten()
        if mask is None:
            ones.fill_(1)
        else:
            shifted.mul_(ones.copy_(torch.unflatten(mask, 1, (self.groups, -1))))
        return stacked, totals

    def _correlate(self, x: Tensor, arriving: Tensor, shape: torch.Size) -> Tensor:  # [channels of arriving, fan_in]
        channels = arriving.shape[1]
        outer = x.shape[1] if self.transposed else channels
        inner = (channels if self.transposed else x.shape[1]) // self.groups
        dummy = _empty(x, (outer, inner, *shape[2:]))
        settings = self._settings
        if set(shape[2:]) == {1} and max(self.stride) > 1 and not any(self.padding) and not any(self.output_padding):
            # only every stride-th place is seen; oneDNN, which torch leaves this to, writes beyond its memory there
            steps = [slice(None, None, stride) for stride in self.stride]
            if self.transposed:
                arriving = arriving[:, :, *steps]
            else:
                x = x[:, :, *steps]
            settings = (1,) * len(self.stride), *settings[1:]
        _, result, _ = torch.ops.aten.convolution_backward(arriving, x, dummy, None, *settings, [False, True, False])
        return self.canonical(torch.as_tensor(result).double())

    def _inside(self, arriving: Tensor, size: torch.Size, kernel: torch.Size) -> tuple[Tensor, Tensor]:
        """Sums of `arriving` where each place of the kernel lies inside x, [channels, *kernel], and in all."""
        rest = arriving.movedim(1, -1)  # [n, *output, channels]: the axes are taken one by one, the last first
        for axis in reversed(range(len(size))):
            places = self._places_inside(axis, size[axis], kernel[axis], arriving.shape[2 + axis])
            rows = torch.cat([places, places.new_ones(1, places.shape[1])]).to(rest)
            moved = rest.movedim(axis + 1, -2)
            rest = (rows @ moved).movedim(-2, axis + 1)
            rest = rest.double() if axis == len(size) - 1 else rest
        summed = rest.sum(0).movedim(-1, 0)  # [channels, *(kernel + 1)]
        inside = summed
        for axis in range(len(size)):
            inside, summed = inside.narrow(axis + 1, 0, kernel[axis]), summed.select(1, -1)
        return inside, summed

    def _places_inside(self, axis: int, size: int, kernel: int, output: int) -> Tensor:  # [kernel, output], 0 or 1
        k = torch.arange(kernel)[:, None] * self.dilation[axis]
        o = torch.arange(output)[None, :]
        if not self.transposed:
            at = o * self.stride[axis] - self.padding[axis] + k
            return ((at >= 0) & (at < size)).float()
        steps = o + self.padding[axis] - k
        source = steps.div(self.stride[axis], rounding_mode="floor")
        return ((steps % self.stride[axis] == 0) & (source >= 0) & (source < size)).float()

    @property
    def _settings(self) -> tuple[object, ...]:
        return self.stride, self.padding, self.dilation, self.transposed, self.output_padding, self.groups


def _about_mean(values: Tensor) -> Tensor:
    """The channels' means over every fourth place, where there are many: any shift will do, a near one is best."""
    steps = [slice(None, None, 4 if size >= 32 else 1) for size in values.shape[2:]]
    return values[:, :, *steps].mean((0, *range(2, values.dim())))


def _empty(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    memory_format = torch.channels_last if like.dim() == 4 else torch.contiguous_format
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=memory_format)


def _shaped_like_x(arriving: Tensor, shape: torch.Size) -> Tensor:
    """The gradient of x needs no x but its shape."""
    if arriving.device.type != "cpu":
        return arriving.new_empty(1).expand(shape)  # no memory
    # an expanded scalar would be made contiguous; memory that nobody touches costs a CPU nothing
    channels_last = arriving.dim() == 4 and arriving.is_contiguous(memory_format=torch.channels_last)
    memory_format = torch.channels_last if channels_last else torch.contiguous_format
    return torch.empty(shape, dtype=arriving.dtype, memory_format=memory_format)
