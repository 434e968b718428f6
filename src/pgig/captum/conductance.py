"""Layers along the inputs' own path: internal influence and conductance."""

from typing import Any

import torch
from torch import Tensor

from pgig.captum.arguments import (
    baselines_like,
    forward_args,
    like_given,
    members_of,
    rows_or_whole,
    scaled,
    tiled,
    tiled_target,
)
from pgig.captum.layers import LayerAttribution, check_grad_kwargs, side_of
from pgig.captum.paths import quadrature_of
from pgig.explaining.attribute import attribute
from pgig.explaining.inner import inner_call
from pgig.methods.quadrature import alphas_and_weights
from pgig.network.inner_place import Side
from pgig.subject.context import BatchSize
from pgig.subject.inputs import Baseline, Tensors
from pgig.subject.scores import Target
from pgig.subject.subject import Subject


class _AlongInputs(LayerAttribution):
    """Gradients of the score to the layer, at what it gives along the inputs' own path."""

    def _gradients(
        self, inputs: Tensors, baselines: Baseline | None, target: Target, additional: Any, alphas: Any, side: Side,
        batch_size: int | None,
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:  # fmt: skip
        """Gradients and values, each [places, inputs, ...]."""
        members, places = members_of(scaled(inputs)), len(alphas)
        count = len(members[0])
        starts = baselines_like(baselines, members)
        path = tuple(
            torch.cat([torch.lerp(x0, x, float(alpha)) for alpha in alphas])
            for x0, x in zip(starts, members, strict=True)
        )
        score, target = self._target(inputs, target, additional)

        def at(places: int, given: tuple[Tensor, ...], size: BatchSize) -> tuple[Tensors, Tensors]:
            further = tuple(tiled(value, places, count) for value in forward_args(additional))
            call = inner_call(
                Subject(self.forward_func), self.layer, side, like_given(given, inputs), 0, None, further,
                whole=size == "whole", has_path=False,
            )  # fmt: skip
            found = attribute(
                "gradient", call.subject, call.inputs, tiled_target(target, places, count), score=score,
                forward_args=call.forward_args, batch_size=size,
            )  # fmt: skip
            return found, call.inputs

        def run(size: BatchSize) -> list[tuple[Tensors, Tensors]]:
            if size != "whole":
                return [at(places, path, size)]
            return [at(1, tuple(part[k * count : (k + 1) * count] for part in path), size) for k in range(places)]

        parts = rows_or_whole(run, batch_size)
        grouped = [
            tuple(
                torch.cat(several).reshape(places, count, *several[0].shape[1:])
                for several in zip(*(members_of(part[which]) for part in parts), strict=True)
            )
            for which in (0, 1)
        ]
        return grouped[0], grouped[1]


class InternalInfluence(_AlongInputs):
    """The mean gradient to the layer along the inputs' path (Leino et al. 2018).

    forward_func: the model, or any callable.
    layer: a module, or several.
    device_ids: taken, and changes nothing.
    `attribute` takes what Captum's takes; what does not fit raises a PgigError that is an AssertionError too.

    >>> from pgig.captum import InternalInfluence
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3)).eval()
    >>> influence = InternalInfluence(model, model[1]).attribute(torch.ones(5, 2), target=2)
    >>> torch.allclose(influence, model[2].weight[2].expand(5, 4))  # the layer is followed by a linear one
    True
    """

    def attribute(
        self,
        inputs: Tensors,
        baselines: Baseline | None = None,
        target: Target = None,
        additional_forward_args: Any = None,
        n_steps: int = 50,
        method: str = "gausslegendre",
        internal_batch_size: int | None = None,
        attribute_to_layer_input: bool = False,
        grad_kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Shaped like what the layer gives; arguments as Captum's."""
        check_grad_kwargs(grad_kwargs)
        alphas, weights = alphas_and_weights(quadrature_of(method), n_steps)
        gradients, _ = self._gradients(
            inputs, baselines, target, additional_forward_args, alphas, side_of(attribute_to_layer_input),
            internal_batch_size,
        )  # fmt: skip
        found = tuple(torch.einsum("k,k...->...", torch.from_numpy(weights).to(g), g) for g in gradients)
        return found if len(found) > 1 else found[0]


class LayerConductance(_AlongInputs):
    """The flow through the layer along the inputs' path (Dhamdhere et al. 2018).

    forward_func: the model, or any callable.
    layer: a module, or several.
    device_ids: taken, and changes nothing.
    `attribute` takes what Captum's takes; what does not fit raises a PgigError that is an AssertionError too.

    >>> from pgig.captum import LayerConductance
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3)).eval()
    >>> method = LayerConductance(model, model[1])
    >>> terms, delta = method.attribute(torch.ones(5, 2), target=2, return_convergence_delta=True)
    >>> terms.shape, bool((delta.abs() < 0.01).all())
    (torch.Size([5, 4]), True)
    """

    @property
    def multiplies_by_inputs(self) -> bool:
        return True

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
        attribute_to_layer_input: bool = False,
        grad_kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Shaped like what the layer gives; arguments as Captum's."""
        check_grad_kwargs(grad_kwargs)
        alphas, _ = alphas_and_weights(quadrature_of(method), n_steps + 1)
        gradients, values = self._gradients(
            inputs, baselines, target, additional_forward_args, alphas, side_of(attribute_to_layer_input),
            internal_batch_size,
        )  # fmt: skip
        parts = tuple((g[:-1] * (y[1:] - y[:-1])).sum(0) for g, y in zip(gradients, values, strict=True))
        found = parts if len(parts) > 1 else parts[0]
        if not return_convergence_delta:
            return found
        delta = self.compute_convergence_delta(found, baselines, scaled(inputs), target, additional_forward_args)
        return found, delta
