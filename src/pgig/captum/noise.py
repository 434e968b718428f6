"""Methods that look at noisy copies of the inputs."""

from typing import Any

import torch
from torch import Tensor

from pgig.captum.arguments import Forward, checked_members, drawn_seed, like_given, members_of
from pgig.captum.base import Attribution
from pgig.captum.errors import CaptumError
from pgig.errors import PgigError
from pgig.methods.summaries import State, Summary, mean, mean_of_squares, variance
from pgig.subject.inputs import Tensors
from pgig.subject.scores import Target

_SUMMARIES = {"smoothgrad": mean, "smoothgrad_sq": mean_of_squares, "vargrad": variance}


class NoiseTunnel(Attribution):
    """Another attribution of noisy copies of the inputs: their mean, mean square, or variance.

    seed: None takes one from torch's global generator at each call.
    attribution_method: an instance of any class here.
    `attribute` takes what Captum's takes; what does not fit raises a PgigError that is an AssertionError too.

    >>> from pgig.captum import NoiseTunnel, Saliency
    >>> x, product = torch.tensor([[2.0, 5.0]]), lambda x: x[:, 0] * x[:, 1]
    >>> tunnel = NoiseTunnel(Saliency(product), seed=0)
    >>> tunnel.attribute(x, nt_type="smoothgrad", nt_samples=500, stdevs=0.1).round(decimals=1)
    tensor([[5., 2.]])
    """

    def __init__(self, attribution_method: Any, seed: int | None = None) -> None:
        if isinstance(attribution_method, type) or not hasattr(attribution_method, "forward_func"):
            raise CaptumError("a noise tunnel holds an attribution, such as NoiseTunnel(Saliency(model))")
        super().__init__(attribution_method.forward_func)
        self.attribution_method = attribution_method
        self._seed = seed

    @property
    def multiplies_by_inputs(self) -> bool:
        return bool(self.attribution_method.multiplies_by_inputs)

    def has_convergence_delta(self) -> bool:
        return bool(self.attribution_method.has_convergence_delta())

    def attribute(
        self,
        inputs: Tensors,
        nt_type: str = "smoothgrad",
        nt_samples: int = 5,
        nt_samples_batch_size: int | None = None,
        stdevs: float | tuple[float, ...] = 1.0,
        draw_baseline_from_distrib: bool = False,
        **kwargs: Any,
    ) -> Any:
        """`kwargs` go to the attribution method; `nt_samples_batch_size` is how many noisy copies it sees at once.

        draw_baseline_from_distrib: each noisy copy has a baseline of its own, a row of `baselines` drawn for it.
        return_convergence_delta: the deltas of all copies too, [inputs * nt_samples], as they were computed: all
            copies of the first input, then of the next; where batches are smaller, batch by batch.
        """
        members = checked_members(inputs)
        spread = _checked(nt_type, nt_samples, nt_samples_batch_size, stdevs, len(members))
        wants_delta = kwargs.get("return_convergence_delta", False)
        if wants_delta and not self.has_convergence_delta():
            raise PgigError(f"{type(self.attribution_method).__name__} has no convergence delta to return")
        generator = torch.Generator().manual_seed(drawn_seed(self._seed))
        total = _Total(_SUMMARIES[nt_type], nt_samples)
        deltas, left = [], nt_samples
        while left > 0:
            copies = min(left, nt_samples_batch_size or nt_samples)
            left -= copies
            noisy = tuple(_noisy(x, s, copies, generator) for x, s in zip(members, spread, strict=True))
            given = {name: _repeated(name, value, copies, len(members[0])) for name, value in kwargs.items()}
            if draw_baseline_from_distrib and given.get("baselines") is not None:
                given["baselines"] = _drawn(kwargs["baselines"], len(noisy[0]), generator)
            terms = self.attribution_method.attribute(like_given(noisy, inputs), **given)
            if wants_delta:
                terms, delta = terms
                deltas.append(delta)
            total.add(terms, copies)
        return (total.result(), torch.cat(deltas)) if wants_delta else total.result()


class _Total:
    """The summary of all copies, some at a time."""

    def __init__(self, summary: Summary, samples: int) -> None:
        self._summary, self._samples = summary, samples
        self._states: list[State | None] = []
        self._is_tuple = False

    def add(self, terms: Tensors, copies: int) -> None:
        self._is_tuple = isinstance(terms, tuple)
        parts = members_of(terms)
        self._states = self._states or [None] * len(parts)
        for i, part in enumerate(parts):
            grouped = part.detach().reshape(-1, copies, *part.shape[1:]).transpose(0, 1)
            weights = grouped.new_full((copies,), 1 / self._samples)
            self._states[i] = self._summary.update(self._states[i], grouped, weights)

    def result(self) -> Tensors:
        results = tuple(self._summary.result(state) for state in self._states if state is not None)
        return results if self._is_tuple else results[0]


class _Smoothed(Attribution):
    def __init__(self, forward_func: Forward, seed: int | None = None) -> None:
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
        return self._attribute(
            inputs, target, additional_forward_args, samples=nt_samples,
            variance=None if stdevs is None else stdevs**2, seed=drawn_seed(self._seed),
            batch_size=internal_batch_size,
        )  # fmt: skip


