"""Methods that integrate along a path."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from pgig.captum.arguments import Forward, baseline_of, drawn_seed, scaled
from pgig.captum.base import Attribution, WithPatterns
from pgig.errors import PgigError
from pgig.methods.quadrature import Quadrature
from pgig.subject.inputs import Baseline, Tensors
from pgig.subject.scores import Target

_QUADRATURES: dict[str, Quadrature] = {
    "gausslegendre": "gauss-legendre",
    "riemann_right": "right",
    "riemann_left": "left",
    "riemann_middle": "midpoint",
    "riemann_trapezoid": "trapezoid",
}


def quadrature_of(method: str) -> Quadrature:
    if method not in _QUADRATURES:
        raise PgigError(f"unknown method {method!r}; choose one of: {', '.join(_QUADRATURES)}")
    return _QUADRATURES[method]


class IntegratedGradients(Attribution):
    """Integrated gradients: along a line from the baseline, by default 50 Gauss-Legendre steps as Captum's.

    forward_func: the model, or any callable.
    multiply_by_inputs: False leaves out the factor x - x0.
    `attribute` takes what Captum's takes; what does not fit raises a PgigError that is an AssertionError too.

    >>> from pgig.captum import IntegratedGradients
    >>> x, product = torch.tensor([[2.0, 5.0]]), lambda x: x[:, 0] * x[:, 1]
    >>> IntegratedGradients(product).attribute(x)  # of the ten, half each
    tensor([[5.0000, 5.0000]])
    """

    name = "integrated_gradients"

    def __init__(self, forward_func: Forward, multiply_by_inputs: bool = True) -> None:
        super().__init__(forward_func)
        self._multiply_by_inputs = multiply_by_inputs

    @property
    def multiplies_by_inputs(self) -> bool:
        return self._multiply_by_inputs

    def has_convergence_delta(self) -> bool:
        return True

    def attribute(
        self,
        inputs: Tensors,
        baselines: Baseline | None = None,
        target: Target = None,
        additional_forward_args: Any = None,
        n_steps: int = 50,
        method: str = "gausslegendre",
        internal_batch_size: int | None = None,
        return_convergence_delta: bool = False,
    ) -> Any:
        """The attribution; with `return_convergence_delta`, a pair of it and `compute_convergence_delta`."""
        inputs, baseline = scaled(inputs), baseline_of(baselines)
        attributions = self._attribute(
            inputs, target, additional_forward_args, baseline=baseline, steps=n_steps,
            quadrature=quadrature_of(method), batch_size=internal_batch_size,
            multiply_by_input=self._multiply_by_inputs,
        )  # fmt: skip
        if not return_convergence_delta:
            return attributions
        delta = self.compute_convergence_delta(attributions, baseline, inputs, target, additional_forward_args)
        return attributions, delta


class PGIG(WithPatterns, IntegratedGradients):
    """Integrated gradients under the pattern rule. `start="score"` is the paper's choice for images.

    forward_func: the model, or any callable.
    patterns: layer name -> tensor like the layer's weight, as `pgig.estimate_patterns` gives.
    multiply_by_inputs: False leaves out the factor x - x0.
    start: what backpropagation begins with, "one" or "score".
    `attribute` takes what Captum's takes; what does not fit raises a PgigError that is an AssertionError too.

    >>> from pgig.captum import PGIG, IntegratedGradients
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3)).eval()
    >>> patterns = pgig.estimate_patterns(model, [torch.randn(500, 2)])
    >>> PGIG(model, patterns).attribute(torch.ones(5, 2), target=2).shape
    torch.Size([5, 2])
    >>> plain = {name: torch.ones_like(pattern) for name, pattern in patterns.items()}  # then w * p is w
    >>> x = torch.ones(5, 2)
    >>> torch.allclose(PGIG(model, plain).attribute(x, target=2), IntegratedGradients(model).attribute(x, target=2))
    True
    """

    name = "pgig"

    def __init__(
        self,
        forward_func: Forward,
        patterns: Mapping[str, Tensor],
        multiply_by_inputs: bool = True,
        start: str = "one",
    ) -> None:
        super().__init__(forward_func, patterns, start)
        self._multiply_by_inputs = multiply_by_inputs


class IntegratedPatternAttribution(PGIG):
    """PGIG without the factor x - x0.

    forward_func: the model, or any callable.
    patterns: layer name -> tensor like the layer's weight, as `pgig.estimate_patterns` gives.
    start: what backpropagation begins with, "one" or "score".
    `attribute` takes what Captum's takes; what does not fit raises a PgigError that is an AssertionError too.

    >>> from pgig.captum import PGIG, IntegratedPatternAttribution
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3)).eval()
    >>> patterns = pgig.estimate_patterns(model, [torch.randn(500, 2)])
    >>> x = torch.randn(5, 2)
    >>> without = IntegratedPatternAttribution(model, patterns).attribute(x, target=2)
    >>> torch.allclose(x * without, PGIG(model, patterns).attribute(x, target=2))
    True
    """

    name = "integrated_pattern_attribution"

    def __init__(self, forward_func: Forward, patterns: Mapping[str, Tensor], start: str = "one") -> None:
        super().__init__(forward_func, patterns, multiply_by_inputs=False, start=start)


class SmoothGradIG(IntegratedGradients):
    """Integrated gradients to noisy copies of the input; the noise is set where the class is made, or the paper's.

    forward_func: the model, or any callable.
    multiply_by_inputs: False leaves out the factor x - x0.
    nt_samples, stdevs: how many noisy copies, and how noisy.
    seed: None takes one from torch's global generator at each call.
    `attribute` takes what Captum's takes; what does not fit raises a PgigError that is an AssertionError too.

    >>> from pgig.captum import SmoothGradIG
    >>> x, product = torch.tensor([[2.0, 5.0]]), lambda x: x[:, 0] * x[:, 1]
    >>> SmoothGradIG(product, nt_samples=4, stdevs=0.1, seed=0).attribute(x).shape
    torch.Size([1, 2])
    """

    name = "smoothgrad_ig"

    def __init__(
        self,
        forward_func: Forward,
        multiply_by_inputs: bool = True,
        nt_samples: int = 25,
        stdevs: float | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(forward_func, multiply_by_inputs)
        self._noise = {"samples": nt_samples, "variance": None if stdevs is None else stdevs**2}
        self._seed = seed

    def _attribute(self, inputs: Tensors, target: Target, additional_forward_args: Any, **options: Any) -> Tensors:
        options |= {**self._noise, "seed": drawn_seed(self._seed)}
        return super()._attribute(inputs, target, additional_forward_args, **options)
