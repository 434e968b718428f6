"""Explainers of a user's own: a function, or a class like Captum's."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy
import torch
from torch import Tensor, nn

from pgig.errors import PgigError
from pgig.explainers.protocol import Needs
from pgig.subject.context import Context
from pgig.subject.subject import Subject


@dataclass(frozen=True)
class OwnExplainer:
    """A function of (model, inputs, targets); or what has `attribute(inputs, target=...)`, as Captum's have.

    A class is made with the model first.
    """

    asked: Any
    name: str

    @property
    def about(self) -> str:
        return (getattr(self.asked, "__doc__", None) or "An explainer of your own").strip().splitlines()[0]

    @property
    def options(self) -> Mapping[str, Any]:
        return {}

    @property
    def needs(self) -> Needs:
        return Needs()

    @property
    def shares(self) -> Hashable | None:
        return None

    def with_options(self, **values: Any) -> Self:
        if values:
            raise PgigError(f"{self.name} is an explainer of your own, which has no options here")
        return self

    def explain(self, subject: Subject, x: Tensor, target: Tensor | None, context: Context) -> Tensor:
        """What it says: it may raise anything, return anything, and write to what it is given."""
        model = subject.module
        modes = [(module, module.training) for module in model.modules()]
        try:
            given = self._call(model, x.detach().clone(), target.clone() if isinstance(target, Tensor) else target)
            given = given[0] if isinstance(given, tuple) and len(given) == 1 else given
            if isinstance(given, numpy.ndarray):
                given = numpy.ascontiguousarray(given)
            attribution = torch.as_tensor(given).detach()
        except Exception as error:
            raise PgigError(f"{self.name} failed: {type(error).__name__}: {error}") from error
        finally:
            for module, training in modes:
                module.training = training
        return attribution

    def _call(self, model: nn.Module, x: Tensor, target: Tensor | None) -> Any:
        explainer = self.asked(model) if isinstance(self.asked, type) else self.asked
        if hasattr(explainer, "attribute"):  # Captum asks for gradients, with a warning where it has to do so itself
            return explainer.attribute(x.requires_grad_(), target=target)
        return explainer(model, x, target)


def checked_attribution(name: str, given: Any, x: Tensor) -> Tensor:
    """Refuse what is no attribution of x."""
    if not isinstance(given, Tensor):
        raise PgigError(f"{name} gave a {type(given).__name__} for attributions")
    if given.is_complex():
        raise PgigError(f"{name} gave complex attributions")
    attribution: Tensor = given.to(x)
    if attribution.shape != x.shape:
        raise PgigError(f"{name} gave attributions of shape {tuple(attribution.shape)} for {tuple(x.shape)}")
    if not attribution.isfinite().all():
        raise PgigError(f"{name} gave NaN or infinite attributions")
    return attribution
