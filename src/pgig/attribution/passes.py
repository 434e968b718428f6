"""Passes: a model made ready for forward and backward passes under rules, at places of some inputs."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pgig.attribution.chunks import Kept, expect_large_blocks
from pgig.errors import PgigError
from pgig.methods.rules import Rule
from pgig.methods.table import Start
from pgig.network.interception import RuleMode
from pgig.network.memory_format import formatted
from pgig.subject.inputs import Inputs, PerInput
from pgig.subject.scores import Explained
from pgig.subject.subject import Subject

Pass = tuple[Rule, Start]  # one backward pass
_MANY_POINTS = 4


class Passed(NamedTuple):
    """What came of some places."""

    scores: Tensor  # [n], or [1] of a whole batch
    gradients: dict[Pass, Tensor]  # [n, *input] each


class Passes:
    def __init__(self, subject: Subject, inputs: Inputs, explained: Explained, extra: PerInput) -> None:
        self._subject, self._inputs, self._explained, self._extra = subject, inputs, explained, extra

    @contextmanager
    def ready(self, rules: Iterable[Rule], points: int) -> Iterator[None]:
        """Layers in their memory format, and the mode that rules act by, for a call of so many points."""
        expect_large_blocks()
        args, kwargs = self._extra.rows([0])
        rules = list(rules)
        # for a few points, putting the weights into another format takes longer than it saves
        self._channels_last = points >= _MANY_POINTS and self._subject.runs_in_channels_last(
            self._inputs.members, args, kwargs
        )
        needs_patterns = any(rule.needs_patterns for rule in rules)
        self.layers = self._subject.layers(self._channels_last, with_patterns=needs_patterns)
        computes_weights = self._subject.recall("computes weights", list[bool])
        try:
            self.mode = RuleMode(self.layers, rules, self._channels_last, tracks=bool(computes_weights))
            yield
        finally:
            self.layers.close()

    def track_weights(self) -> None:
        """From now on, follow what this model computes from its weights."""
        self._subject.recall("computes weights", list[bool]).append(True)

    def asked(self, inputs: Sequence[Tensor], rows: list[int]) -> Any:
        """What is explained of some inputs, which belong to the given rows."""
        return self._explained.judged(self._output(formatted([x.clone() for x in inputs], self._channels_last), rows))

    def gradients(self, rows: list[int], at: Tensor, passes: list[Pass], at_input: bool) -> Passed:
        """At places [n, *input], of the inputs in `rows`."""
        self.layers.check_held()
        leaves = self._leaves(at)
        with torch.set_grad_enabled(bool(passes)):
            # the model gets copies: it may work in place, and a leaf may not be written to
            output = self._output([leaf.clone() for leaf in leaves], rows)
            if at_input:
                self._explained.predict(output, rows)
            scores = self._explained(output, rows)
        if passes and not scores.requires_grad:
            raise PgigError("the score has no gradient: does the model use no_grad, or return whole numbers?")
        found = {p: self._backward(scores, leaves, *p, keep=p is not passes[-1]) for p in passes}
        return Passed(scores.detach(), found)

    def bytes_per_point(self) -> int:
        """What autograd keeps of one input: found out once per model and shape, so that equal calls are cut alike."""
        found = self._subject.recall("bytes per point", dict[Hashable, int])
        shapes = tuple((x.shape[1:], x.dtype) for x in self._inputs.members)
        key = shapes, self._subject.place, self._subject.names, self._channels_last, self.mode.kind
        if key not in found:
            leaves, kept = self._leaves(self._inputs.some(0, 1)), Kept()
            with kept.watching(self._subject.model):
                self._output([leaf.clone() for leaf in leaves], [0])
            found[key] = kept.bytes_per_row(leaves)
        return found[key]

    def _output(self, given: list[Tensor], rows: list[int]) -> Any:
        args, kwargs = self._extra.rows(rows)
        with self.mode, self.mode.forward():
            return self._subject(*given, *args, **kwargs)

    def _leaves(self, at: Tensor) -> list[Tensor]:
        parts = formatted([part.detach() for part in self._inputs.for_model(at)], self._channels_last)
        # what was made under inference_mode has no gradients: a copy of it has
        return [(part.clone() if part.is_inference() else part).requires_grad_() for part in parts]

    def _backward(self, scores: Tensor, leaves: list[Tensor], rule: Rule, start: Start, *, keep: bool) -> Tensor:
        first = scores.detach() if start == "score" else torch.ones_like(scores)
        return self._inputs.joined(self.mode.gradients(rule, scores, leaves, first, keep_graph=keep))
