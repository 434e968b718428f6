"""Adaptive paths: every input's places are decided by what was found at those before, in rounds of all inputs."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from pgig.attribution.passes import Pass, Passes
from pgig.methods.adaptive import AdaptiveLine, Refinement, alpha_of
from pgig.methods.table import Method
from pgig.subject.inputs import Inputs

Chunked = Callable[[int], int]  # how many of the remaining places come next


def adaptive_sums(
    points: AdaptiveLine,
    methods: Mapping[str, Method],
    passes: Passes,
    inputs: Inputs,
    next_chunk: Chunked,
    told: Callable[[int], object],
) -> tuple[dict[str, Tensor], list[int]]:
    """Attributions by name, and the gradients that each input took.

    What is decided for one input depends on it alone; the inputs only share their passes.
    """
    wanted = list(dict.fromkeys((m.rule, m.start) for m in methods.values()))
    paths = [_Path(points, inputs, row) for row in range(inputs.count)]
    done = 0
    while asked := [(path, place) for path in paths for place in path.refinement.wanted()]:
        while asked:
            some = asked[: next_chunk(len(asked))]
            asked = asked[len(some) :]
            at = torch.stack([path.at(place) for path, place in some])
            passed = passes.gradients([path.row for path, _ in some], at, wanted, at_input=False)
            if done == 0:
                passes.mode.check_any({rule for rule, _ in wanted})
            for number, (path, place) in enumerate(some):
                gradients = {one: gradient[number] for one, gradient in passed.gradients.items()}
                path.add(place, float(passed.scores[number]), gradients)
            done += len(some)
            told(done)
        for path in paths:
            path.refine()
    found = {name: torch.stack([path.summed(method) for path in paths]) for name, method in methods.items()}
    return found, [len(path.kept) for path in paths]


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
