"""Attributions to what a layer gives, or is given, in place of the input."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pgig.captum.arguments import (
    Forward,
    baseline_of,
    baselines_like,
    forward_args,
    members_of,
    rows_or_whole,
)
from pgig.captum.base import Attribution
from pgig.captum.errors import CaptumError, with_captum_errors
from pgig.captum.paths import quadrature_of
from pgig.errors import PgigError
from pgig.explaining.attribute import attribute
from pgig.explaining.inner import inner_call
from pgig.methods.table import METHODS
from pgig.network.inner_place import Side
from pgig.subject.context import BatchSize
from pgig.subject.inputs import Baseline, Tensors
from pgig.subject.scores import Target
from pgig.subject.subject import Subject

Layers = nn.Module | list[nn.Module]


class LayerAttribution(Attribution):
    """What all layer methods share. `device_ids` is Captum's, for DataParallel, and is not needed here."""

    def __init__(self, forward_func: Forward, layer: Layers, device_ids: Any = None) -> None:
        super().__init__(forward_func)
        if not isinstance(layer, nn.Module) and not (isinstance(layer, list) and layer):
            raise CaptumError(f"layer must be a module, or a list of them, got {layer!r}")
        self.layer = layer
        self.device_ids = device_ids

    def _at_layer(
        self,
        method: str,
        inputs: Tensors,
        target: Target,
        additional: Any,
        at_input: bool,
        *,
        baseline: Baseline = 0,
        batch_size: BatchSize = None,
        **options: Any,
    ) -> Any:
        score, target = self._target(inputs, target, additional)

        def run(size: BatchSize) -> Any:
            call = inner_call(
                Subject(self.forward_func), self.layer, side_of(at_input), inputs, baseline, None,
                forward_args(additional), whole=size == "whole", has_path=METHODS[method].points.is_path,
            )  # fmt: skip
            found = attribute(
                method, call.subject, call.inputs, target, score=score, start="one", baseline=call.baseline,
                forward_args=call.forward_args, batch_size=size, **options,
            )  # fmt: skip
            assert call.subject.place is not None
            return self._by_layer(members_of(found), call.subject.place.counts)

        return rows_or_whole(run, batch_size)

    def _by_layer(self, found: tuple[Tensor, ...], counts: Sequence[int]) -> Any:
        """A tensor, or a tuple where the layer has several; a list of those where there are several layers."""
        layers, first = [], 0
        for count in counts:
            parts = found[first : first + count]
            layers.append(parts if count > 1 else parts[0])
            first += count
        return layers if isinstance(self.layer, list) else layers[0]

    @with_captum_errors
    def compute_convergence_delta(
        self,
        attributions: Any,
        start_point: Baseline | None,
        end_point: Tensors,
        target: Target = None,
        additional_forward_args: Any = None,
    ) -> Tensor:
        """The sum over the layer's features, less the change of the score between the model's inputs."""
        groups = attributions if isinstance(attributions, list) else [attributions]
        parts = [part for group in groups for part in members_of(group)]
        rows = torch.stack([part.reshape(len(part), -1).sum(1) for part in parts]).sum(0)
        ends = members_of(end_point)
        starts = baselines_like(start_point, ends)
        change = self._scores(ends, target, additional_forward_args) - self._scores(
            starts, target, additional_forward_args
        )
        return rows - change.reshape(-1)


class LayerActivation(LayerAttribution):
    """What the layer gives.

    forward_func: the model, or any callable.
    layer: a module, or several.
    device_ids: taken, and changes nothing.
    `attribute` takes what Captum's takes; what does not fit raises a PgigError that is an AssertionError too.

    >>> from pgig.captum import LayerActivation
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3)).eval()
    >>> LayerActivation(model, model[0]).attribute(torch.ones(5, 2)).shape
    torch.Size([5, 4])
    """

    @property
    def multiplies_by_inputs(self) -> bool:
        return True

    def attribute(
        self,
        inputs: Tensors,
        additional_forward_args: Any = None,
        attribute_to_layer_input: bool = False,
    ) -> Any:
        """Shaped like what the layer gives; arguments as Captum's."""
        subject = Subject(self.forward_func, at=self.layer, side=side_of(attribute_to_layer_input))
        subject.check([])
        found = subject.inner_by_layer(*members_of(inputs), *forward_args(additional_forward_args))
        return self._by_layer(tuple(value for layer in found for value in layer), [len(layer) for layer in found])


