"""Expected gradients: by Captum's name and options, and by the paper's."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from pgig.captum.arguments import Forward, drawn_seed, like_given, members_of, scaled
from pgig.captum.base import Attribution
from pgig.captum.noise import NoiseTunnel
from pgig.errors import PgigError
from pgig.subject.inputs import Tensors, as_baseline
from pgig.subject.scores import Target

Distribution = Tensors | Callable[..., Tensors]


class GradientShap(Attribution):
    """Expected gradients: a random place on the line from a random baseline, for noisy copies of the inputs.

    seed: None takes one from torch's global generator at each call.
    forward_func: the model, or any callable.
    multiply_by_inputs: False leaves out the factor x - x0.
    `attribute` takes what Captum's takes; what does not fit raises a PgigError that is an AssertionError too.

    >>> from pgig.captum import GradientShap
    >>> x, linear = torch.tensor([[2.0, 5.0]]), lambda x: x[:, 0] - 3 * x[:, 1]
    >>> GradientShap(linear, seed=0).attribute(x, baselines=torch.zeros(10, 2))
    tensor([[  2., -15.]])
    """

    name = "expected_gradients"

    def __init__(self, forward_func: Forward, multiply_by_inputs: bool = True, seed: int | None = None) -> None:
        super().__init__(forward_func)
        self._multiply_by_inputs = multiply_by_inputs
        self._seed = seed

    @property
    def multiplies_by_inputs(self) -> bool:
        return self._multiply_by_inputs

    def has_convergence_delta(self) -> bool:
        return True

    def attribute(
        self,
        inputs: Tensors,
        baselines: Distribution,
        n_samples: int = 5,
        stdevs: float | tuple[float, ...] = 0.0,
        target: Target = None,
        additional_forward_args: Any = None,
        return_convergence_delta: bool = False,
    ) -> Any:
        """baselines: rows to draw from, or a function of nothing or of the inputs that gives them.

        return_convergence_delta: of every draw, [inputs * n_samples]; each has a baseline of its own.
        """
        seed = drawn_seed(self._seed)
        one_place = _InputBaselineXGradient(self.forward_func, self._multiply_by_inputs, seed)
        return NoiseTunnel(one_place, seed).attribute(
            inputs, nt_samples=n_samples, stdevs=stdevs, draw_baseline_from_distrib=True,
            baselines=_distribution(baselines, inputs), target=target,
            additional_forward_args=additional_forward_args, return_convergence_delta=return_convergence_delta,
        )  # fmt: skip


class _InputBaselineXGradient(Attribution):
    """(x - x0) times the gradient at a random place between them."""

    name = "gradient"

    def __init__(self, forward_func: Forward, multiply_by_inputs: bool, seed: int) -> None:
        super().__init__(forward_func)
        self._multiply_by_inputs = multiply_by_inputs
        self._generator = torch.Generator().manual_seed(seed + 1)  # other numbers than the noise's

    def has_convergence_delta(self) -> bool:
        return True

    def attribute(
        self,
        inputs: Tensors,
        baselines: Tensors,
        target: Target = None,
        additional_forward_args: Any = None,
        return_convergence_delta: bool = False,
    ) -> Any:
        """Shaped like the inputs; arguments as Captum's."""
        members = members_of(scaled(inputs))
        starts = tuple(as_baseline(b, x) for b, x in zip(members_of(baselines), members, strict=True))
        alpha = torch.rand(len(members[0]), generator=self._generator, dtype=torch.float64)
        at = tuple(_between(x0, x, alpha) for x0, x in zip(starts, members, strict=True))
        found = members_of(self._attribute(like_given(at, inputs), target, additional_forward_args))
        if self._multiply_by_inputs:
            found = tuple(g * (x - x0) for g, x, x0 in zip(found, members, starts, strict=True))
        attributions = like_given(found, inputs)
        if not return_convergence_delta:
            return attributions
        ends = like_given(members, inputs)
        return attributions, self.compute_convergence_delta(
            attributions, like_given(starts, inputs), ends, target, additional_forward_args
        )


class ExpectedGradients(Attribution):
    """Expected gradients with the paper's 49 references and no noise.

    forward_func: the model, or any callable.
    seed: None takes one from torch's global generator at each call.
    `attribute` takes what Captum's takes; what does not fit raises a PgigError that is an AssertionError too.

    >>> from pgig.captum import ExpectedGradients
    >>> x, linear = torch.tensor([[2.0, 5.0]]), lambda x: x[:, 0] - 3 * x[:, 1]
    >>> ExpectedGradients(linear, seed=0).attribute(x, baselines=torch.ones(10, 2)).round(decimals=3)
    tensor([[  1., -12.]])
    """

    name = "expected_gradients"

    def __init__(self, forward_func: Forward, seed: int | None = None) -> None:
        super().__init__(forward_func)
        self._seed = seed

    def attribute(
        self,
        inputs: Tensors,
        baselines: Distribution,
        target: Target = None,
        additional_forward_args: Any = None,
        n_samples: int = 49,
        internal_batch_size: int | None = None,
    ) -> Tensors:
        """Shaped like the inputs; arguments as Captum's."""
        return self._attribute(
            scaled(inputs), target, additional_forward_args, references=_distribution(baselines, inputs),
            samples=n_samples, seed=drawn_seed(self._seed), batch_size=internal_batch_size,
        )  # fmt: skip


def _between(x0: Tensor, x: Tensor, alpha: Tensor) -> Tensor:
    return torch.lerp(x0, x, alpha.to(x).reshape(-1, *[1] * (x.dim() - 1)))


def _distribution(baselines: Distribution, inputs: Tensors) -> Tensors:
    found: Any = baselines
    if callable(baselines) and not isinstance(baselines, Tensor):
        found = baselines(inputs) if signature(baselines).parameters else baselines()
    if not all(isinstance(part, Tensor) and part.dim() > 0 for part in members_of(found)):
        raise PgigError("baselines must be tensors with a row for each to draw from, or a function that gives them")
    for part, x in zip(members_of(found), members_of(inputs), strict=False):
        if isinstance(x, Tensor) and (part.shape[1:] != x.shape[1:] or len(part) == 0):
            raise PgigError(
                f"baselines of shape {tuple(part.shape)} do not fit inputs {tuple(x.shape)}: rows to draw from"
            )
    if len(members_of(found)) != len(members_of(inputs)):
        raise PgigError(f"{len(members_of(found))} baselines for {len(members_of(inputs))} inputs: give one each")
    distribution: Tensors = found
    return distribution
