"""Signal quality (Kindermans et al. 2017): how much of a unit's output is left in what a direction does not explain.

With a direction p, the signal in x is p y, and the rest is x - p y. If a linear readout of the rest still predicts y,
the direction missed part of the signal: rho = 1 - (correlation of y with its best prediction from the rest). Where a
layer feeds a ReLU, this is measured on the samples in which the unit is active: the others pass nothing on.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from pgig.errors import PgigError
from pgig.methods.rules import plain
from pgig.network.checks import FAILURES
from pgig.network.convolution import Convolution
from pgig.network.interception import RuleMode
from pgig.network.layer_calls import LayerCall, Operation
from pgig.network.layer_mode import LayerMode
from pgig.network.layers import Layers
from pgig.network.product import Product
from pgig.network.trace import trace
from pgig.network.traced import TracedLayer
from pgig.network.unit_layout import Form
from pgig.patterns.samples import Call, Further, FurtherNamed, call_of, checked_batches
from pgig.subject.subject import Subject

_FEWEST = 50  # samples of a unit
_RIDGE = 1e-3  # of the mean variance: keeps the readout from learning single samples by heart


@dataclass(frozen=True)
class SignalQuality:
    """The median of rho over the units looked at, for three directions; 1 is best."""

    weight: float
    pattern: float
    random: float


def signal_quality(
    model: nn.Module | Subject,
    patterns: Mapping[str, Tensor],
    batches: Iterable[Any],
    *,
    units: int = 8,
    windows: int = 1000,
    seed: int = 0,
    forward_args: Further = (),
    forward_kwargs: FurtherNamed | None = None,
) -> dict[str, SignalQuality]:
    """rho of every layer with a pattern, on data that the patterns have not seen.

    `units` per layer and `windows` (or rows) of its input are drawn at random; one half of the windows fits the
    readout, the other measures it. `forward_args` and `forward_kwargs` as for `estimate_moments`.

    Gives by layer the median rho of the weight, the pattern and a random direction; 1 is best.

    batches: the data. seed: of the draws.

    Raises PgigError for patterns of other weights, and for data that does not fit.

    >>> model, data = torch.nn.Linear(4, 3).eval(), torch.randn(800, 4)
    >>> patterns = pgig.estimate_patterns(model, [data])
    >>> rho = pgig.signal_quality(model, patterns, [torch.randn(800, 4)])["weight" if "weight" in patterns else ""]
    >>> rho.pattern > rho.random
    True
    """
    subject = Subject.of(model, patterns)
    subject.check_patterns()  # and finds the names of layers in a wrapper
    assert subject.patterns is not None
    directions = {name: {"pattern": pattern} for name, pattern in subject.patterns.items()}
    drawn = Drawn(units, windows, seed)
    found = direction_qualities(model, directions, batches, drawn, (forward_args, forward_kwargs))
    return {name: SignalQuality(**rho) for name, rho in found.items()}


class Drawn(NamedTuple):
    """What is drawn at random of every layer."""

    units: int = 8
    windows: int = 1000
    seed: int = 0


def direction_qualities(
    model: nn.Module | Subject,
    directions: Mapping[str, Mapping[str, Tensor]],
    batches: Iterable[Any],
    drawn: Drawn,
    further: tuple[Further, FurtherNamed | None] = ((), None),
) -> dict[str, dict[str, float]]:
    """rho by layer and direction: of those given, shaped like the weight, and of the weight and a random one."""
    subject = Subject.of(model)
    subject.check([plain])
    model = subject.module
    generator = torch.Generator().manual_seed(drawn.seed)
    with torch.no_grad(), parametrize.cached():
        layers = Layers(model, None, channels_last=False)
        sampling: _Sampling | None = None
        for batch in checked_batches(batches):
            call = call_of(batch, *further)
            if sampling is None:
                sampling = _Sampling(layers, _traced(model, call), set(directions), drawn, generator)
            args = [value.clone() if isinstance(value, Tensor) else value for value in call.args]
            with _failing(call), RuleMode(layers, [plain], channels_last=False), sampling:
                model(*args, **call.kwargs)
        if sampling is None:
            raise PgigError("no data: the batches are empty")
        return {
            name: _quality(sample, directions[name], generator) for name, sample in sampling.samples.items() if sample.x
        }


def _traced(model: nn.Module, call: Call) -> Mapping[str, TracedLayer]:
    first = call.first_row()
    with _failing(call):
        return trace(model, *first.args, **first.kwargs).layers


@contextmanager
def _failing(call: Call) -> Iterator[None]:
    try:
        yield
    except FAILURES as error:
        if isinstance(error, PgigError):
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise PgigError(f"the model failed on a held-out batch of shape {tuple(call.x.shape)}: {reason}") from error


@dataclass
class _Sample:
    form: Form
    weight: Tensor
    units: Tensor
    x: list[Tensor]  # [n, units, fan_in]
    active: list[Tensor]  # [n, units]: does the sample count?


class _Sampling(LayerMode):
    def __init__(
        self,
        layers: Layers,
        traced: Mapping[str, TracedLayer],
        names: set[str],
        drawn: Drawn,
        generator: torch.Generator,
    ) -> None:
        super().__init__(layers)
        self._traced = traced
        self.samples: dict[str, _Sample] = {}
        self._names, self._windows, self._units = names, drawn.windows, drawn.units
        self._generator = generator

    def _layer(self, func: Operation, call: LayerCall) -> Tensor:
        y = call.run(call.x)
        if call.layer.name in self._names:
            self._draw(call)
        return call.as_given(y)

    def _draw(self, call: LayerCall) -> None:
        form = self._traced[call.layer.name].form
        if form is None:
            return
        sample = self.samples.get(call.layer.name)
        if sample is None:
            rows = form.rows(call.layer.original)
            units = torch.randperm(len(rows), generator=self._generator)[: self._units]
            sample = self.samples[call.layer.name] = _Sample(form, rows[units].double(), units, [], [])
        missing = self._windows - sum(len(x) for x in sample.x)
        if missing <= 0:
            return
        # a few windows per image: neighbours tell the same
        each = min(missing, 50 * len(call.x))
        if isinstance(call.geometry, Product):
            rows = call.geometry.rows(call.x)
            pick = torch.randperm(len(rows), generator=self._generator)[:each]
            x = rows[pick].double()[:, None].expand(-1, len(sample.units), -1)
        else:
            assert isinstance(call.geometry, Convolution)
            x = call.geometry.windows(call.x, call.used.shape, sample.units, each, self._generator).double()
        sample.x.append(x)
        sample.active.append(self._active(call, (x * sample.weight).sum(2), sample.units))

    def _active(self, call: LayerCall, y: Tensor, units: Tensor) -> Tensor:
        traced = self._traced[call.layer.name]
        if not traced.is_rectified:
            return torch.ones_like(y, dtype=torch.bool)
        y = y if call.bias is None else y + call.bias[units]
        y = y if traced.bias is None else y + traced.bias[units]
        return (y if traced.norm is None else y * traced.norm.factor[units] + traced.norm.shift[units]) > 0


def _quality(sample: _Sample, given: Mapping[str, Tensor], generator: torch.Generator) -> dict[str, float]:
    x, active = torch.cat(sample.x), torch.cat(sample.active)
    order = torch.randperm(len(x), generator=generator)
    x, active = x[order], active[order]
    w = sample.weight
    y = (x * w).sum(2)
    random = torch.randn(w.shape, generator=generator, dtype=torch.float64)
    directions = {
        "weight": w / w.square().sum(1, keepdim=True),
        **{name: _along(sample.form.rows(p.detach().cpu()).double()[sample.units], w) for name, p in given.items()},
        "random": random / (random * w).sum(1, keepdim=True),
    }
    found = {
        name: [
            _rho(x[active[:, u], u], y[active[:, u], u], direction[u])
            for u in range(len(w))
            if bool(direction[u].any()) and int(active[:, u].sum()) >= _FEWEST
        ]
        for name, direction in directions.items()
    }
    # NaN: too few samples to tell
    return {name: float(torch.tensor(rho).median()) if rho else float("nan") for name, rho in found.items()}


def _along(direction: Tensor, w: Tensor) -> Tensor:
    """With w.p = 1: patterns have that for the weight with a batch norm folded in, which y here is without."""
    along = (direction * w).sum(1, keepdim=True)
    return direction / torch.where(along == 0, 1.0, along)


def _rho(x: Tensor, y: Tensor, direction: Tensor) -> float:
    rest = x - y[:, None] * direction
    half = len(x) // 2
    fitted, fitted_y = rest[:half] - rest[:half].mean(0), y[:half] - y[:half].mean()
    test, test_y = rest[half:] - rest[:half].mean(0), y[half:] - y[half:].mean()
    gram = fitted @ fitted.T
    ridge = _RIDGE * gram.diagonal().mean() + 1e-300
    prediction = test @ (fitted.T @ torch.linalg.solve(gram + ridge * torch.eye(half, dtype=x.dtype), fitted_y))
    prediction = prediction - prediction.mean()
    scale = prediction.norm() * test_y.norm()
    return 1 - float((prediction @ test_y).abs() / scale) if scale != 0 else 1.0
