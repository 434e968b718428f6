"""What judges are told beside the context of a call: how to score, what was explained, how to explain it anew."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from torch import Tensor

from pgig.degradation import DenseEvaluator, Evaluator, PatchGrid, scored_by
from pgig.errors import PgigError
from pgig.subject.context import Context
from pgig.subject.inputs import checked_ids
from pgig.subject.subject import Subject

Attributions = Mapping[str, Tensor]  # method -> like x


@dataclass(frozen=True)
class Setting(Context):
    """What a measure may need to know beside images, classes and maps; a run fills in all of it.

    score, seed, ids, references, black, baseline, batch_size, progress, forward_args, forward_kwargs, options: as in an
        explainer's context, and as at `pgig.attribute`.
    evaluator: who scores changed images; without, whole forward passes. sums: of patches, in place of attributions.
    std: that values of 0..1 were divided by, for each channel. masks: where the object is, [n, height, width].
    explain: a function of inputs that gives the same methods' maps of them. explain_random: the same of a model with
        random weights. kept: what one measure computed and another can use.

    What is missing is made up for where that is possible; where it is not, the measure raises PgigError and names it.

    >>> setting = pgig.measures.Setting(ids=["a.jpg", "b.jpg"], score="logit")
    >>> setting.score
    'logit'
    """

    evaluator: Evaluator | None = None  # without, whole forward passes
    sums: Mapping[str, Tensor] = field(default_factory=dict)  # method -> [n, patches], in place of attributions
    std: Sequence[float] = (1.0, 1.0, 1.0)  # that values of 0..1 were divided by
    masks: Tensor | None = None  # [n, height, width] bool: where the object is
    explain: Callable[[Tensor], Attributions] | None = None  # the same methods and classes, on other inputs
    explain_random: Callable[[Tensor], Attributions] | None = None  # the same of a model with random weights
    kept: dict[Hashable, Any] = field(default_factory=dict)  # what one measure computed and another can use

    @staticmethod
    def of(context: Context) -> "Setting":
        """A context as a setting."""
        if isinstance(context, Setting):
            return context
        return Setting(**{entry.name: getattr(context, entry.name) for entry in fields(Context)})

    def evaluator_for(self, subject: Subject) -> Evaluator:
        """Who scores; where nobody was given, whole forward passes."""
        if self.evaluator is not None:
            return self.evaluator
        if callable(self.score):
            raise PgigError("measures take the score 'probability' or 'logit', not a function")
        return DenseEvaluator(scored_by(subject, self.score))

    def sums_of(self, attributions: Attributions, grid: PatchGrid) -> dict[str, Tensor]:  # [n, patches] each
        """Of each method over the patches."""
        if self.sums:
            if next(iter(self.sums.values())).shape[1] != len(grid):
                raise PgigError(f"attributions by patches of another size than {grid.patch} cannot be judged here")
            return dict(self.sums)
        return {name: grid.sums(attribution) for name, attribution in attributions.items()}

    def names(self, x: Tensor) -> Sequence[Hashable]:
        """What the draws of each input go by."""
        return checked_ids(self.ids, len(x))


def pixel_maps(attributions: Attributions) -> dict[str, Tensor]:  # [n, height, width] each, float64
    """Summed over channels, as heat maps show them."""
    return {name: attribution.detach().double().sum(1) for name, attribution in attributions.items()}
