"""What all classes share, and those that look at the input alone."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from pgig.attribution.completeness import completeness
from pgig.captum.arguments import Forward, baseline_of, drawn_seed, forward_args, members_of, read_target, rows_or_whole
from pgig.captum.errors import not_in_the_future, with_captum_errors
from pgig.explaining.attribute import attribute
from pgig.methods.table import METHODS
from pgig.network.outputs import answer_of
from pgig.subject.context import BatchSize
from pgig.subject.inputs import Baseline, Tensors
from pgig.subject.scores import Explained, Score, Target


class Attribution:
    """What all classes here share: the model, and Captum's reading of target, score and errors.

    forward_func: the model, or any callable.

    >>> from pgig.captum import Saliency
    >>> Saliency.get_name(), Saliency(torch.nn.Linear(2, 3)).has_convergence_delta()
    ('Saliency', False)
    """

    name: ClassVar[str]  # in pgig.METHODS, where it is one of them
    attribute: Callable[..., Any]
    attribute_future: Callable[..., Any]

    def __init__(self, forward_func: Forward) -> None:
        self.forward_func = forward_func

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        if "attribute" in vars(cls):
            cls.attribute = with_captum_errors(cls.attribute)
        cls.attribute_future = not_in_the_future(cls.__name__)

    @property
    def multiplies_by_inputs(self) -> bool:
        """Is the factor x - x0 in it?"""
        return getattr(self, "name", None) in METHODS and METHODS[self.name].multiply_by_input

    def has_convergence_delta(self) -> bool:
        """Does `attribute` give a convergence delta when asked?"""
        return False

    @classmethod
    def get_name(cls) -> str:
        """The class's name in words: `Integrated Gradients`."""
        return "".join(c if c.islower() or i == 0 else f" {c}" for i, c in enumerate(cls.__name__))

    @with_captum_errors
    def compute_convergence_delta(
        self,
        attributions: Tensors,
        start_point: Baseline | None,
        end_point: Tensors,
        target: Target = None,
        additional_forward_args: Any = None,
    ) -> Tensor:
        """sum(attributions) - (f(end_point) - f(start_point)), one number per input."""
        score, target = self._target(end_point, target, additional_forward_args)
        return rows_or_whole(
            lambda batch_size: completeness(
                attributions, self.forward_func, end_point, target, score=score, baseline=baseline_of(start_point),
                batch_size=batch_size, forward_args=forward_args(additional_forward_args),
            )
        )  # fmt: skip

    def _target(self, inputs: Tensors, target: Target, additional_forward_args: Any) -> tuple[Score, Target]:
        further = forward_args(additional_forward_args)
        return read_target(target, lambda: self.forward_func(*(x.clone() for x in members_of(inputs)), *further))

    def _scores(self, members: tuple[Tensor, ...], target: Target, additional_forward_args: Any) -> Tensor:
        """What is explained of these inputs, in one forward pass: one number for each, or all that comes out."""
        further = forward_args(additional_forward_args)
        with torch.no_grad():
            output = self.forward_func(*(x.clone() for x in members), *further)  # it may write to what it is given
            score, target = read_target(target, lambda: output)
            if callable(score):
                if isinstance(output, int | float):
                    return torch.tensor(output, dtype=torch.float64 if isinstance(output, float) else None)
                return answer_of(output)  # all that comes out
            return Explained(score, target, len(members[0]))(output, list(range(len(members[0]))))

    def _attribute(
        self,
        inputs: Tensors,
        target: Target,
        additional_forward_args: Any,
        *,
        method: str | None = None,
        batch_size: BatchSize = None,
        **options: Any,
    ) -> Tensors:
        score, target = self._target(inputs, target, additional_forward_args)
        asked = {"start": "one", "score": score, "forward_args": forward_args(additional_forward_args), **options}
        return rows_or_whole(
            lambda size: attribute(
                method or self.name, self.forward_func, inputs, target, batch_size=size, **asked
            ),
            batch_size,
        )  # fmt: skip


class Saliency(Attribution):
    """The vanilla gradient, absolute by default.

    forward_func: the model, or any callable.
    `attribute` takes what Captum's takes; what does not fit raises a PgigError that is an AssertionError too.

    >>> from pgig.captum import Saliency
    >>> x, linear = torch.tensor([[2.0, 5.0]]), lambda x: x[:, 0] - 3 * x[:, 1]
    >>> Saliency(linear).attribute(x), Saliency(linear).attribute(x, abs=False)
    (tensor([[1., 3.]]), tensor([[ 1., -3.]]))
    """

    name = "gradient"

    def attribute(
        self, inputs: Tensors, target: Target = None, abs: bool = True, additional_forward_args: Any = None
    ) -> Tensors:
        """Shaped like the inputs; arguments as Captum's."""
        found = self._attribute(inputs, target, additional_forward_args)
        if not abs:
            return found
        return tuple(map(torch.abs, found)) if isinstance(found, tuple) else found.abs()


