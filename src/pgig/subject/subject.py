"""Subjects: a model bound for explaining, with its patterns and all that was found out about it."""

from collections.abc import Callable, Hashable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, TypeVar

from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from pgig.errors import PgigError
from pgig.methods.rules import Rule
from pgig.network.checks import check_kinds, check_model, without_compilation
from pgig.network.inner_place import Place, Side, run_from, values_at
from pgig.network.layers import Collected, Layers, Spare
from pgig.network.memory_format import is_faster_in_channels_last, is_same_in_channels_last
from pgig.network.weight_versions import (
    Look,
    Versions,
    difference,
    model_digest,
    modules_of,
    quick_look,
    renaming,
    versions,
)

T = TypeVar("T")


class _Known:
    """What was found out about a model, as long as its weights stay. It must not hold the model."""

    def __init__(self) -> None:
        self.versions: Versions = ()
        self.facts: dict[Hashable, Any] = {}
        self.modules: tuple[tuple[int, ...], ...] = ()  # which there are, their training modes and numbers of hooks
        self.sound: set[Hashable] = set()  # what rules they were checked for
        self.digest: tuple[Look, str] | None = None
        self.spare: Spare = WeakIdKeyDictionary()  # memory of weights' stand-ins, by pattern


# the only table: what is known goes with its model
_KNOWN: MutableMapping[object, _Known] = WeakIdKeyDictionary()


