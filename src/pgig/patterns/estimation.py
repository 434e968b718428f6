"""estimate_patterns(), estimate_moments(): one streaming pass over data."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import nn

from pgig.errors import PgigError
from pgig.patterns.choice import patterns_by_quality
from pgig.patterns.estimator import Estimator
from pgig.patterns.moments import Moments
from pgig.patterns.patterns import Patterns
from pgig.patterns.quality import signal_quality
from pgig.patterns.regimes import Joins, Mask, Regimes, asks_for_quality
from pgig.patterns.samples import Further, FurtherNamed, checked_batches, samples_in
from pgig.subject.subject import Subject

Progress = Callable[[int, int | None], object]


def estimate_patterns(
    model: nn.Module | Subject,
    batches: Iterable[Any],
    regime: Regimes = "auto",
    *,
    mask: Mask = "bias",
    joins: Joins = "summed",
    preprocessing: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    held_out: Iterable[Any] | None = None,
    forward_args: Further = (),
    forward_kwargs: FurtherNamed | None = None,
) -> Patterns:
    """Patterns of every layer of `model`, from data. See `estimate_moments`.

    held_out: batches that were not among `batches`, to measure the signal quality on (`pgig.signal_quality`), which
        `health()` then shows, and by which `regime="quality"` chooses.

    Gives `pgig.Patterns`, a mapping of layer names to tensors shaped like their weights.

    mask, joins, preprocessing, progress, forward_args, forward_kwargs: as for `estimate_moments`.

    Raises PgigError for a model that is still training or has no layer for patterns, and for data that does not fit, is
    not finite, or is none at all.

    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3)).eval()
    >>> patterns = pgig.estimate_patterns(model, [torch.randn(200, 2) for _ in range(3)])
    >>> {name: tuple(pattern.shape) for name, pattern in patterns.items()}
    {'0': (4, 2), '2': (3, 4)}
    """
    if asks_for_quality(regime) and held_out is None:
        raise PgigError("regime='quality' is chosen on samples that patterns have not seen: give them as held_out=")
    if held_out is not None:
        checked_batches(held_out)
    moments = estimate_moments(
        model, batches, regime, mask=mask, joins=joins, preprocessing=preprocessing, progress=progress,
        forward_args=forward_args, forward_kwargs=forward_kwargs,
    )  # fmt: skip
    if held_out is not None and asks_for_quality(regime):
        return patterns_by_quality(model, moments, held_out, forward_args=forward_args, forward_kwargs=forward_kwargs)
    patterns = moments.patterns()
    if held_out is None:
        return patterns
    quality = signal_quality(
        model, patterns, held_out, forward_args=forward_args, forward_kwargs=forward_kwargs
    )  # fmt: skip
    return patterns.with_quality(quality)


def estimate_moments(
    model: nn.Module | Subject,
    batches: Iterable[Any],
    regime: Regimes = "auto",
    *,
    mask: Mask = "bias",
    joins: Joins = "summed",
    preprocessing: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    forward_args: Further = (),
    forward_kwargs: FurtherNamed | None = None,
) -> Moments:
    """The sums behind patterns, which can be saved, added to others', and turned into patterns.

    batches: any iterable of tensors, of tuples whose first member is the input (a DataLoader), or of mappings that the
        model takes by name (what a tokenizer gives). The further members of a tuple are not used: they may be labels.
    regime: which samples count for a unit. "auto": those in which it is active, where the layer feeds gates and
        nothing else (batch norm, dropout and max pooling may lie between), all of them elsewhere. "positive",
        "negative", "linear" (all): the same for every layer. "centred": like auto, with the covariance within the
        regime. "quality": of positive and linear the one with the higher signal quality on held-out samples, layer by
        layer; sums are kept of both, so that summing up takes about twice as long. Or a mapping of layer names, `*`
        allowed, to those; layers without a match are "auto".
    mask: where a unit's activity is judged: behind the bias, where the ReLU does, or before it, as the paper writes.
    joins: what a sum of branches sends back: "summed", all of it to each, as autograd does; "shared", to each its
        share, by its covariance with the sum. Then attributions do not grow with every join.
    preprocessing: kept with the result, for the record.
    progress: called with (samples done, samples in all or None).
    forward_args, forward_kwargs: what the model takes beside the input, fixed or as a function of the batch: for
        batches of (ids, mask), `forward_args=lambda batch: (batch[1],)`.

    Raises PgigError for data or regimes that do not fit the model, and where the model fails on a batch.

    >>> model = torch.nn.Linear(2, 3).eval()
    >>> pgig.estimate_moments(model, [torch.randn(50, 2)]).samples
    50
    """
    estimator = Estimator(model, regime, mask, preprocessing, forward_args, forward_kwargs, joins)
    total = samples_in(checked_batches(batches))
    for batch in batches:
        estimator.update(batch)
        if progress is not None:
            progress(estimator.samples, total)
    return estimator.moments()
