"""Methods that look at noisy copies of the inputs."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pgig.captum.base import Attribution, Forward
from pgig.errors import PgigError
from pgig.methods.summaries import State, mean, mean_of_squares, variance
from pgig.subject.inputs import Tensors
from pgig.subject.scores import Target

_SUMMARIES = {"smoothgrad": mean, "smoothgrad_sq": mean_of_squares, "vargrad": variance}


class NoiseTunnel:
    """Another attribution of noisy copies of the inputs: their mean, mean square, or variance.

    Unlike Captum's, the noise is drawn from `seed`, and the global random state is left alone.
    """

    def __init__(self, attribution_method: Any, seed: int = 0) -> None:
        self.attribution_method = attribution_method
        self._seed = seed

    @property
    def multiplies_by_inputs(self) -> bool:
        return bool(self.attribution_method.multiplies_by_inputs)

    def has_convergence_delta(self) -> bool:
        return False

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
        if nt_type not in _SUMMARIES:
            raise PgigError(f"unknown nt_type {nt_type!r}; choose one of: {', '.join(_SUMMARIES)}")
        members = inputs if isinstance(inputs, tuple) else (inputs,)
        spread = stdevs if isinstance(stdevs, tuple) else (stdevs,) * len(members)
        if len(spread) != len(members):
            raise PgigError(f"{len(spread)} stdevs for {len(members)} inputs: give one each, or a single number")
        if nt_samples < 1:
            raise PgigError(f"nt_samples must be at least 1, got {nt_samples}")
        if kwargs.pop("return_convergence_delta", False):
            raise PgigError("noisy copies have no single convergence delta: see pgig.completeness")
        generator = torch.Generator().manual_seed(self._seed)
        summary = _SUMMARIES[nt_type]
        states: list[State | None] = [None] * len(members)
        left = nt_samples
        while left > 0:
            copies = min(left, nt_samples_batch_size or nt_samples)
            left -= copies
            noisy = tuple(_noisy(x, s, copies, generator) for x, s in zip(members, spread, strict=True))
            repeated = {name: _repeated(value, copies, len(members[0])) for name, value in kwargs.items()}
            terms = self.attribution_method.attribute(noisy if isinstance(inputs, tuple) else noisy[0], **repeated)
            by_member = terms if isinstance(terms, tuple) else (terms,)
            for i, terms_of_member in enumerate(by_member):
                grouped = terms_of_member.reshape(-1, copies, *terms_of_member.shape[1:]).transpose(0, 1)
                states[i] = summary.update(states[i], grouped, grouped.new_full((copies,), 1 / nt_samples))
        results = tuple(summary.result(state) for state in states if state is not None)
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
        baselines: Tensors | Callable[[], Tensors],
        n_samples: int = 5,
        stdevs: float | tuple[float, ...] = 0.0,
        target: Target = None,
        additional_forward_args: Any = None,
        return_convergence_delta: bool = False,
    ) -> Tensors:
        """`baselines`: the references to draw from, or a callable that gives them."""
        if return_convergence_delta:
            raise PgigError("each sample has a baseline of its own, so there is no single convergence delta")
        if callable(baselines):
            baselines = baselines()
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


class ExpectedGradients(Attribution):
    """Expected gradients with the paper's 49 references and no noise."""

    name = "expected_gradients"

    def __init__(self, forward_func: Forward, seed: int = 0) -> None:
        super().__init__(forward_func)
        self._seed = seed

    def attribute(
        self,
        inputs: Tensors,
        baselines: Tensors,
        target: Target = None,
        additional_forward_args: Any = None,
        n_samples: int = 49,
        internal_batch_size: int | None = None,
    ) -> Tensors:
        return self._attribute(
            inputs, target, additional_forward_args, references=baselines, samples=n_samples, seed=self._seed,
            batch_size=internal_batch_size,
        )  # fmt: skip


def _noisy(x: Tensor, stdev: float, copies: int, generator: torch.Generator) -> Tensor:
    repeated = x.repeat_interleave(copies, 0)
    return repeated + stdev * torch.randn(repeated.shape, generator=generator).to(x)


def _repeated(value: Any, copies: int, count: int) -> Any:
    """Arguments with one row per input, repeated for each noisy copy; others as they are."""
    if isinstance(value, Tensor) and value.dim() > 0 and len(value) == count:
        return value.repeat_interleave(copies, 0)
    if isinstance(value, list) and len(value) == count:
        return [item for item in value for _ in range(copies)]
    return tuple(_repeated(item, copies, count) for item in value) if isinstance(value, tuple) else value
