"""Which regime is best is measured: for every layer the one whose pattern has the higher signal quality."""

from collections.abc import Iterable
from math import isnan
from typing import Any

from torch import Tensor, nn

from pgig.errors import PgigError
from pgig.patterns.moments import Moments
from pgig.patterns.patterns import Patterns
from pgig.patterns.quality import Drawn, direction_qualities
from pgig.patterns.samples import Further, FurtherNamed
from pgig.subject.subject import Subject


def patterns_by_quality(
    model: nn.Module | Subject,
    moments: Moments,
    held_out: Iterable[Any],
    *,
    seed: int = 0,
    forward_args: Further = (),
    forward_kwargs: FurtherNamed | None = None,
) -> Patterns:
    """Patterns from moments of several regimes (`regime="quality"`), by rho on data that they have not seen.

    Where the regimes are even, or a layer is called too rarely to tell, the one that tracing would take is taken.
    `health()` shows rho of each.

    moments: by `estimate_moments(..., regime="quality")`. held_out: batches that were not among theirs.
    seed: of the units and windows that are drawn. forward_args, forward_kwargs: as for `estimate_moments`.

    Raises PgigError for moments of other weights, and data that does not fit.

    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).eval()
    >>> moments = pgig.estimate_moments(model, [torch.randn(500, 4)], "quality")
    >>> sorted(pgig.patterns_by_quality(model, moments, [torch.randn(500, 4)]))
    ['0', '2']
    """
    subject = Subject.of(model)
    if moments.digest is not None and moments.digest != subject.digest:
        raise PgigError(
            "these moments are of other weights than this model's, or of a model inside it: give the model that they "
            "were estimated with"
        )
    candidates: dict[str, dict[str, Tensor]] = {
        name: {each.regime: each.pattern()[0] for each in layer.all}
        for name, layer in moments.layers.items()
        if layer.others
    }
    found = direction_qualities(subject, candidates, held_out, Drawn(seed=seed), (forward_args, forward_kwargs))
    choice = {
        name: {regime: found[name][regime] for regime in of}
        for name, of in candidates.items()
        if name in found and not any(isnan(found[name][regime]) for regime in of)
    }
    if candidates and not choice:
        raise PgigError("the held-out samples are too few to tell which regime is better: give more of them")
    taken = {name: max(rhos, key=rhos.__getitem__) for name, rhos in choice.items()}
    patterns = moments.taking(taken).patterns()
    quality = {
        name: [found[name]["weight"], found[name][regime], found[name]["random"]] for name, regime in taken.items()
    }
    facts = {**patterns.facts, "choice": choice, "quality": quality}
    return Patterns(patterns, patterns.digest, patterns.layers, facts)
