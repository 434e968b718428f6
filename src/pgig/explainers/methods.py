"""Methods as explainers, and variants of them: `pgig+start=one`, `integrated_gradients+baseline=black+absolute`."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, cast, get_args

from torch import Tensor

from pgig.attribution.attributions import attributions
from pgig.degradation.fills import blurred
from pgig.degradation.grid import PatchGrid
from pgig.errors import PgigError
from pgig.explainers.protocol import Needs, typed
from pgig.methods.table import Method
from pgig.subject.context import Context
from pgig.subject.inputs import Baseline
from pgig.subject.subject import Subject

BaselineName = Literal["zero", "black", "blurred"]
_BLUR = 9  # pixels: the width of the Gaussian


@dataclass(frozen=True)
class MethodExplainer:
    """A method of the table, where its paths begin, and what becomes of its attribution."""

    method: Method
    baseline: BaselineName | None = None  # zero in the model's normalised values, black pixels, or the image blurred
    absolute: bool = False  # every attribution without its sign
    own: frozenset[str] = frozenset()  # options of the method that were given to this one alone

    @property
    def about(self) -> str:
        return self.method.about

    @property
    def options(self) -> Mapping[str, Any]:
        further = {"baseline": self.baseline} if self.baseline else {}
        return {**self.method.options, **further, **({"absolute": True} if self.absolute else {})}

    @property
    def needs(self) -> Needs:
        return Needs(
            patterns=self.method.rule.needs_patterns,
            references=self.method.points.needs_references,
            black=self.baseline == "black",
        )

    @property
    def shares(self) -> Hashable:
        return self.method.points, self.baseline

    @property
    def takes(self) -> list[str]:
        """The names of its options."""
        return [*self.method.options, *(["baseline"] if self.method.points.is_path else []), "absolute"]

    def with_options(self, **values: Any) -> Self:
        given = dict(values)
        if given.get("steps") == "auto":  # first: it brings an option of its own
            given.pop("steps")
            stepping = replace(self, method=self.method.with_options(steps="auto"), own=self.own | {"steps"})
            return stepping.with_options(**given)
        if unknown := given.keys() - {*self.takes, "baseline"}:
            raise PgigError(f"no option {sorted(unknown)[0]}")
        baseline = given.pop("baseline", self.baseline)
        if baseline is not None and baseline not in get_args(BaselineName):
            raise PgigError(f"unknown baseline {baseline!r}, choose one of: {', '.join(get_args(BaselineName))}")
        if baseline not in (None, "zero") and not self.method.points.is_path:
            raise PgigError("this method has no path, so no baseline")
        absolute = given.pop("absolute", self.absolute)
        absolute = bool(typed("true" if absolute == "" else absolute, False))
        options = {key: typed(value, self.method.options.get(key)) for key, value in given.items()}
        return replace(
            self, method=self.method.with_options(**options), baseline=baseline, absolute=absolute,
            own=self.own | options.keys(),
        )  # fmt: skip

    def explain(self, subject: Subject, x: Tensor, target: Tensor, context: Context) -> Tensor:
        return explain_methods({"it": self}, subject, x, target, context)["it"]


def explain_methods(
    table: Mapping[str, MethodExplainer], subject: Subject, x: Tensor, target: Any, context: Context
) -> dict[str, Tensor]:
    """All in one call of the engine for each baseline."""
    told = with_told(table, context.options)
    found: dict[str, Tensor] = {}
    for baseline in dict.fromkeys(explainer.baseline for explainer in told.values()):
        methods = {name: explainer.method for name, explainer in told.items() if explainer.baseline == baseline}
        attributed = attributions(
            methods, subject, x, target,
            score=context.score, baseline=_baseline(baseline, x, context), references=context.references,
            seed=context.seed, ids=context.ids, batch_size=context.batch_size, progress=context.progress,
            forward_args=context.forward_args, forward_kwargs=context.forward_kwargs,
        )  # fmt: skip
        for name, attribution in attributed.items():
            found[name] = cast(Tensor, attribution).abs() if told[name].absolute else cast(Tensor, attribution)
    return {name: found[name] for name in table}


def stepping(table: Mapping[str, Any], options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """steps="auto" goes first: it brings an option of its own. The table with it, and the other options."""
    if options.get("steps") != "auto":
        return dict(table), dict(options)
    stepped = {
        name: replace(e, method=e.method.with_options(steps="auto"))
        if isinstance(e, MethodExplainer) and "steps" in e.options
        else e
        for name, e in table.items()
    }
    if not any(isinstance(e, MethodExplainer) and "tolerance" in e.options for e in stepped.values()):
        return stepped, dict(options)
    return stepped, {name: value for name, value in options.items() if name != "steps"}


def with_told(table: Mapping[str, MethodExplainer], options: Mapping[str, Any]) -> dict[str, MethodExplainer]:
    """With options that are meant for all: each for the methods that have it, and at least one must."""
    table, options = stepping(table, options)
    for option, value in options.items():
        if not any(option in explainer.method.options for explainer in table.values()):
            having = "; ".join(f"{name} has {', '.join(sorted(e.method.options))}" for name, e in table.items())
            raise PgigError(f"no method here has an option {option!r}: {having}")
        for name, explainer in table.items():
            if option in explainer.own:
                raise PgigError(f"{option} is given twice: in {name!r}, and as {value} for all methods")
    return {
        name: replace(
            explainer,
            method=explainer.method.with_options(
                **{key: value for key, value in options.items() if key in explainer.method.options}
            ),
        )
        for name, explainer in table.items()
    }


def _baseline(name: BaselineName | None, x: Tensor, context: Context) -> Baseline:
    if name is None:
        return context.baseline
    if name == "zero":
        return 0.0
    if name == "blurred" and x.dim() != 4:
        raise PgigError("a blurred baseline is for images, [n, channels, height, width]")
    if name == "blurred":
        return blurred(x, PatchGrid(x.shape[2], x.shape[3], min(_BLUR, *x.shape[2:])))
    if context.black is None:
        raise PgigError("a black baseline needs to know what black is: the preprocessing is not known here")
    return context.black.to(x).expand_as(x)
