"""Our degradation benchmark as a metric of Quantus, by exact incremental inference where the model allows it."""

from collections.abc import Callable
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import nn

from pgig.degradation import Protocol
from pgig.errors import PgigError
from pgig.measures.degradation import Degradation as Judge
from pgig.measures.evaluators import Wish, choose
from pgig.network.outputs import answer_of
from pgig.quantus.explain import whole_classes
from pgig.records.measures import BY_ORDER, find_measure
from pgig.subject.context import Context
from pgig.subject.rows import check_rows
from pgig.subject.subject import Subject

try:
    from quantus.helpers.enums import DataType, EvaluationCategory, ModelType, ScoreDirection
    from quantus.metrics.base import Metric
except ImportError as error:
    raise PgigError(f"pgig.quantus.Degradation is a metric of Quantus: pip install quantus ({error})") from error

_ORDERS = {"morf": "descending", "lerf": "ascending", "random": "random"}


class Degradation(Metric):  # type: ignore[type-arg]
    """The area under the score of the class as patches are replaced in the order of the attribution, for each image.

    The paper's protocol by default: 100 patches of 9 pixels, each by its own mean, the probability as score. The
    curves of the last call are in `curves`, [images, steps + 1]; which evaluator was taken, and why, in `note`.

    fill: as in `pgig.degradation.Protocol`. seed: of random orders. All else is Quantus's, with its meaning: abs,
    normalise, normalise_func, normalise_func_kwargs, return_aggregate, aggregate_func, default_plot_func,
    disable_warnings, display_progressbar. Raises PgigError for what does not fit the protocol.

    >>> from pgig.quantus import Degradation
    >>> model, x, y = pgig.synthetic.embedded("plain"), torch.rand(2, 3, 64, 64), torch.tensor([0, 3])
    >>> maps = pgig.attribute("gradient", model, x, y).sum(1, keepdim=True)
    >>> metric = Degradation(patch_size=8, regions_evaluation=10)
    >>> areas = metric(model, x.numpy(), y.numpy(), maps.numpy(), device="cpu")
    >>> len(areas), metric.curves.shape
    (2, (2, 11))
    """

    name = "Degradation"
    data_applicability = {DataType.IMAGE}  # noqa: RUF012 (as Quantus writes it)
    model_applicability = {ModelType.TORCH}  # noqa: RUF012
    score_direction = ScoreDirection.LOWER
    evaluation_category = EvaluationCategory.FAITHFULNESS

    def __init__(
        self,
        patch_size: int = 9,
        regions_evaluation: int = 100,
        order: str = "morf",
        fill: str = "mean",
        score: str = "probability",
        evaluator: str = "auto",
        abs: bool = False,
        normalise: bool = False,
        normalise_func: Callable[..., Any] | None = None,
        normalise_func_kwargs: dict[str, Any] | None = None,
        return_aggregate: bool = False,
        aggregate_func: Callable[..., Any] | None = None,
        default_plot_func: Callable[..., Any] | None = None,
        disable_warnings: bool = True,
        display_progressbar: bool = False,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        """patch_size, regions_evaluation, order: as in Quantus's RegionPerturbation.

        fill: "mean", "image_mean", "blur", "road" or a number. score: "probability" or "logit". evaluator: "auto",
            "incremental" or "dense". seed: of the random order.
        """
        super().__init__(
            abs=abs, normalise=normalise, normalise_func=normalise_func, normalise_func_kwargs=normalise_func_kwargs,
            return_aggregate=return_aggregate, aggregate_func=aggregate_func or numpy.mean,
            default_plot_func=default_plot_func, disable_warnings=disable_warnings,
            display_progressbar=display_progressbar, **kwargs,
        )  # fmt: skip
        if order not in _ORDERS:
            raise PgigError(f"unknown order {order!r}; choose one of: {', '.join(_ORDERS)}")
        self.protocol = Protocol(patch=patch_size, steps=regions_evaluation, order=_ORDERS[order], fill=fill)  # type: ignore[arg-type]
        self._wish = Wish(evaluator, score)
        self._seed = seed
        if order == "lerf":
            vars(self)["score_direction"] = ScoreDirection.HIGHER
        self.curves: NDArray[numpy.float64] = numpy.empty((0, regions_evaluation + 1))
        self.note = ""

    def __call__(
        self,
        model: nn.Module,
        x_batch: NDArray[Any],
        y_batch: NDArray[Any],
        a_batch: NDArray[Any] | None = None,
        s_batch: NDArray[Any] | None = None,
        channel_first: bool | None = None,
        explain_func: Callable[..., Any] | None = None,
        explain_func_kwargs: dict[str, Any] | None = None,
        model_predict_kwargs: dict[str, Any] | None = None,
        softmax: bool | None = False,
        device: str | None = None,
        batch_size: int = 8,
        **kwargs: Any,
    ) -> Any:
        """The area for each image, or their aggregate. What is scored is set by `score`, not by `softmax`."""
        if not isinstance(model, nn.Module):
            raise PgigError(f"expected a torch.nn.Module, got {type(model).__name__}")
        self.curves = self.curves[:0]
        return super().__call__(
            model=model, x_batch=x_batch, y_batch=y_batch, a_batch=a_batch, s_batch=s_batch, custom_batch=None,
            channel_first=channel_first, explain_func=explain_func, explain_func_kwargs=explain_func_kwargs,
            softmax=softmax, device=device, model_predict_kwargs=model_predict_kwargs, batch_size=batch_size, **kwargs,
        )  # fmt: skip

    def evaluate_batch(
        self, model: Any, x_batch: NDArray[Any], y_batch: NDArray[Any], a_batch: NDArray[Any], **kwargs: Any
    ) -> list[float]:
        subject = Subject(model.get_model())
        some = next(subject.module.parameters(), torch.empty(0))
        x = torch.as_tensor(numpy.ascontiguousarray(x_batch)).to(some)
        target = whole_classes(torch.as_tensor(numpy.ascontiguousarray(y_batch))).to(some.device)
        subject.check([])
        with torch.no_grad():
            classes = answer_of(subject(x[:1].clone())).shape[-1]
        if int(target.min()) < 0 or int(target.max()) >= classes:
            raise PgigError(f"targets {target.tolist()} are out of range: the model has {classes} classes")
        check_rows(
            subject, [x], [torch.zeros_like(x)], "output", lambda given, _: subject(given[0].clone()),
            remedy="degradation, which puts many images through at once, cannot take it",
        )  # fmt: skip
        attribution = numpy.broadcast_to(a_batch, x_batch.shape).copy()
        chosen = choose(self._wish, subject, x[:1], self.protocol)
        self.note = chosen.note
        by = Judge(self.protocol, chosen.evaluator)
        ids = range(len(self.curves), len(self.curves) + len(x))
        context = Context(score=self._wish.score, seed=self._seed, ids=list(ids))  # type: ignore[arg-type]
        judged = by(subject, x, target, {"it": torch.from_numpy(attribution).to(some.device)}, context)["it"]
        self.curves = numpy.concatenate([self.curves, judged])
        columns = find_measure(BY_ORDER[self.protocol.order]).columns_of(judged)
        return [float(value) for value in columns["AUC"]]
