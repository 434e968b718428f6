"""Methods: a table of one-liners."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Literal, get_args

from pgig.errors import PgigError
from pgig.methods import rules, summaries
from pgig.methods.adaptive import AdaptiveLine
from pgig.methods.points import Ball, Chance, Here, Line, NoisyLines, Points, References
from pgig.methods.rules import Rule
from pgig.methods.summaries import Summary

Start = Literal["one", "score"]


@dataclass(frozen=True)
class Method:
    """An attribution is `summary(scale * gradient(at))`.

    `points` says where gradients are taken (`at`) and what each can be multiplied by (`scale`), `rule` what the
    backward pass does, `summary` what becomes of the terms. `multiply_by_input` says whether the scale is used, and
    `start` what backpropagation begins with: 1, or the score at each point.

    `about` is the line that `pgig methods` shows. `with_options` gives the same with other options, and raises
    PgigError for one that the method does not have.

    >>> pgig.METHODS["pgig"].with_options(steps=50).options["steps"]
    50
    >>> from pgig.methods import points, rules
    >>> pgig.Method(points.Line(10), rules.guided, multiply_by_input=True).options["steps"]  # one of your own
    10
    """

    points: Points
    rule: Rule = rules.plain
    summary: Summary = summaries.mean
    multiply_by_input: bool = False
    start: Start = "one"
    about: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.points, AdaptiveLine):  # only plain gradients sum up to the change of the score
            sums_up = self.rule == rules.plain and self.start == "one"
            object.__setattr__(self, "points", replace(self.points, by="residual" if sums_up else "bends"))
        if self.start not in get_args(Start):
            raise PgigError(f"unknown start {self.start!r}; choose 'one' or 'score'")

    @property
    def options(self) -> dict[str, Any]:
        """The options of this method, with their values."""
        own = {field.name: getattr(self.points, field.name) for field in fields(self.points)}
        if isinstance(self.points, AdaptiveLine):
            own = {"steps": "auto", "tolerance": self.points.tolerance}
        if self.points.is_path:
            own["multiply_by_input"] = self.multiply_by_input
        if self.rule.gate is not None:
            own["soft_gates"] = self.rule.soft_gates
        return own | {"start": self.start}

    def with_options(self, **options: Any) -> "Method":
        """The same with other options: `METHODS["pgig"].with_options(steps=50)`."""
        if "steps" in options and (options["steps"] == "auto" or isinstance(self.points, AdaptiveLine)):
            return self._stepping(options.pop("steps")).with_options(**options)
        if unknown := options.keys() - self.options.keys():
            raise PgigError(f"no option {_listed(unknown)} here; this method has: {_listed(self.options)}")
        own: dict[str, Any] = {name: options.pop(name) for name in ("multiply_by_input", "start") if name in options}
        if "soft_gates" in options:
            if not isinstance(soft := options.pop("soft_gates"), bool):
                raise PgigError(f"soft_gates must be True or False, got {soft!r}")
            own["rule"] = replace(self.rule, soft_gates=soft)
        return replace(self, points=replace(self.points, **options), **own)

    def _stepping(self, steps: Any) -> "Method":
        """As many steps as the function needs, or a number of them again."""
        if not isinstance(self.points, Line | AdaptiveLine):
            raise PgigError("steps='auto' is for a straight path from the baseline; give a number of steps here")
        if steps != "auto":
            return replace(self, points=Line(steps))
        if isinstance(self.points, AdaptiveLine):
            return self
        return replace(self, points=AdaptiveLine())


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "random": Method(Chance(), rules.none, multiply_by_input=True, about="Uniform noise, a control"),
        "gradient": Method(Here(), about="Vanilla gradient (Simonyan et al. 2014)"),
        "gradient_x_input": Method(
            Here(), multiply_by_input=True, about="Gradient times input (Shrikumar et al. 2017)"
        ),
        "integrated_gradients": Method(
            Line(25),
            multiply_by_input=True,
            about="Gradients along a line from the baseline (Sundararajan et al. 2017)",
        ),
        "vargrad": Method(
            Ball(25, 0.15), summary=summaries.variance, about="Variance of noisy gradients (Adebayo et al. 2018)"
        ),
        "smoothgrad_squared": Method(
            Ball(25, 0.15),
            summary=summaries.mean_of_squares,
            about="Mean square of noisy gradients (Hooker et al. 2019)",
        ),
        "smoothgrad_ig": Method(
            NoisyLines(25, 25, 0.15),
            multiply_by_input=True,
            about="Integrated gradients of noisy inputs (Smilkov et al. 2017)",
        ),
        "expected_gradients": Method(
            References(49),
            multiply_by_input=True,
            about="Integrated gradients with baselines drawn from data (Erion et al. 2019)",
        ),
        "guided_backprop": Method(
            Here(), rules.guided, start="score", about="Only positive gradients (Springenberg et al. 2015)"
        ),
        "pattern_attribution": Method(
            Here(), rules.pattern, start="score", about="Gradient under w * p (Kindermans et al. 2017)"
        ),
        "pgig": Method(
            Line(25),
            rules.pattern,
            multiply_by_input=True,
            start="score",
            about="Integrated gradients under the pattern rule (Schwarzenberg & Castle 2020)",
        ),
        "smoothgrad": Method(Ball(25, 0.15), about="Mean of noisy gradients (Smilkov et al. 2017)"),
        "patternnet": Method(
            Here(), rules.patternnet, start="score", about="Gradient under p in place of w (Kindermans et al. 2017)"
        ),
        "smooth_taylor": Method(
            Ball(25, 0.15), multiply_by_input=True, about="Taylor terms from noisy roots (Goh et al. 2020)"
        ),
        "integrated_pattern_attribution": Method(
            Line(25), rules.pattern, start="score", about="PGIG without the factor x - x0"
        ),
    }
)

# the ten of the paper's experiment and the control
PAPER_METHODS = tuple(METHODS)[:11]


_ELSEWHERE = "occlusion", "igos", "pattern_consensus"  # explainers, which are no gradients at points


def find_method(method: str | Method) -> Method:
    if isinstance(method, Method):
        return method
    if not isinstance(method, str):
        raise PgigError(f"a method is a name or a pgig.Method, got {type(method).__name__}")
    if method in _ELSEWHERE:
        raise PgigError(f"{method} is no method of gradients at points: name it in pgig.explain, or in a command")
    if method not in METHODS:
        raise PgigError(
            f"unknown method {method!r}; known: {', '.join(METHODS)}; and {', '.join(_ELSEWHERE)} in pgig.explain, "
            "which takes variants such as pgig+absolute too"
        )
    return METHODS[method]


def method_table(methods: str | Sequence[str] | Mapping[str, Method], options: dict[str, Any]) -> dict[str, Method]:
    """Names and methods with `options` applied: each to the methods that have it, and at least one must."""
    if not isinstance(methods, Mapping | Sequence):
        raise PgigError(f"methods must be names, or a mapping of names to methods, got {type(methods).__name__}")
    if isinstance(methods, Mapping):
        table = {name: find_method(method) for name, method in methods.items()}
    else:
        table = {name: find_method(name) for name in ([methods] if isinstance(methods, str) else methods)}
    if not table:
        raise PgigError("no method given: name at least one of pgig.METHODS")
    if options.get("steps") == "auto":  # first: it brings an option of its own
        table = {name: m.with_options(steps="auto") if "steps" in m.options else m for name, m in table.items()}
        if any(isinstance(method.points, AdaptiveLine) for method in table.values()):
            options = {key: value for key, value in options.items() if key != "steps"}
    for option in options:
        if not any(option in method.options for method in table.values()):
            if option == "tolerance":
                raise PgigError(
                    "tolerance goes with steps='auto', for methods with a straight path: no option 'tolerance'"
                )
            having = {name: _listed(method.options) for name, method in table.items()}
            raise PgigError("; ".join(f"{name} has no option {option!r}, only {own}" for name, own in having.items()))
    if not options:
        return table
    return {
        name: method.with_options(**{key: value for key, value in options.items() if key in method.options})
        for name, method in table.items()
    }


def _listed(names: Any) -> str:
    return ", ".join(sorted(names))
