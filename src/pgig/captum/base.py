"""What all classes share, and those that look at the input alone."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from pgig.attribution.completeness import completeness
from pgig.explaining.attribute import attribute
from pgig.methods.table import METHODS
from pgig.subject.inputs import Baseline, Tensors
from pgig.subject.scores import Score, Target

Forward = Callable[..., Any]


class Attribution:
    """What all classes here share: the model, and Captum's reading of target and score."""

    name: ClassVar[str]  # in pgig.METHODS

    def __init__(self, forward_func: Forward) -> None:
        self.forward_func = forward_func

    @property
    def multiplies_by_inputs(self) -> bool:
        return METHODS[self.name].multiply_by_input

    def has_convergence_delta(self) -> bool:
        return METHODS[self.name].points.is_path

    def compute_convergence_delta(
        self,
        attributions: Tensors,
        start_point: Baseline | None,
        end_point: Tensors,
        target: Target = None,
        additional_forward_args: Any = None,
    ) -> Tensor:
        """sum(attributions) - (f(end_point) - f(start_point)), one number per input."""
        score, target = _captum_target(target)
        return completeness(
            attributions, self.forward_func, end_point, target, score=score,
            baseline=0 if start_point is None else start_point,
            forward_args=_forward_args(additional_forward_args),
        )  # fmt: skip

    def _attribute(self, inputs: Tensors, target: Target, additional_forward_args: Any, **options: Any) -> Tensors:
        score, target = _captum_target(target)
        options = {"start": "one", **options}
        forward_args = _forward_args(additional_forward_args)
        return attribute(
            self.name, self.forward_func, inputs, target, score=score, forward_args=forward_args, **options
        )


class Saliency(Attribution):
    """The vanilla gradient, absolute by default."""

    name = "gradient"

    def attribute(
        self, inputs: Tensors, target: Target = None, abs: bool = True, additional_forward_args: Any = None
    ) -> Tensors:
        return _mapped(torch.abs if abs else lambda a: a, self._attribute(inputs, target, additional_forward_args))


class AtInput(Attribution):
    """The signature of methods that have no baseline and no steps."""

    def attribute(self, inputs: Tensors, target: Target = None, additional_forward_args: Any = None) -> Tensors:
        return self._attribute(inputs, target, additional_forward_args)


class InputXGradient(AtInput):
    """Gradient times input."""

    name = "gradient_x_input"


class GuidedBackprop(AtInput):
    """Guided backpropagation; ReLUs are found whether they are modules or functions, reused or in place."""

    name = "guided_backprop"

    def __init__(self, model: Forward) -> None:
        super().__init__(model)


class Random(AtInput):
    """Uniform noise, a control."""

    name = "random"


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
    """The gradient under w * p. `start="score"` is the paper's choice for images."""

    name = "pattern_attribution"


class PatternNet(WithPatterns, AtInput):
    """The gradient under p in place of w."""

    name = "patternnet"


def _captum_target(target: Target) -> tuple[Score, Target]:
    if target is None:
        return _only_output, None
    if isinstance(target, Tensor) and target.numel() == 1:
        return "logit", int(target)
    return "logit", target


def _only_output(output: Any) -> Any:
    return output.reshape(len(output)) if isinstance(output, Tensor) and output.numel() == len(output) else output


def _forward_args(additional: Any) -> tuple[Any, ...]:
    return () if additional is None else additional if isinstance(additional, tuple) else (additional,)


def _mapped(change: Callable[[Tensor], Tensor], attributions: Tensors) -> Tensors:
    return tuple(map(change, attributions)) if isinstance(attributions, tuple) else change(attributions)