class LayerGradientXActivation(LayerAttribution):
    """What the layer gives times its gradient.

    forward_func: the model, or any callable.
    layer: a module, or several.
    device_ids: taken, and changes nothing.
    multiply_by_inputs: False leaves out the factor x - x0.
    `attribute` takes what Captum's takes; what does not fit raises a PgigError that is an AssertionError too.

    >>> from pgig.captum import LayerGradientXActivation
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3)).eval()
    >>> terms = LayerGradientXActivation(model, model[1]).attribute(torch.ones(5, 2), target=2)
    >>> torch.allclose(terms.sum(1) + model[2].bias[2], model(torch.ones(5, 2))[:, 2])
    True
    """

    def __init__(
        self, forward_func: Forward, layer: Layers, device_ids: Any = None, multiply_by_inputs: bool = True
    ) -> None:
        super().__init__(forward_func, layer, device_ids)
        self._multiply_by_inputs = multiply_by_inputs

    @property
    def multiplies_by_inputs(self) -> bool:
        return self._multiply_by_inputs

    def attribute(
        self,
        inputs: Tensors,
        target: Target = None,
        additional_forward_args: Any = None,
        attribute_to_layer_input: bool = False,
        grad_kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Shaped like what the layer gives; arguments as Captum's."""
        check_grad_kwargs(grad_kwargs)
        if isinstance(self.layer, list):  # each by itself: what flows on through another layer counts
            return [
                LayerGradientXActivation(self.forward_func, layer, None, self._multiply_by_inputs).attribute(
                    inputs, target, additional_forward_args, attribute_to_layer_input
                )
                for layer in self.layer
            ]
        method = "gradient_x_input" if self._multiply_by_inputs else "gradient"
        return self._at_layer(method, inputs, target, additional_forward_args, attribute_to_layer_input)


class LayerIntegratedGradients(LayerGradientXActivation):
    """Integrated gradients from what the layer gives for the baseline to what it gives for the input.

    forward_func: the model, or any callable.
    layer: a module, or several.
    device_ids: taken, and changes nothing.
    multiply_by_inputs: False leaves out the factor x - x0.
    `attribute` takes what Captum's takes; what does not fit raises a PgigError that is an AssertionError too.

    >>> from pgig.captum import LayerIntegratedGradients
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3)).eval()
    >>> method = LayerIntegratedGradients(model, model[1])
    >>> terms, delta = method.attribute(torch.ones(5, 2), target=2, return_convergence_delta=True)
    >>> terms.shape, bool((delta.abs() < 1e-5).all())
    (torch.Size([5, 4]), True)
    """

    def has_convergence_delta(self) -> bool:
        return True

    def attribute(  # type: ignore[override]
        self,
        inputs: Tensors,
        baselines: Baseline | None = None,
        target: Target = None,
        additional_forward_args: Any = None,
        n_steps: int = 50,
        method: str = "gausslegendre",
        internal_batch_size: int | None = None,
        return_convergence_delta: bool = False,
        attribute_to_layer_input: bool = False,
        grad_kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Shaped like what the layer gives; arguments as Captum's."""
        check_grad_kwargs(grad_kwargs)
        found = self._at_layer(
            "integrated_gradients", inputs, target, additional_forward_args, attribute_to_layer_input,
            baseline=baseline_of(baselines), steps=n_steps, quadrature=quadrature_of(method),
            batch_size=internal_batch_size, multiply_by_input=self._multiply_by_inputs,
        )  # fmt: skip
        if not return_convergence_delta:
            return found
        return found, self.compute_convergence_delta(found, baselines, inputs, target, additional_forward_args)


def side_of(at_input: bool) -> Side:
    return "input" if at_input else "output"


def check_grad_kwargs(grad_kwargs: dict[str, Any] | None) -> None:
    if grad_kwargs and grad_kwargs.keys() - {"allow_unused", "materialize_grads"}:
        raise PgigError(f"grad_kwargs {grad_kwargs} cannot be passed on: gradients are not taken by autograd.grad here")