class Subject:
    """A model bound for explaining: `Subject(model, patterns=p)` can stand wherever a model can.

    model: a module in eval mode, or any callable where no rule needs its parameters.
    patterns: layer name -> tensor of the weight's shape, for the methods with a pattern rule.
    at: the name of a layer whose output takes the place of the input: what is explained then is that output, which
        `inner` gives, and what the model itself takes comes behind it, as `forward_args`. Or a module; or several.
    side: "output", or "input" for what the layer is given. values: how many tensors each layer has there, if not one.
    names: what the model calls its inputs, where it takes them by name: ("inputs_embeds",).

    What is found out about a model (its memory format, whether it treats rows one by one, its digest, plans of it) is
    shared by all its subjects, found out once, and forgotten when its weights change.

    Raises PgigError, at the latest when something is explained, for a model that is still training, patterns that do
    not fit, and a layer that there is not.

    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3)).eval()
    >>> subject = pgig.Subject(model, at="0")
    >>> pgig.attribute("gradient", subject, subject.inner(torch.ones(1, 2)), forward_args=(torch.ones(1, 2),)).shape
    torch.Size([1, 4])
    """

    def __init__(
        self,
        model: Callable[..., Any],
        patterns: Mapping[str, Tensor] | None = None,
        *,
        at: str | nn.Module | Sequence[str | nn.Module] | None = None,
        side: Side = "output",
        values: Sequence[int] | None = None,
        names: Sequence[str] = (),
    ) -> None:
        if isinstance(model, Subject):
            raise PgigError("a Subject of a Subject: use with_patterns() to give it other patterns")
        self.model = without_compilation(model)
        check_kinds(self.model, patterns)
        self.patterns = patterns
        self.place = None if at is None else Place.of(self.model, at, side, values)
        self.names = tuple(names)
        if self.place is not None and names:
            raise PgigError("an inner place is the first input, and has no name: leave names out")
        self._known = _known(self.model)

    @property
    def at(self) -> str | None:
        """The name of the inner place."""
        return None if self.place is None else self.place.name

    @classmethod
    def of(cls, model: "Callable[..., Any] | Subject", patterns: Mapping[str, Tensor] | None = None) -> "Subject":
        """A subject as it is, or of a model; with these patterns, if there are any."""
        if not isinstance(model, Subject):
            return cls(model, patterns)
        return model.with_patterns(patterns) if patterns is not None else model.renewed()

    def with_patterns(self, patterns: Mapping[str, Tensor] | None) -> "Subject":
        """The same model with other patterns."""
        return self.like(self.model, patterns)

    def taking(self, names: Sequence[str]) -> "Subject":
        """The same, with inputs that go to the model by these names."""
        if self.place is not None:
            raise PgigError("an inner place is the first input, and has no name: leave names out")
        return Subject(self.model, self.patterns, names=names)

    def like(self, model: Callable[..., Any], patterns: Mapping[str, Tensor] | None = None) -> "Subject":
        """Another model, or the same, at the same place, with the same names."""
        if self.place is None:
            return Subject(model, patterns, names=self.names)
        place = self.place
        return Subject(model, patterns, at=place.layers, side=place.side, values=place.counts, names=self.names)

    def renewed(self) -> "Subject":
        """The same, having forgotten what does not hold any more."""
        self._known = _known(self.model)
        return self

    def __repr__(self) -> str:
        name = type(self.model).__name__ if isinstance(self.model, nn.Module) else repr(self.model)
        patterns = "" if self.patterns is None else f", patterns of {len(self.patterns)} layers"
        return f"Subject({name}{patterns}{'' if self.at is None else f', at {self.at!r}'})"

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """What the model gives; where there is an inner place, the first input takes the place of its output."""
        if self.names:
            named = {**dict(zip(self.names, inputs, strict=False)), **named}
            inputs = inputs[len(self.names) :]
        if self.place is None:
            return self.model(*inputs, **named)
        count = sum(self.place.counts)
        return run_from(self.model, self.place, inputs[:count], *inputs[count:], **named)

    def inner(self, *inputs: Any, **named: Any) -> Tensor | tuple[Tensor, ...]:
        """What is at the inner place: a tensor, or all of them where there are several."""
        found = tuple(value for layer in self.inner_by_layer(*inputs, **named) for value in layer)
        return found[0] if len(found) == 1 else found

    def inner_by_layer(self, *inputs: Any, **named: Any) -> list[tuple[Tensor, ...]]:
        """What is at each layer of the inner place."""
        if self.place is None:
            raise PgigError("this subject has no inner place: give at=, the name of a layer")
        return values_at(self.model, self.place, *inputs, **named)

    @property
    def module(self) -> nn.Module:
        """The model, where it is a module."""
        if not isinstance(self.model, nn.Module):
            raise PgigError(f"a module is needed here, to know its layers by name, got {type(self.model).__name__}")
        return self.model

    @property
    def digest(self) -> str:
        """Of all that the model has learnt, bit by bit."""
        return model_digest(self.module)

    @property
    def known_digest(self) -> str:
        """The digest as it was when the weights last looked other than before: quick, for every call."""
        look = quick_look(self.module)
        if self._known.digest is None or self._known.digest[0] != look:
            self._known.digest = look, self.digest
        return self._known.digest[1]

    def check(self, rules: Iterable[Rule]) -> None:
        """Refuse what cannot be explained under these rules, and patterns of other weights."""
        rules = list(rules)
        key = frozenset(rules), self.patterns is None
        if not isinstance(self.model, nn.Module) or key not in self._known.sound:
            check_model(self.model, rules, self.patterns)
            self._known.sound.add(key)
        if any(rule.needs_patterns for rule in rules):
            self.check_patterns()

    def check_patterns(self) -> None:
        """Refuse patterns that were estimated for other weights. Those without a digest are taken as they are.

        Patterns of a model also fit what is wrapped around it: its weights are known by their contents.
        """
        wanted = getattr(self.patterns, "digest", None)
        if wanted is None or wanted == (found := self.known_digest):
            return
        names, renamed = renaming(wanted, found), getattr(self.patterns, "renamed", None)
        if names is not None and renamed is not None:
            self.patterns = renamed(names, found)
            return
        raise PgigError(
            f"these patterns were estimated for other weights than this model's: {difference(wanted, found)}. "
            "Estimate them anew for this model, or pass dict(patterns) to use them all the same",
            lacks="own patterns",
        )

    def layers(self, channels_last: bool, with_patterns: bool = True) -> Layers:
        """The layers for one call. Parametrised weights: keep `parametrize.cached()` open."""
        patterns = self.patterns if with_patterns else None
        return Layers(self.model, patterns, channels_last, self._known.spare, self.recall("weights", list[Collected]))

    def runs_in_channels_last(
        self, inputs: Sequence[Tensor], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> bool:
        """Is that memory format the faster one for such inputs, and does it change nothing?"""
        might = self.recall("might be faster in channels_last", dict[Hashable, bool])
        kinds = tuple((x.dim(), x.dtype, x.device) for x in inputs)
        if kinds not in might:
            might[kinds] = is_faster_in_channels_last(self.model, inputs)
        if not might[kinds]:
            return False
        found = self.recall("channels_last", dict[Hashable, bool])
        key = self.place, self.names, *(x.shape[1:] for x in inputs)
        if key not in found:
            answer = is_same_in_channels_last(self.model, self, inputs, args, kwargs or {})
            if answer is None:  # what that means is asked elsewhere
                return False
            found[key] = answer
        return found[key]

    def recall(self, name: str, make: Callable[[], T]) -> T:
        """A place to keep what is found out under this name, made at first use, emptied when the weights change.

        It may not hold the model, which would then never be freed.
        """
        found: T = self._known.facts.setdefault(name, make())
        return found


def _known(model: object) -> _Known:
    try:
        known = _KNOWN.get(model)
        if known is None:
            known = _KNOWN[model] = _Known()
    except TypeError:  # what cannot be held weakly is looked at each time
        return _Known()
    if not isinstance(model, nn.Module):
        return known
    modules = modules_of(model)
    now = versions(modules)
    look = tuple([(id(m), m.training, len(m._forward_hooks), len(m._forward_pre_hooks)) for m in modules])
    if known.versions != now or known.modules != look:
        known.versions, known.modules, known.facts, known.sound = now, look, {}, set()
    return known
