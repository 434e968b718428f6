"""Adaptive paths: every input's places are decided by what was found at those before, in rounds of all inputs."""

import warnings
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from pgig.attribution.chunks import ChunkSize
from pgig.attribution.passes import Pass, Passes
from pgig.errors import PgigWarning
from pgig.methods.adaptive import AdaptiveLine, Refinement, alpha_of
from pgig.methods.table import Method
from pgig.network.checks import is_out_of_memory
from pgig.subject.inputs import Inputs

_INPUTS = 8  # at a time: the gradients of all places of their paths are kept


def adaptive_sums(
    points: AdaptiveLine,
    methods: Mapping[str, Method],
    passes: Passes,
    inputs: Inputs,
    size: ChunkSize,
    told: Callable[[int], object],
) -> tuple[dict[str, Tensor], list[int]]:
    """Attributions by name, and the gradients that each input took.

    What is decided for one input depends on it alone; a few inputs at a time share their passes.
    """
    found: dict[str, list[Tensor]] = {name: [] for name in methods}
    spent: list[int] = []
    missed = 0
    for first in range(0, inputs.count, _INPUTS):
        rows = range(first, min(first + _INPUTS, inputs.count))
        paths = [_Path(points, inputs, row) for row in rows]
        _walk(paths, methods, passes, size, is_first=first == 0)
        for name, method in methods.items():
            found[name] += [path.summed(method) for path in paths]
        spent += [len(path.kept) for path in paths]
        missed += sum(not path.refinement.reached for path in paths)
        told(points.count * len(spent))
    if missed:
        warnings.warn(
            f"steps='auto': {missed} of {inputs.count} inputs are not within the tolerance of {points.tolerance:g} "
            f"after {max(spent)} gradients: the score bends too often on the way",
            PgigWarning,
            stacklevel=7,
        )
    return {name: torch.stack(several) for name, several in found.items()}, spent


def _walk(paths: "list[_Path]", methods: Mapping[str, Method], passes: Passes, size: ChunkSize, is_first: bool) -> None:
    wanted = list(dict.fromkeys((m.rule, m.start) for m in methods.values()))
    while asked := [(path, place) for path in paths for place in path.refinement.wanted()]:
        while asked:
            some = asked[: size.next(len(asked))]
            at = torch.stack([path.at(place) for path, place in some])
            try:
                passed = passes.gradients([path.row for path, _ in some], at, wanted, at_input=False)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error) or len(some) == 1:
                    raise
                size.halve(len(some))
                continue
            asked = asked[len(some) :]
            if is_first:
                passes.mode.check_any({rule for rule, _ in wanted})
                is_first = False
            for number, (path, place) in enumerate(some):
                gradients = {one: gradient[number] for one, gradient in passed.gradients.items()}
                path.add(place, float(passed.scores[number]), gradients)
        for path in paths:
            path.refine()


class _Path:
    """One input's way from the baseline to x."""

    def __init__(self, points: AdaptiveLine, inputs: Inputs, row: int) -> None:
        self.row, self.refinement = row, Refinement(points)
        self.kept: dict[int, dict[Pass, Tensor]] = {}  # bounded by the most places that a path may have
        example = inputs.example(row)
        self._x, self._baseline = example.x, example.baseline
        self._ended = False

    def at(self, place: int) -> Tensor:
        return torch.lerp(self._baseline, self._x, alpha_of(place))

    def add(self, place: int, score: float, gradients: dict[Pass, Tensor]) -> None:
        first = next(iter(gradients.values()))
        slope = float((first.double() * (self._x - self._baseline).double()).sum())
        self.kept[place] = gradients
        self.refinement.add(place, score, slope)

    def refine(self) -> None:
        self._ended = self._ended or not self.refinement.refine()

    def summed(self, method: Method) -> Tensor:
        places, weights = self.refinement.weights()
        terms = torch.stack([self.kept[place][method.rule, method.start] for place in places])
        terms = terms.float() if terms.element_size() < 4 else terms
        terms = terms * (self._x - self._baseline) if method.multiply_by_input else terms
        share = torch.from_numpy(weights).to(terms)
        return method.summary.result(method.summary.update(None, terms, share))
