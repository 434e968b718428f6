"""The engine: takes gradients at points, chunk by chunk, and sums up the terms of every method."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils import parametrize

from pgig.attribution.chunks import ChunkSize
from pgig.draws import draws
from pgig.errors import PgigError
from pgig.methods.points import Here, Points, Slice
from pgig.methods.rules import Rule
from pgig.methods.summaries import State
from pgig.methods.table import Method, Start
from pgig.network.checks import FAILURES, is_out_of_memory, uncompiled
from pgig.network.interception import RuleMode
from pgig.network.memory_format import formatted
from pgig.subject.context import BatchSize
from pgig.subject.inputs import Baseline, Inputs, PerInput, Tensors, checked_ids
from pgig.subject.rows import MixedRowsError, check_rows, why_not_one
from pgig.subject.scores import Explained, Score, Target
from pgig.subject.subject import Subject

Pass = tuple[Rule, Start]  # one backward pass


class Piece(NamedTuple):
    """The places of one input within a chunk."""

    row: int
    start: int
    stop: int


class Engine:
    def __init__(
        self,
        subject: Subject,
        inputs: Tensors,
        target: Target,
        *,
        score: Score,
        baseline: Baseline,
        references: Tensors | None,
        rules: set[Rule],
        seed: int,
        ids: Sequence[Hashable] | Tensor | None,
        batch_size: BatchSize,
        forward_args: Any,
        forward_kwargs: dict[str, Any] | None,
    ) -> None:
        self._inputs = Inputs(inputs, baseline, references)
        self._subject = subject
        subject.check(rules)
        self._explained = Explained(score, target, self._inputs.count, whole=batch_size == "whole")
        self._extra = PerInput(forward_args, forward_kwargs, self._inputs.count)
        self._ids = checked_ids(ids, self._inputs.count)
        self._seed = seed
        self._score = score
        self._whole = batch_size == "whole"
        self._one_by_one = batch_size == 1
        self._size = ChunkSize(self._inputs.count if batch_size == "whole" else batch_size, self._inputs.device)
        self._rules = rules

    @contextmanager
    def open(self) -> Iterator[None]:
        """Owns all that a run changes: grad mode and the rule mode, both gone at the end whatever happens."""
        with torch.inference_mode(False), torch.enable_grad(), parametrize.cached(), uncompiled():
            args, kwargs = self._extra.rows(torch.zeros(1, dtype=torch.long))
            self._channels_last = self._subject.runs_in_channels_last(self._inputs.members, args, kwargs)
            needs_patterns = any(rule.needs_patterns for rule in self._rules)
            self._layers = self._subject.layers(self._channels_last, with_patterns=needs_patterns)
            try:
                with RuleMode(self._layers, self._rules, self._channels_last) as self._mode:
                    yield
            finally:
                self._layers.close()

    def run(
        self, groups: Mapping[Points, Mapping[str, Method]], progress: Callable[[int, int], object]
    ) -> dict[str, Tensors]:
        for points, methods in groups.items():
            if points.needs_references and not self._inputs.has_references:
                names = ", ".join(methods)
                raise PgigError(f"{names} need references: pass references=, a tensor of inputs to draw from")
        if self._mixes_inputs(groups):
            check_rows(
                self._subject, self._inputs.members, self._inputs.at_baseline(), self._score, self._asked,
                alone=self._one_by_one,
            )  # fmt: skip
            return self._run(groups, progress)
        try:
            return self._run(groups, progress)
        except FAILURES as error:
            with torch.no_grad():
                fault = None if isinstance(error, PgigError) else why_not_one(self._inputs.members, self._asked)
            if fault is None:
                raise
            raise MixedRowsError(fault) from error

    def _mixes_inputs(self, groups: Mapping[Points, Mapping[str, Method]]) -> bool:
        """Does a pass hold other rows than the inputs as they were given, all or one?"""
        if self._whole:
            return False
        return self._inputs.count > 1 or (not self._one_by_one and any(points.count > 1 for points in groups))

    def _run(
        self, groups: Mapping[Points, Mapping[str, Method]], progress: Callable[[int, int], object]
    ) -> dict[str, Tensors]:
        results: dict[str, Tensors] = {}
        total = sum(points.count for points in groups) * self._inputs.count
        done = 0
        for points, methods in groups.items():
            if self._explained.is_open and not points.is_input:
                self._sums(Here(), {}, lambda _: None)
            self._mode.forget()
            sums = self._sums(points, methods, lambda now, before=done: progress(before + now, total))  # type: ignore[misc]
            done += points.count * self._inputs.count
            self._mode.check_acted({method.rule for method in methods.values()})
            for name, method in methods.items():
                results[name] = self._result(name, method, sums[name])
        return results

    def _sums(
        self, points: Points, methods: Mapping[str, Method], progress: Callable[[int], object]
    ) -> dict[str, list[State]]:
        states: dict[str, dict[int, State]] = {name: {} for name in methods}
        passes = list(dict.fromkeys((m.rule, m.start) for m in methods.values() if m.rule.backward))
        position, end = 0, points.count * self._inputs.count
        while position < end:
            stop = position + self._size.next(end - position)
            self._layers.check_held()
            pieces = self._pieces(points.count, position, stop)
            try:
                slices = self._places(points, pieces)
                gradients = self._gradients(pieces, slices, passes, points.is_input)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error) or stop - position == 1 or self._whole:
                    raise
                self._size.halve(stop - position)
                continue
            if position == 0:
                self._mode.check_any({rule for rule, _ in passes})
            _add_terms(states, methods, pieces, slices, gradients)
            position = stop
            progress(position)
        return {name: [rows[i] for i in range(self._inputs.count)] for name, rows in states.items()}

    def _pieces(self, count: int, start: int, stop: int) -> list[Piece]:
        """The places start..stop-1, of `count` for each input: input by input, or all inputs at the same place."""
        if self._whole:
            place = start // self._inputs.count
            return [Piece(row, place, place + 1) for row in range(self._inputs.count)]
        rows = range(start // count, -(-stop // count))
        return [Piece(row, max(start - row * count, 0), min(stop - row * count, count)) for row in rows]

    def _places(self, points: Points, pieces: list[Piece]) -> list[Slice]:
        return [
            points.take(self._inputs.example(row), draws(self._seed, self._ids[row], points), first, last)
            for row, first, last in pieces
        ]

    def _asked(self, inputs: Sequence[Tensor], rows: list[int]) -> Any:
        """What is explained of some inputs, which belong to the given rows."""
        args, kwargs = self._extra.rows(torch.tensor(rows))
        given = formatted([x.clone() for x in inputs], self._channels_last)
        with self._mode.forward():
            return self._explained.judged(self._subject(*given, *args, **kwargs))

    def _gradients(
        self, pieces: list[Piece], slices: list[Slice], passes: list[Pass], at_input: bool
    ) -> dict[Pass, Tensor]:
        rows = [row for row, first, last in pieces for _ in range(first, last)]
        leaves = [leaf.requires_grad_() for leaf in self._leaves(slices)]
        with (
            self._size.measured(leaves, self._subject.model),
            torch.set_grad_enabled(bool(passes) or not self._size.is_known),
        ):
            # the model gets copies: it may work in place, and a leaf may not be written to
            args, kwargs = self._extra.rows(torch.tensor(rows))
            with self._mode.forward():
                output = self._subject(*(leaf.clone() for leaf in leaves), *args, **kwargs)
            if at_input:
                self._explained.predict(output, rows)
            scores = self._explained(output, rows)
        if passes and not scores.requires_grad:
            raise PgigError("the score has no gradient: does the model use no_grad, or return whole numbers?")
        return {p: self._backward(scores, leaves, *p, keep=p is not passes[-1]) for p in passes}

    def _leaves(self, slices: list[Slice]) -> list[Tensor]:
        at = torch.cat([piece.at for piece in slices])
        parts = [part.detach() for part in self._inputs.for_model(at)]
        return formatted(parts, self._channels_last)

    def _backward(self, scores: Tensor, leaves: list[Tensor], rule: Rule, start: Start, *, keep: bool) -> Tensor:
        first = scores.detach() if start == "score" else torch.ones_like(scores)
        return self._inputs.joined(self._mode.gradients(rule, scores, leaves, first, keep_graph=keep))

    def _result(self, name: str, method: Method, states: list[State]) -> Tensors:
        attribution = torch.stack([method.summary.result(state) for state in states])
        if not attribution.isfinite().all():
            raise PgigError(f"{name} came out NaN or infinite: a gradient overflows, or is not defined at a point")
        return self._inputs.like_inputs(attribution)


def _add_terms(
    states: dict[str, dict[int, State]],
    methods: Mapping[str, Method],
    pieces: list[Piece],
    slices: list[Slice],
    gradients: Mapping[Pass, Tensor],
) -> None:
    for name, method in methods.items():
        gradient = gradients.get((method.rule, method.start))
        row = 0
        for piece, (at, scale, weight) in zip(pieces, slices, strict=True):
            terms = torch.ones_like(at) if gradient is None else gradient[row : row + len(at)]
            row += len(at)
            # half precision is summed in float32
            terms, weight = (t.float() if t.element_size() < 4 else t for t in (terms, weight))
            if method.multiply_by_input:
                terms = terms * scale
            states[name][piece.row] = method.summary.update(states[name].get(piece.row), terms, weight)
