"""explain(): explanations of a batch, one for each method, as plain data."""

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils import parametrize

from pgig.attribution.chunks import ChunkSize
from pgig.attribution.completeness import completeness
from pgig.digests import digest_of
from pgig.errors import PgigError
from pgig.explainers.methods import MethodExplainer, stepping
from pgig.explainers.protocol import Explainer
from pgig.explainers.reading import reading_of
from pgig.explainers.registry import explainers
from pgig.explainers.together import explain_group, needing_patterns, sharing
from pgig.methods.points import Line
from pgig.methods.rules import plain
from pgig.methods.summaries import mean
from pgig.network.checks import FAILURES
from pgig.network.outputs import answer_in
from pgig.patterns.kept import Auto, given_or_found
from pgig.patterns.patterns import content_digest
from pgig.records.explanation import Arrays, Explanation
from pgig.subject.context import BatchSize, Context
from pgig.subject.inputs import Baseline, Inputs, PerInput, Tensors
from pgig.subject.rows import why_not_one
from pgig.subject.scores import Explained, Score, Target
from pgig.subject.subject import Subject


def explain(
    model: Callable[..., Any] | Subject,
    inputs: Tensors,
    methods: str | Sequence[str] | Mapping[str, Any] = "pgig",
    target: Target = None,
    *,
    patterns: Mapping[str, Tensor] | Auto | None = None,
    score: Score = "probability",
    baseline: Baseline = 0,
    references: Tensors | None = None,
    black: Tensor | None = None,
    seed: int = 0,
    ids: Sequence[Hashable] | Tensor | None = None,
    batch_size: BatchSize = None,
    progress: Callable[[int, int], object] | None = None,
    forward_args: Any = (),
    forward_kwargs: dict[str, Any] | None = None,
    **options: Any,
) -> dict[str, Explanation]:
    """An `Explanation` for each method, each of the whole batch.

    methods: names as commands take them, "pgig,occlusion+window=8" or "all", or a mapping of names of your own to
        methods, functions of (model, inputs, targets) or classes like Captum's.
    black: what a black pixel is to the model, [channels, 1, 1], for variants with that baseline.
    progress: called with (points done, points in all).
    options: steps, samples, variance, quadrature, multiply_by_input, start: set for every method that has the option.

    model, inputs, target, patterns, score, baseline, references, seed, ids, batch_size, forward_args, forward_kwargs:
        as at `pgig.attribute`.

    Raises PgigError, in one line, for what does not fit, as `pgig.attribute` does.

    >>> model, x = torch.nn.Linear(2, 3).eval(), torch.ones(4, 2)
    >>> found = pgig.explain(model, x, "gradient,integrated_gradients+steps=10", target=0)
    >>> list(found), found["gradient"].attribution.shape
    (['gradient', 'integrated_gradients+steps=10'], (4, 2))
    """
    table, options = stepping(explainers(methods), options)
    subject = Subject.of(model, given_or_found(patterns, model, bool(needing_patterns(table))))
    table = _with_options(table, options)
    context = Context(
        score=score, seed=seed, ids=ids, references=references, black=black, baseline=baseline, batch_size=batch_size,
        forward_args=forward_args, forward_kwargs=forward_kwargs, options=options,
    )  # fmt: skip
    asked = _Asked(subject, inputs, target, context)
    found: dict[str, Explanation] = {}
    groups = sharing(table)
    points, before = [_points_of(group) * asked.count for group in groups], 0
    for group, own in zip(groups, points, strict=True):
        say = None if progress is None else partial(_said, progress, before, sum(points))
        given = replace(context, options=_options_of(group, options), progress=say)
        begun = time.perf_counter()
        attributions = explain_group(group, subject, inputs, asked.target, given)  # type: ignore[arg-type]
        seconds = (time.perf_counter() - begun) / len(group)
        found |= {name: asked.explanation(name, group[name], a, seconds) for name, a in attributions.items()}
        before += own
        if progress is not None:
            progress(before, sum(points))
    return {name: found[name] for name in table}


def _points_of(group: Mapping[str, Explainer]) -> int:
    """Of one input, as far as that is known."""
    return max(
        e.method.points.count if isinstance(e, MethodExplainer) else getattr(e, "work", 1) for e in group.values()
    )


def _said(progress: Callable[[int, int], object], before: int, total: int, now: int, _: int) -> None:
    progress(min(before + now, total), total)


def _with_options(table: Mapping[str, Explainer], options: Mapping[str, Any]) -> dict[str, Explainer]:
    """Options go to all that have them; methods get theirs where they are explained. One that nobody has is refused."""
    for option in options:
        if not any(option in explainer.options for explainer in table.values()):
            having = "; ".join(f"{name} has {', '.join(e.options) or 'none'}" for name, e in table.items())
            raise PgigError(f"no method here has an option {option!r}: {having}")
    return {
        name: e
        if isinstance(e, MethodExplainer)
        else e.with_options(**{key: value for key, value in options.items() if key in e.options})
        for name, e in table.items()
    }


def _options_of(group: Mapping[str, Explainer], options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if any(name in e.options for e in group.values())}


