"""Variants of methods, by name: `pgig+start=one`, `integrated_gradients+steps=50+baseline=black`, `pgig+absolute`."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from torch import Tensor

from pgig.degradation.fills import blurred
from pgig.degradation.grid import PatchGrid
from pgig.errors import PgigError
from pgig.methods.table import Method, find_method

BaselineName = Literal["zero", "black", "blurred"]
_BLUR = 9  # pixels: the width of the Gaussian


@dataclass(frozen=True)
class Variant:
    """A method with other options, and what becomes of its attribution."""

    method: Method
    baseline: BaselineName = "zero"  # in the model's normalised values; black pixels; or the image, blurred
    absolute: bool = False  # every attribution without its sign
    own: frozenset[str] = frozenset()  # the options that its name gives

    def finished(self, attribution: Tensor) -> Tensor:
        return attribution.abs() if self.absolute else attribution


def find_variant(text: str) -> Variant:
    """name+option=value+...; options are the method's own, `baseline`, and `absolute`."""
    name = text.partition("+")[0]
    method = find_method(name)
    known = [*method.options, *(["baseline"] if method.points.is_path else []), "absolute"]
    try:
        given = options_in(text)
        if unknown := given.keys() - {*known, "baseline"}:
            raise PgigError(f"no option {sorted(unknown)[0]} in {text!r}")
        baseline: Any = given.pop("baseline", "zero")
        if baseline not in get_args(BaselineName):
            raise PgigError(
                f"unknown baseline {baseline!r} in {text!r}, choose one of: {', '.join(get_args(BaselineName))}"
            )
        if baseline != "zero" and not method.points.is_path:
            raise PgigError(f"{name} has no path, so no baseline: {text!r}")
        absolute = bool(_typed(given.pop("absolute", "false") or "true", False))
        options = {key: _typed(value, method.options.get(key)) for key, value in given.items()}
        return Variant(method.with_options(**options), baseline, absolute, frozenset(options))
    except PgigError as error:
        raise PgigError(f"{error}; {name} takes: {', '.join(known)}") from None


def options_in(text: str) -> dict[str, str]:
    """What stands behind the name, as it is written."""
    pairs = [part.partition("=") for part in text.split("+")[1:]]
    keys = [key for key, _, _ in pairs]
    if not all(keys) or len(set(keys)) < len(keys):
        raise PgigError(f"expected name+option=value with each option once, got {text!r}")
    return {key: value for key, _, value in pairs}


def baseline_for(name: BaselineName, x: Tensor, black: Tensor | None) -> float | Tensor:
    """black: what a black pixel is to the model, [channels, 1, 1]."""
    if name == "zero":
        return 0.0
    if name == "blurred":
        return blurred(x, PatchGrid(x.shape[2], x.shape[3], min(_BLUR, *x.shape[2:])))
    if black is None:
        raise PgigError("a black baseline needs to know what black is: the preprocessing is not known here")
    return black.to(x).expand_as(x)


def _typed(text: str, like: Any) -> Any:
    """An option's value as its default is."""
    if isinstance(like, bool):
        if text not in ("true", "false"):
            raise PgigError(f"expected true or false, got {text!r}")
        return text == "true"
    if isinstance(like, int | float):
        try:
            return type(like)(text)
        except ValueError:
            raise PgigError(f"expected a number, got {text!r}") from None
    return text
