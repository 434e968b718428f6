"""Explainers by name: methods, occlusion, I-GOS, what packages and users register, and how names are read."""

import re
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pgig.errors import PgigError, PgigWarning
from pgig.explainers.consensus import PatternConsensus
from pgig.explainers.igos import Igos
from pgig.explainers.methods import MethodExplainer
from pgig.explainers.occlusion import Occlusion
from pgig.explainers.own import OwnExplainer
from pgig.explainers.protocol import Explainer
from pgig.methods.table import METHODS, PAPER_METHODS, Method
from pgig.plugins import imported, open_table

GROUP = "pgig.explainers"  # the entry points by which packages bring theirs
_OURS: dict[str, Explainer] = {"occlusion": Occlusion(), "igos": Igos(), "pattern_consensus": PatternConsensus()}
_OWN: dict[str, Explainer] = open_table(dict(_OURS))
# five that tell much and take little: the best of their kind (removal, gradient, noise, path, patterns) in the
# degradation of 24 photographs on the default network (docs/choosing.md)
QUICK_METHODS = "occlusion", "guided_backprop", "smooth_taylor", "integrated_gradients", "pgig"
SETS: Mapping[str, Sequence[str]] = {"all": PAPER_METHODS, "quick": QUICK_METHODS}
_NAME = re.compile(r"[^\W\d][\w.-]*")


def register(name: str, explainer: Any) -> None:
    """Make an explainer known by a name to `pgig.explain`, `pgig.quantus` and every command of this process.

    explainer: a `Method`, an object with the `Explainer` protocol, a function of (model, inputs, targets), or a class
        like Captum's. A package registers its explainers by entry points of the group "pgig.explainers".

    Raises PgigError for a name that is taken, or that commands could not read.

    >>> pgig.register("input_itself", lambda model, inputs, targets: inputs)
    >>> found = pgig.explain(torch.nn.Linear(2, 3).eval(), torch.ones(1, 2), "input_itself")
    >>> found["input_itself"].attribution.tolist()
    [[1.0, 1.0]]
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in SETS:
        raise PgigError(f"an explainer's name begins with a letter and has no comma, colon or plus, got {name!r}")
    if name in METHODS or name in _OWN:
        raise PgigError(f"there is an explainer named {name!r} already")
    _OWN[name] = as_explainer(explainer, name)


def unregister(name: str) -> None:
    """Forget what was registered."""
    if name in _OURS or _OWN.pop(name, None) is None:
        raise PgigError(f"no explainer was registered as {name!r}")


def known_explainers() -> dict[str, Explainer]:
    """All that are known by name."""
    known: dict[str, Explainer] = {name: MethodExplainer(method) for name, method in METHODS.items()}
    for name, entry in _entries().items():
        try:
            known[name] = _loaded(entry)
        except PgigError as error:  # of one package, no reason to know none
            warnings.warn(str(error), PgigWarning, stacklevel=2)
    return {**known, **_OWN}


def explainers(methods: str | Sequence[str] | Mapping[str, Any]) -> dict[str, Explainer]:
    """Named explainers: "all" (the paper's ten and random), "quick" (five that tell much and take little), "a,b", a
    list of names, or a mapping of names to any.

    A name with a colon, `module:name`, is an explainer of the caller's own. Behind a plus are options:
    `pgig+start=one`, `integrated_gradients+steps=50+baseline=black`, `pgig+absolute`, `occlusion+window=8`.
    """
    if isinstance(methods, Mapping):
        table = {name: as_explainer(value, name) for name, value in methods.items()}
    else:
        table = {name: _found(name) for name in names_in(methods)}
    if not table:
        raise PgigError("no method given", lacks="methods")
    return table


def names_in(methods: str | Sequence[str]) -> list[str]:
    """Names without what they stand for: "a, b,all" -> [a, b, ...], each once."""
    listed = [methods] if isinstance(methods, str) else methods
    if not isinstance(listed, Sequence) or not all(isinstance(entry, str) for entry in listed):
        raise PgigError("methods are names; give explainers of your own as a mapping of names to them")
    parts = [part.strip() for entry in listed for part in entry.split(",")]
    return list(dict.fromkeys(name for part in parts if part for name in SETS.get(part, [part])))


def as_explainer(value: Any, name: str) -> Explainer:
    """What stands for an explainer: a name, a method, one of the protocol, a function or a class like Captum's."""
    if isinstance(value, str):
        return _found(value)
    if isinstance(value, Method):
        return MethodExplainer(value)
    if isinstance(value, Explainer) and not isinstance(value, type):
        return value
    if callable(value) or hasattr(value, "attribute"):
        return OwnExplainer(value, name)
    raise PgigError(f"an explainer is a method, a function or has attribute(), got {type(value).__name__}")


def _found(text: str) -> Explainer:
    name, *options = text.split("+")
    explainer = as_explainer(imported(name, "an explainer"), name) if ":" in name else _known(name)
    if not options:
        return explainer
    try:
        return explainer.with_options(**_options_in(options))
    except PgigError as error:
        takes = ", ".join(getattr(explainer, "takes", explainer.options)) or "no options"
        raise PgigError(f"{error} in {text!r}; {name} takes: {takes}") from None


def _known(name: str) -> Explainer:
    if name in METHODS:
        return MethodExplainer(METHODS[name])
    if name in _OWN:
        return _OWN[name]
    if name in _entries():
        return _loaded(_entries()[name])
    raise PgigError(f"unknown method {name!r}; known: {', '.join([*METHODS, *_entries(), *_OWN])}")


def _options_in(parts: Sequence[str]) -> dict[str, str]:
    """What stands behind the name, as it is written."""
    pairs = [part.partition("=") for part in parts]
    keys = [key for key, _, _ in pairs]
    if not all(keys) or len(set(keys)) < len(keys):
        raise PgigError("expected name+option=value with each option once")
    return {key: value for key, _, value in pairs}


@cache
def _entries() -> dict[str, EntryPoint]:
    """Names of our own stay ours."""
    found = entry_points(group=GROUP)
    return {entry.name: entry for entry in found if _NAME.fullmatch(entry.name) and entry.name not in METHODS}


def _loaded(entry: EntryPoint) -> Explainer:
    try:
        return as_explainer(entry.load(), entry.name)
    except Exception as error:
        raise PgigError(f"the explainer {entry.name} ({entry.value}) cannot be loaded: {error}") from error