class SmoothGrad(_Smoothed):
    """The mean of noisy gradients, as `NoiseTunnel` around `Saliency` with abs=False.

    forward_func: the model, or any callable.
    seed: None takes one from torch's global generator at each call.
    `attribute` takes what Captum's takes; what does not fit raises a PgigError that is an AssertionError too.

    >>> from pgig.captum import SmoothGrad
    >>> x, linear = torch.tensor([[2.0, 5.0]]), lambda x: x[:, 0] - 3 * x[:, 1]
    >>> SmoothGrad(linear, seed=0).attribute(x)
    tensor([[ 1.0000, -3.0000]])
    """

    name = "smoothgrad"


class SmoothGradSquared(_Smoothed):
    """The mean square of noisy gradients.

    forward_func: the model, or any callable.
    seed: None takes one from torch's global generator at each call.
    `attribute` takes what Captum's takes; what does not fit raises a PgigError that is an AssertionError too.

    >>> from pgig.captum import SmoothGradSquared
    >>> x, linear = torch.tensor([[2.0, 5.0]]), lambda x: x[:, 0] - 3 * x[:, 1]
    >>> SmoothGradSquared(linear, seed=0).attribute(x)
    tensor([[1.0000, 9.0000]])
    """

    name = "smoothgrad_squared"


class VarGrad(_Smoothed):
    """The variance of noisy gradients.

    forward_func: the model, or any callable.
    seed: None takes one from torch's global generator at each call.
    `attribute` takes what Captum's takes; what does not fit raises a PgigError that is an AssertionError too.

    >>> from pgig.captum import VarGrad
    >>> x, linear = torch.tensor([[2.0, 5.0]]), lambda x: x[:, 0] - 3 * x[:, 1]
    >>> bool((VarGrad(linear, seed=0).attribute(x) < 1e-6).all())  # the gradient is the same everywhere
    True
    """

    name = "vargrad"


class SmoothTaylor(_Smoothed):
    """The mean of Taylor terms from noisy roots.

    forward_func: the model, or any callable.
    seed: None takes one from torch's global generator at each call.
    `attribute` takes what Captum's takes; what does not fit raises a PgigError that is an AssertionError too.

    >>> from pgig.captum import SmoothTaylor
    >>> x, linear = torch.tensor([[2.0, 5.0]]), lambda x: x[:, 0] - 3 * x[:, 1]
    >>> SmoothTaylor(linear, seed=0).attribute(x, nt_samples=10).shape
    torch.Size([1, 2])
    """

    name = "smooth_taylor"


def _checked(
    nt_type: str, samples: int, at_once: int | None, stdevs: float | tuple[float, ...], count: int
) -> tuple[float, ...]:
    if nt_type not in _SUMMARIES:
        raise PgigError(f"unknown nt_type {nt_type!r}; choose one of: {', '.join(_SUMMARIES)}")
    spread = stdevs if isinstance(stdevs, tuple) else (stdevs,) * count
    if len(spread) != count:
        raise PgigError(f"{len(spread)} stdevs for {count} inputs: give one each, or a single number")
    if any(not isinstance(s, int | float) or not 0 <= s < float("inf") for s in spread):
        raise PgigError(f"stdevs must be finite numbers of at least 0, got {stdevs!r}")
    if not all(isinstance(n, int) and n >= 1 for n in (samples, 1 if at_once is None else at_once)):
        raise PgigError(f"nt_samples and nt_samples_batch_size must be at least 1, got {samples} and {at_once}")
    return spread


def _noisy(x: Tensor, stdev: float, copies: int, generator: torch.Generator) -> Tensor:
    repeated = x.detach().repeat_interleave(copies, 0)
    if not repeated.is_floating_point():
        repeated = repeated.to(torch.get_default_dtype())
    return repeated + stdev * torch.randn(repeated.shape, generator=generator).to(repeated)


def _drawn(baselines: Any, rows: int, generator: torch.Generator) -> Any:
    """For each noisy copy a row of the baselines, the same of all members of a tuple."""
    members = baselines if isinstance(baselines, tuple) else (baselines,)
    picks: dict[int, Tensor] = {}

    def drawn(b: Any) -> Any:
        if not isinstance(b, Tensor) or b.dim() == 0:
            return b
        if len(b) not in picks:  # members with as many rows belong together, row by row
            picks[len(b)] = torch.randint(len(b), (rows,), generator=generator)
        return b[picks[len(b)].to(b.device)]

    found = tuple(map(drawn, members))
    return found if isinstance(baselines, tuple) else found[0]


def _repeated(name: str, value: Any, copies: int, count: int) -> Any:
    """Arguments with one row per input, repeated for each noisy copy; others as they are."""
    if isinstance(value, Tensor) and value.dim() > 0 and len(value) == count:
        return value.repeat_interleave(copies, 0)
    if name == "target" and isinstance(value, list) and len(value) == count:
        return [item for item in value for _ in range(copies)]
    return tuple(_repeated("", item, copies, count) for item in value) if isinstance(value, tuple) else value