class _Asked:
    """What is explained: the same for all methods of a call."""

    def __init__(self, subject: Subject, inputs: Tensors, target: Target, context: Context) -> None:
        self._subject, self._inputs, self._context = subject, inputs, context
        batch = Inputs(inputs, context.baseline, None)
        subject.check([])
        self.count = batch.count
        output = self._output(batch)
        self.predicted, self.probability = _prediction(output)
        explained = Explained(context.score, target, batch.count)
        explained.predict(output, list(range(batch.count)))
        self.target = _as_target(explained.classes, batch.device)

    def explanation(self, name: str, explainer: Explainer, attribution: Tensors, seconds: float) -> Explanation:
        reading = reading_of(explainer)
        return Explanation(
            method=name,
            attribution=_arrays(attribution),
            input=_arrays(self._inputs),
            options={**explainer.options, **self._told(explainer)},
            score=_name(self._context.score),
            target=None if self.target is None else _array(torch.as_tensor(self.target)),
            predicted=self.predicted,
            probability=self.probability,
            completeness=self._completeness(explainer, attribution),
            weights_digest=self._weights_digest,
            patterns_digest=self._patterns_digest if explainer.needs.patterns else None,
            seconds=seconds,
            signed=reading.signed,
            nothing=reading.nothing,
            sentence=reading.sentence,
        )

    @cached_property
    def _weights_digest(self) -> str | None:
        return digest_of(self._subject.known_digest) if isinstance(self._subject.model, nn.Module) else None

    @cached_property
    def _patterns_digest(self) -> str | None:
        return None if self._subject.patterns is None else content_digest(self._subject.patterns)

    def _told(self, explainer: Explainer) -> dict[str, Any]:
        return {key: value for key, value in self._context.options.items() if key in explainer.options}

    def _completeness(self, explainer: Explainer, attribution: Tensors) -> NDArray[Any] | None:
        """Where it is a law: integrated gradients, whatever their steps, with their sign and one baseline."""
        if not isinstance(explainer, MethodExplainer) or explainer.absolute or explainer.baseline not in (None, "zero"):
            return None
        told = explainer.with_options(**self._told(explainer)).method
        if not isinstance(told.points, Line) or not told.multiply_by_input:
            return None
        if (told.rule, told.summary, told.start) != (plain, mean, "one"):
            return None
        context = self._context
        residual = completeness(
            attribution, self._subject, self._inputs, self.target, score=context.score,
            baseline=0 if explainer.baseline == "zero" else context.baseline, batch_size=context.batch_size,
            forward_args=context.forward_args, forward_kwargs=context.forward_kwargs,
        )  # fmt: skip
        return residual.detach().cpu().numpy()

    def _output(self, batch: Inputs) -> Any:
        """What the model says of the inputs, some at a time; of what is no tensor, only of the first few."""
        further = PerInput(self._context.forward_args, self._context.forward_kwargs, batch.count)
        size = self._context.batch_size
        ChunkSize(batch.count if size == "whole" else size, batch.device)  # refuses what is no size

        def ask(inputs: Sequence[Tensor], rows: list[int]) -> Any:
            args, kwargs = further.rows(torch.tensor(rows))
            return self._subject(*(x.clone() for x in inputs), *args, **kwargs)

        found = []
        with torch.no_grad(), parametrize.cached():
            for rows in torch.split(torch.arange(batch.count), batch.count if size == "whole" else min(size or 8, 8)):
                try:
                    found.append(ask([x[rows.to(x.device)] for x in batch.members], rows.tolist()))
                except FAILURES as error:
                    fault = None if isinstance(error, PgigError) else why_not_one(batch.members, ask)
                    if fault is None:
                        raise
                    raise PgigError(fault) from error
        answers = [answer for part in found if (answer := answer_in(part)) is not None]
        return torch.cat(answers) if len(answers) == len(found) else found[0]


def _prediction(output: Any) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """The likeliest class of each input and its probability, where the output is one row of class scores each."""
    if not isinstance(output, Tensor) or output.dim() != 2 or output.shape[1] < 2 or not output.is_floating_point():
        return None, None
    probabilities = output.double().softmax(1)
    best = probabilities.max(1)
    return best.indices.cpu().numpy(), best.values.cpu().numpy()


def _as_target(classes: Sequence[tuple[int, ...] | None], device: torch.device) -> Any:
    """A tensor of classes; a list of indices for outputs of more dimensions; None where there is nothing to choose."""
    known = [index for index in classes if index]
    if len(known) < len(classes):
        return None
    return torch.tensor([index[0] for index in known], device=device) if len(known[0]) == 1 else known


def _name(score: Score) -> str:
    return getattr(score, "__name__", "a function") if callable(score) else score


def _arrays(tensors: Tensors) -> Arrays:
    if isinstance(tensors, tuple):
        return tuple(_array(tensor) for tensor in tensors)
    return _array(tensors)


def _array(tensor: Tensor) -> NDArray[Any]:
    if not isinstance(tensor, Tensor):
        raise PgigError(f"inputs must be tensors, got {type(tensor).__name__}")
    tensor = tensor.detach().cpu()
    array: NDArray[Any] = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy().copy()
    return array
