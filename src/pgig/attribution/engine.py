"""The engine: takes gradients at points, chunk by chunk, and sums up the terms of every method."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils import parametrize

from pgig.attribution.adaptive import adaptive_sums
from pgig.attribution.chunks import ChunkSize
from pgig.attribution.passes import Pass, Passed, Passes
from pgig.draws import draws
from pgig.errors import PgigError
from pgig.methods.adaptive import AdaptiveLine
from pgig.methods.points import Here, Points, Slice
from pgig.methods.rules import Rule
from pgig.methods.summaries import State, mean
from pgig.methods.table import Method
from pgig.network.checks import FAILURES, is_out_of_memory, uncompiled
from pgig.network.interception import UntrackedError
from pgig.subject.context import BatchSize
from pgig.subject.inputs import Baseline, Inputs, PerInput, Tensors, all_finite, checked_ids
from pgig.subject.rows import MixedRowsError, check_rows, why_not_one
from pgig.subject.scores import Explained, Score, Target
from pgig.subject.subject import Subject

Groups = Mapping[Points, Mapping[str, Method]]
Told = Callable[[int], object]  # points done


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
        self._passes = Passes(subject, self._inputs, self._explained, self._extra)
        self._ids = checked_ids(ids, self._inputs.count)
        self._seed = seed
        self._score = score
        self._whole = batch_size == "whole"
        self._one_by_one = batch_size == 1
        self._size = ChunkSize(self._inputs.count if batch_size == "whole" else batch_size, self._inputs.device)
        self._rules = rules
        self.spent: dict[str, list[int]] = {}  # gradients of each input, of methods that find their own number

    @contextmanager
    def open(self) -> Iterator[None]:
        """Owns all that a run changes: grad mode, cached weights, compilation; gone at the end whatever happens."""
        with torch.inference_mode(False), torch.enable_grad(), parametrize.cached(), uncompiled():
            yield

    def run(self, groups: Groups, progress: Callable[[int, int], object]) -> dict[str, Tensors]:
        for points, methods in groups.items():
            if points.needs_references and not self._inputs.has_references:
                names = ", ".join(methods)
                raise PgigError(f"{names} need references: pass references=, a tensor of inputs to draw from")
        total = sum(points.count for points in groups) * self._inputs.count
        try:
            with self._passes.ready(self._rules, total):
                return self._checked_run(groups, progress)
        except UntrackedError:
            self._passes.track_weights()
        with self._passes.ready(self._rules, total):
            return self._checked_run(groups, progress)

    def _checked_run(self, groups: Groups, progress: Callable[[int, int], object]) -> dict[str, Tensors]:
        if self._mixes_inputs(groups):
            check_rows(
                self._subject, self._inputs.members, self._inputs.at_baseline(), self._score, self._passes.asked,
                alone=self._one_by_one, further=self._extra.look,
            )  # fmt: skip
            return self._run(groups, progress)
        try:
            return self._run(groups, progress)
        except FAILURES as error:
            with torch.no_grad():
                ours = isinstance(error, PgigError)
                fault = None if ours else why_not_one(self._inputs.members, self._passes.asked)
            if fault is None:
                raise
            raise MixedRowsError(fault) from error

    def _mixes_inputs(self, groups: Groups) -> bool:
        """Does a pass hold other rows than the inputs as they were given, all or one?"""
        if self._whole:
            return False
        return self._inputs.count > 1 or (not self._one_by_one and any(points.count > 1 for points in groups))

    def _run(self, groups: Groups, progress: Callable[[int, int], object]) -> dict[str, Tensors]:
        results: dict[str, Tensors] = {}
        total = sum(points.count for points in groups) * self._inputs.count
        done = 0
        if not self._size.is_known:
            self._size.settle(self._passes.bytes_per_point() if total > 1 else 1)
        for points, methods in groups.items():
            if self._explained.is_open and not points.is_input:
                self._sums(Here(), {}, lambda _: None)
            self._passes.mode.forget()

            def told(now: int, before: int = done) -> None:
                progress(before + now, total)

            found = self._found(points, methods, told)
            done += points.count * self._inputs.count
            self._passes.mode.check_acted({method.rule for method in methods.values()})
            for name in methods:
                results[name] = self._result(name, found[name])
        return results

    def _found(self, points: Points, methods: Mapping[str, Method], told: Told) -> dict[str, Tensor]:
        if isinstance(points, AdaptiveLine):
            if self._whole:
                raise PgigError("steps='auto' decides for one input at a time: it cannot take whole batches")
            found, spent = adaptive_sums(points, methods, self._passes, self._inputs, self._size, told)
            self.spent |= dict.fromkeys(methods, spent)
            return found
        return self._at_inputs(methods, told) if _is_bare(points, methods) else self._sums(points, methods, told)

    def _at_inputs(self, methods: Mapping[str, Method], told: Told) -> dict[str, Tensor]:
        """What `_sums` gives where the only place is x itself: gradients, as they come, need no summing up."""
        passes = list(dict.fromkeys((m.rule, m.start) for m in methods.values()))
        parts: dict[Pass, list[Tensor]] = {p: [] for p in passes}
        count = self._inputs.count

        def places(start: int, stop: int) -> tuple[list[int], Tensor]:
            return list(range(start, stop)), self._inputs.some(start, stop)

        for _, stop, passed in self._chunks(count, places, passes, at_input=True):
            for one, gradient in passed.gradients.items():
                parts[one].append(gradient)
            told(stop)
        gathered = {one: torch.cat(several).contiguous() for one, several in parts.items()}
        found = {}
        for name, method in methods.items():
            terms = gathered[method.rule, method.start]
            terms = terms.float() if terms.element_size() < 4 else terms  # as half precision is summed up
            found[name] = terms * self._inputs.some(0, count) if method.multiply_by_input else terms
        return found

    def _sums(self, points: Points, methods: Mapping[str, Method], told: Told) -> dict[str, Tensor]:
        states: dict[str, dict[int, State]] = {name: {} for name in methods}
        passes = list(dict.fromkeys((m.rule, m.start) for m in methods.values() if m.rule.backward))
        slices: list[Slice] = []

        def places(start: int, stop: int) -> tuple[list[int], Tensor]:
            pieces = self._pieces(points.count, start, stop)
            slices[:] = self._places(points, pieces)
            rows = [row for row, first, last in pieces for _ in range(first, last)]
            return rows, torch.cat([piece.at for piece in slices])

        total = points.count * self._inputs.count
        for start, stop, passed in self._chunks(total, places, passes, points.is_input):
            _add_terms(states, methods, self._pieces(points.count, start, stop), slices, passed.gradients)
            told(stop)
        return {
            name: torch.stack([methods[name].summary.result(rows[i]) for i in range(self._inputs.count)])
            for name, rows in states.items()
        }

    def _chunks(
        self, total: int, places: Callable[[int, int], tuple[list[int], Tensor]], passes: list[Pass], at_input: bool
    ) -> Iterator[tuple[int, int, Passed]]:
        """The places 0..total-1 in chunks, each with what came of it. One that is out of memory is halved."""
        position = 0
        while position < total:
            stop = position + self._size.next(total - position)
            try:
                rows, at = places(position, stop)
                passed = self._passes.gradients(rows, at, passes, at_input)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error) or stop - position == 1 or self._whole:
                    raise
                self._size.halve(stop - position)
                continue
            if position == 0:
                self._passes.mode.check_any({rule for rule, _ in passes})
            yield position, stop, passed
            position = stop

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

    def _result(self, name: str, attribution: Tensor) -> Tensors:
        if not all_finite(attribution):
            raise PgigError(f"{name} came out NaN or infinite: a gradient overflows, or is not defined at a point")
        return self._inputs.like_inputs(attribution)


def _is_bare(points: Points, methods: Mapping[str, Method]) -> bool:
    """Gradients at x itself, which are what they are: no weights, no draws, no summing up."""
    return isinstance(points, Here) and all(m.summary is mean and m.rule.backward for m in methods.values())


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