class AtInput(Attribution):
    """The signature of methods that have no baseline and no steps."""

    def attribute(self, inputs: Tensors, target: Target = None, additional_forward_args: Any = None) -> Tensors:
        """Shaped like the inputs; arguments as Captum's."""
        return self._attribute(inputs, target, additional_forward_args)


class InputXGradient(AtInput):
    """The gradient times the input.

    forward_func: the model, or any callable.
    `attribute` takes what Captum's takes; what does not fit raises a PgigError that is an AssertionError too.

    >>> from pgig.captum import InputXGradient
    >>> x, linear = torch.tensor([[2.0, 5.0]]), lambda x: x[:, 0] - 3 * x[:, 1]
    >>> InputXGradient(linear).attribute(x)
    tensor([[  2., -15.]])
    """

    name = "gradient_x_input"


class GuidedBackprop(AtInput):
    """Guided backpropagation; ReLUs are found whether they are modules or functions, reused or in place.

    model: a module, or a callable.
    soft_gates: acts on GELU, SiLU, ... too.
    `attribute` takes what Captum's takes; what does not fit raises a PgigError that is an AssertionError too.

    >>> from pgig.captum import GuidedBackprop
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3)).eval()
    >>> GuidedBackprop(model).attribute(torch.ones(5, 2), target=2).shape
    torch.Size([5, 2])
    """

    name = "guided_backprop"

    def __init__(self, model: Forward, soft_gates: bool = False) -> None:
        super().__init__(model)
        self._soft_gates = soft_gates

    def _attribute(self, inputs: Tensors, target: Target, additional_forward_args: Any, **options: Any) -> Tensors:
        options |= {"soft_gates": self._soft_gates}
        return super()._attribute(inputs, target, additional_forward_args, **options)


class Random(AtInput):
    """Uniform noise, a control. seed: None takes one from torch's global generator at each call.

    forward_func: the model, or any callable.
    `attribute` takes what Captum's takes; what does not fit raises a PgigError that is an AssertionError too.

    >>> from pgig.captum import Random
    >>> x, linear = torch.tensor([[2.0, 5.0]]), lambda x: x[:, 0] - 3 * x[:, 1]
    >>> torch.equal(Random(linear, seed=0).attribute(x), Random(linear, seed=0).attribute(x))
    True
    """

    name = "random"

    def __init__(self, forward_func: Forward, seed: int | None = None) -> None:
        super().__init__(forward_func)
        self._seed = seed

    def _attribute(self, inputs: Tensors, target: Target, additional_forward_args: Any, **options: Any) -> Tensors:
        return super()._attribute(inputs, target, additional_forward_args, seed=drawn_seed(self._seed), **options)


class WithPatterns(Attribution):
    """Methods under a pattern rule take the patterns beside the model."""

    def __init__(self, forward_func: Forward, patterns: Mapping[str, Tensor], start: str = "one") -> None:
        super().__init__(forward_func)
        self._patterns = patterns
        self._start = start

    def _attribute(self, inputs: Tensors, target: Target, additional_forward_args: Any, **options: Any) -> Tensors:
        options |= {"patterns": self._patterns, "start": self._start}
        return super()._attribute(inputs, target, additional_forward_args, **options)


class PatternAttribution(WithPatterns, AtInput):
    """The gradient under w * p. `start="score"` is the paper's choice for images.

    forward_func: the model, or any callable.
    patterns: layer name -> tensor like the layer's weight, as `pgig.estimate_patterns` gives.
    start: what backpropagation begins with, "one" or "score".
    `attribute` takes what Captum's takes; what does not fit raises a PgigError that is an AssertionError too.

    >>> from pgig.captum import PatternAttribution
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3)).eval()
    >>> patterns = pgig.estimate_patterns(model, [torch.randn(500, 2)])
    >>> PatternAttribution(model, patterns).attribute(torch.ones(5, 2), target=2).shape
    torch.Size([5, 2])
    """

    name = "pattern_attribution"


class PatternNet(WithPatterns, AtInput):
    """The gradient under p in place of w.

    forward_func: the model, or any callable.
    patterns: layer name -> tensor like the layer's weight, as `pgig.estimate_patterns` gives.
    start: what backpropagation begins with, "one" or "score".
    `attribute` takes what Captum's takes; what does not fit raises a PgigError that is an AssertionError too.

    >>> from pgig.captum import PatternNet
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3)).eval()
    >>> patterns = pgig.estimate_patterns(model, [torch.randn(500, 2)])
    >>> PatternNet(model, patterns).attribute(torch.ones(5, 2), target=2).shape
    torch.Size([5, 2])
    """

    name = "patternnet"
