"""The paper's stress test (figure 2): a plateau and a distractor in two dimensions.

The model reads x1 - x2 and is flat from 1 on. x1 carries the signal z; both inputs carry the same noise, which the
model subtracts. An explanation should follow the signal, also on the plateau, and leave the distractor alone.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from pgig.errors import PgigError
from pgig.explainers.methods import MethodExplainer
from pgig.explainers.protocol import Explainer
from pgig.explainers.registry import explainers
from pgig.explainers.together import explain_group
from pgig.methods.table import METHODS
from pgig.patterns.estimation import estimate_patterns
from pgig.subject.context import Context
from pgig.subject.subject import Subject

STRESS_METHODS = "integrated_gradients", "pattern_attribution", "pgig"
# A method follows the target if the mean |phi| of the signal on the plateau is within this share of the output there,
FOLLOWS = 0.25
# and leaves the distractor alone if the mean |phi| of the distractor is at most this share of integrated gradients'.
LEAVES_ALONE = 0.25


@dataclass(frozen=True)
class Verdict:
    signal: float  # mean |phi| of x1 on the plateau
    output: float  # mean |y| there
    distractor: float  # mean |phi| of x2
    distractor_of_ig: float

    @property
    def follows_target(self) -> bool:
        return abs(self.signal - self.output) <= FOLLOWS * self.output

    @property
    def leaves_distractor(self) -> bool:
        return self.distractor <= LEAVES_ALONE * self.distractor_of_ig


@dataclass(frozen=True)
class StressTest:
    """A signal and a distractor with the truth beside them, and what methods say of the two: see `stress_test`.

    z: the signal, [n]. x: the inputs, signal and distractor mixed, [n, 2]. target, y: what is to be predicted, and the
    model's answer, [n]. patterns: of its layers. attributions: by method, [n, 2]. integrated_gradients: the plain ones,
    whatever was asked for. A value; errors are those of `stress_test`.

    >>> test = pgig.synthetic.stress_test(["pgig", "integrated_gradients"])
    >>> verdicts = test.verdicts()
    >>> verdicts["pgig"].distractor < verdicts["integrated_gradients"].distractor
    True
    >>> list(test.columns())[:5]
    ['z', 'x1', 'x2', 'target', 'y']
    """

    z: Tensor  # [n], the signal
    x: Tensor  # [n, 2]
    target: Tensor  # [n], what the model would say without noise
    y: Tensor  # [n], what it says
    patterns: Mapping[str, Tensor]
    attributions: Mapping[str, Tensor]  # [n, 2] each
    integrated_gradients: Tensor  # [n, 2], the yardstick for the distractor

    def verdicts(self) -> dict[str, Verdict]:
        """What each method makes of signal and distractor."""
        plateau = self.x[:, 0] - self.x[:, 1] >= 1
        output = float(self.y[plateau].abs().mean())
        of_ig = float(self.integrated_gradients[:, 1].abs().mean())
        return {
            name: Verdict(float(a[plateau, 0].abs().mean()), output, float(a[:, 1].abs().mean()), of_ig)
            for name, a in self.attributions.items()
        }

    def columns(self) -> dict[str, Tensor]:
        """One row per sample, for a table."""
        found = {"z": self.z, "x1": self.x[:, 0], "x2": self.x[:, 1], "target": self.target, "y": self.y}
        for name, a in self.attributions.items():
            found |= {f"{name}_x1": a[:, 0], f"{name}_x2": a[:, 1]}
        return found


def stress_model() -> nn.Sequential:
    """y = 1 - ReLU(1 - (x1 - x2)), in float64."""
    model = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 1)).double()
    values = {"0.weight": [[-1.0, 1.0]], "0.bias": [1.0], "2.weight": [[-1.0]], "2.bias": [1.0]}
    model.load_state_dict({name: torch.tensor(value).double() for name, value in values.items()})
    return model.eval()


def stress_data(seed: int = 42) -> tuple[Tensor, Tensor]:
    """z, and x = (1, 0) z + (1, 1) noise. Seed 42 gives the inputs that the authors published."""
    if not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise PgigError(f"the seed must be in 0..2**32 - 1, got {seed}")
    noise = numpy.random.RandomState(seed).normal(0, 0.3, 400)
    z = numpy.arange(-2, 2, 0.01)
    return torch.from_numpy(z), torch.from_numpy(numpy.stack([z + noise, noise], 1))


def authors_patterns(x: Tensor) -> dict[str, Tensor]:
    """What the authors' code computed for figure 2: E+[x] / (w.E+[x]). (It averaged an outer product by mistake.)"""
    w = torch.tensor([-1.0, 1.0], dtype=x.dtype)
    mean = x[x @ w + 1 > 0].mean(0)
    return {"0": (mean / (w @ mean))[None], "2": torch.tensor([[-1.0]], dtype=x.dtype)}


def stress_test(
    methods: str | Sequence[str] | Mapping[str, Any] = STRESS_METHODS,
    *,
    seed: int = 42,
    steps: int = 100,
    patterns: Mapping[str, Tensor] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> StressTest:
    """The test with its data, model, patterns and attributions.

    methods: as `pgig.explain` takes them: names, methods, functions of (model, inputs, targets).
    patterns: without, estimated from the data; `authors_patterns(x)` reproduces the published figure.
    progress: called with (points done, points in all).
    seed: of the data. steps: of paths.

    Raises PgigError for methods that there are not, and patterns that do not fit.

    >>> pgig.synthetic.stress_test().verdicts()["pgig"].leaves_distractor
    True
    """
    found_by_name = explainers(methods)
    given = methods if isinstance(methods, Mapping) else found_by_name.keys()
    table = {
        # what is asked for by name is as in the paper; a Method value stays as it is
        name: _as_in_the_paper(explainer, steps) if _is_name(given, name) else explainer
        for name, explainer in found_by_name.items()
    }
    model = stress_model()
    z, x = stress_data(seed)
    found = estimate_patterns(model, [x]) if patterns is None else patterns
    yardstick = _as_in_the_paper(MethodExplainer(METHODS["integrated_gradients"]), steps)
    nothing = torch.zeros(len(x), dtype=torch.long)
    subject = Subject(model, found)
    ig = explain_group({"it": yardstick}, subject, x, nothing, Context(score="logit"))["it"]
    context = Context(score="logit", references=x, progress=progress)
    attributions = explain_group(table, subject, x, nothing, context)
    with torch.no_grad():
        y, target = model(x)[:, 0], model(torch.stack([z, torch.zeros_like(z)], 1))[:, 0]
    return StressTest(z, x, target, y, found, attributions, ig)


def _is_name(given: Collection[str] | Mapping[str, Any], name: str) -> bool:
    return isinstance(given[name], str) if isinstance(given, Mapping) else True


def _as_in_the_paper(explainer: Explainer, steps: int) -> Explainer:
    """PGIG starts from 1 in the stress test, and paths have its number of steps."""
    if not isinstance(explainer, MethodExplainer) or explainer != MethodExplainer(explainer.method):
        return explainer  # a variant says itself what it is
    start = "one" if explainer.method == METHODS["pgig"] else explainer.method.start
    return explainer.with_options(start=start, **({"steps": steps} if "steps" in explainer.options else {}))
