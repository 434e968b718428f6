"""Methods that look at noisy copies of the inputs."""

from typing import Any

import torch
from torch import Tensor

from pgig.captum.base import Attribution, Forward
from pgig.errors import PgigError
from pgig.inputs import Tensors
from pgig.scores import Target


class NoiseTunnel:
    """Another attribution of noisy copies of the inputs: their mean, mean square, or variance.

    Unlike Captum's, the noise is drawn from `seed`, and the global random state is left alone.
    """

    def __init__(self, attribution_method: Any, seed: int = 0) -> None:
        self.attribution_method = attribution_method
        self._seed = seed

    def attribute(
        self,
        inputs: Tensors,
        nt_type: str = "smoothgrad",
        nt_samples: int = 5,
        nt_samples_batch_size: int | None = None,
        stdevs: float | tuple[float, ...] = 1.0,
        **kwargs: Any,
    ) -> Tensors:
        """`kwargs` go to the attribution method; `nt_samples_batch_size` is how many noisy copies it sees at once."""
        if nt_type not in ("smoothgrad", "smoothgrad_sq", "vargrad"):
            raise PgigError(f"unknown nt_type {nt_type!r}; choose one of: smoothgrad, smoothgrad_sq, vargrad")
        members = inputs if isinstance(inputs, tuple) else (inputs,)
        spread = stdevs if isinstance(stdevs, tuple) else (stdevs,) * len(members)
        if len(spread) != len(members):
            raise PgigError(f"{len(spread)} stdevs for {len(members)} inputs: give one each, or a single number")
        generator = torch.Generator().manual_seed(self._seed)
        sums = [(torch.zeros_like(x), torch.zeros_like(x)) for x in members]
        left = nt_samples
        while left > 0:
            copies = min(left, nt_samples_batch_size or nt_samples)
            left -= copies
            noisy = tuple(_noisy(x, s, copies, generator) for x, s in zip(members, spread, strict=True))
            repeated = {name: _repeated(value, copies, len(members[0])) for name, value in kwargs.items()}
            terms = self.attribution_method.attribute(noisy if isinstance(inputs, tuple) else noisy[0], **repeated)
            by_member = terms if isinstance(terms, tuple) else (terms,)
            sums = [_add_copies(s, t, copies) for s, t in zip(sums, by_member, strict=True)]
        results = tuple(_summary(nt_type, first / nt_samples, second / nt_samples) for first, second in sums)
        return results if isinstance(inputs, tuple) else results[0]


class _Smoothed(Attribution):
    def __init__(self, forward_func: Forward, seed: int = 0) -> None:
        super().__init__(forward_func)
        self._seed = seed

    def attribute(
        self,
        inputs: Tensors,
        target: Target = None,
        additional_forward_args: Any = None,
        nt_samples: int = 25,
        stdevs: float | None = None,
        internal_batch_size: int | None = None,
    ) -> Tensors:
        """Without `stdevs`, the variance is the paper's."""
        variance = None if stdevs is None else stdevs**2
        return self._attribute(
            inputs, target, additional_forward_args, samples=nt_samples, variance=variance, seed=self._seed,
            batch_size=internal_batch_size,
        )  # fmt: skip


class SmoothGrad(_Smoothed):
    """The mean of noisy gradients, as `NoiseTunnel` around `Saliency` with abs=False."""

    name = "smoothgrad"


class SmoothGradSquared(_Smoothed):
    """The mean square of noisy gradients."""

    name = "smoothgrad_squared"


class VarGrad(_Smoothed):
    """The variance of noisy gradients."""

    name = "vargrad"


class SmoothTaylor(_Smoothed):
    """The mean of Taylor terms from noisy roots."""

    name = "smooth_taylor"


class GradientShap(Attribution):
    """Expected gradients: a random place on the line from a random baseline, for noisy copies of the inputs."""

    name = "expected_gradients"

    def __init__(self, forward_func: Forward, multiply_by_inputs: bool = True, seed: int = 0) -> None:
        super().__init__(forward_func)
        self._multiply_by_inputs = multiply_by_inputs
        self._seed = seed

    @property
    def multiplies_by_inputs(self) -> bool:
        return self._multiply_by_inputs

    def has_convergence_delta(self) -> bool:
        return False  # there is one baseline per sample, and no single change of the score

    def attribute(
        self,
        inputs: Tensors,
        baselines: Tensors,
        n_samples: int = 5,
        stdevs: float | tuple[float, ...] = 0.0,
        target: Target = None,
        additional_forward_args: Any = None,
    ) -> Tensors:
        if n_samples < 1:
            raise PgigError(f"n_samples must be at least 1, got {n_samples}")
        one_sample = _OneReference(self.forward_func, baselines, self._multiply_by_inputs, self._seed)
        return NoiseTunnel(one_sample, self._seed).attribute(
            inputs, nt_samples=n_samples, stdevs=stdevs, target=target, additional_forward_args=additional_forward_args
        )


class _OneReference(Attribution):
    name = "expected_gradients"

    def __init__(self, forward_func: Forward, references: Tensors, multiply_by_inputs: bool, seed: int) -> None:
        super().__init__(forward_func)
        self._options = {"references": references, "multiply_by_input": multiply_by_inputs, "seed": seed, "samples": 1}

    def attribute(self, inputs: Tensors, target: Target = None, additional_forward_args: Any = None) -> Tensors:
        return self._attribute(inputs, target, additional_forward_args, **self._options)


ExpectedGradients = GradientShap


def _noisy(x: Tensor, stdev: float, copies: int, generator: torch.Generator) -> Tensor:
    repeated = x.repeat_interleave(copies, 0)
    return repeated + stdev * torch.randn(repeated.shape, generator=generator).to(x)


def _add_copies(sums: tuple[Tensor, Tensor], terms: Tensor, copies: int) -> tuple[Tensor, Tensor]:
    grouped = terms.reshape(-1, copies, *terms.shape[1:])
    return sums[0] + grouped.sum(1), sums[1] + grouped.square().sum(1)


def _summary(nt_type: str, first: Tensor, second: Tensor) -> Tensor:
    return {"smoothgrad": first, "smoothgrad_sq": second, "vargrad": second - first.square()}[nt_type]


def _repeated(value: Any, copies: int, count: int) -> Any:
    """Arguments with one row per input, repeated for each noisy copy; others as they are."""
    if isinstance(value, Tensor) and value.dim() > 0 and len(value) == count and count > 1:
        return value.repeat_interleave(copies, 0)
    if isinstance(value, list) and len(value) == count:
        return [item for item in value for _ in range(copies)]
    return tuple(_repeated(item, copies, count) for item in value) if isinstance(value, tuple) else value
