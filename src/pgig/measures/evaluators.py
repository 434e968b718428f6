"""Which evaluator a run uses: the incremental one where it can be had, agrees with the dense one and pays."""

import copy
from dataclasses import dataclass
from pathlib import Path

import numpy
import torch
from torch import Tensor, nn

from pgig.degradation import DenseEvaluator, Evaluator, PatchGrid, Protocol, scored_by
from pgig.degradation.dense import score_of
from pgig.draws import draws
from pgig.errors import PgigError
from pgig.incremental import IncrementalEvaluator, Plan, TracingError
from pgig.incremental.agreement import agrees
from pgig.incremental.cost import some_boxes, time_gain
from pgig.incremental.kept_plans import plan_for
from pgig.incremental.plan import Boxes
from pgig.incremental.windows import Windows
from pgig.network.outputs import answer_of
from pgig.subject.subject import Subject

EVALUATORS = "auto", "dense", "incremental"
DENSE_BATCH = 4  # forward passes at once: more are no faster on a CPU
MOST_ROWS = 88  # pairs of image and method at once: a part of eight images by the paper's methods
_WORTH = 1.1  # times faster, by the cost model: less is within what it can tell
_TOLERANCE = 1e-5  # of a score
_CHECKED_STEPS = 5
_SHARE = 0.25  # of the free memory, for kept activations


@dataclass(frozen=True)
class Chosen:
    evaluator: Evaluator
    note: str  # what was chosen, and why
    batch_size: int
    bytes: int  # that it will take, about
    doubt: str | None = None  # what speaks against trusting the incremental one


@dataclass(frozen=True)
class Wish:
    """What is asked of an evaluator."""

    name: str = "auto"
    score: str = "probability"
    batch_size: int | None = None
    memory: float | None = None  # GB, for all workers
    workers: int = 1
    pairs: int | None = None  # of image and method that there are at once, at most

    @property
    def most_rows(self) -> int:
        return MOST_ROWS if self.pairs is None else self.pairs

    def __post_init__(self) -> None:
        if self.name not in EVALUATORS:
            raise PgigError(f"unknown evaluator {self.name!r}; choose one of: {', '.join(EVALUATORS)}")
        if self.memory is not None and not 0 < self.memory < float("inf"):
            raise PgigError(f"memory must be above zero, got {self.memory}")


def choose(wish: Wish, model: nn.Module | Subject, x: Tensor, protocol: Protocol) -> Chosen:
    """x: one image, [1, channels, height, width], on which evaluators are compared over a few steps."""
    subject = Subject.of(model)
    model = subject.module
    dense = _dense(wish, model, x)
    if wish.name == "dense":
        return dense
    try:
        plan = plan_for(subject, x)
    except TracingError as error:
        if wish.name == "incremental":
            raise PgigError(f"the incremental evaluator cannot take this model: {error}") from error
        return _but(dense, str(error))
    grid = protocol.grid(x)
    gain, faster = arithmetic_gain(plan, grid), expected_gain(plan, grid)
    if wish.name == "auto" and faster < _WORTH:
        told = f"{gain:.1f} times fewer multiply-adds, {faster:.1f} times faster by the cost model"
        return _but(dense, "; ".join([f"incremental inference would save little here: {told}", *plan.reasons]))
    rows = wish.batch_size or affordable_rows(plan, _bytes(wish.memory), wish.workers)
    evaluator = IncrementalEvaluator(
        plan, lambda output, targets: score_of(output, targets, wish.score), rows, dense.evaluator
    )
    if doubt := _doubt(plan, model, x, grid) or _difference(evaluator, dense.evaluator, model, x, protocol, grid):
        return _but(dense, doubt, doubt)
    size, held = plan.bytes_per_row, min(rows, wish.most_rows)
    note = (
        f"incremental: {gain:.1f} times fewer multiply-adds, about {faster:.1f} times faster, "
        f"{size / 2**20:.0f} MB for an image and method, {rows} of them at once"
    )
    return Chosen(evaluator, "; ".join([note, *plan.reasons]), rows, held * size + plan.working_bytes(held))


def arithmetic_gain(plan: Plan, grid: PatchGrid) -> float:
    """Multiply-adds of whole forward passes over those of windows, on average over patches."""
    each = float(plan.estimated_work(_boxes(grid)).mean())
    return (plan.dense_work + plan.rest_work) / max(1.0, each + plan.rest_work)


def expected_gain(plan: Plan, grid: PatchGrid) -> float:
    """How many times faster windows are, by a cost model of fixed numbers."""
    return time_gain(plan, some_boxes(_boxes(grid), MOST_ROWS))


def _boxes(grid: PatchGrid) -> Boxes:
    places = [grid.place(index) for index in range(len(grid))]
    return numpy.array([[[down.start, down.stop], [across.start, across.stop]] for down, across in places])


def affordable_rows(plan: Plan, memory: int, workers: int) -> int:
    return max(1, min(MOST_ROWS, memory // workers // plan.bytes_per_row))


def free_memory() -> int:
    """Bytes that can be had without swapping; a guess where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return 8 * 2**30


def _dense(wish: Wish, model: nn.Module, x: Tensor) -> Chosen:
    batch = wish.batch_size or DENSE_BATCH
    fast = copy.deepcopy(model).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    evaluator = DenseEvaluator(scored_by(fast, wish.score), batch)
    size = 3 * min(batch, wish.most_rows) * _largest(model, x)
    return Chosen(evaluator, f"dense: whole forward passes, {batch} at once", batch, size)


def _but(dense: Chosen, reason: str, doubt: str | None = None) -> Chosen:
    return Chosen(dense.evaluator, f"{dense.note} ({reason})", dense.batch_size, dense.bytes, doubt)


def _bytes(memory: float | None) -> int:
    return int(_SHARE * free_memory() if memory is None else memory * 2**30)


@torch.inference_mode()
def _doubt(plan: Plan, model: nn.Module, x: Tensor, grid: PatchGrid) -> str | None:
    """Why not to trust a plan: with noise in patches at corners, borders and inside it says other than the model."""
    rows, columns = grid.rows, grid.columns
    places = {0, columns - 1, len(grid) - 1, columns // 2, rows // 2 * columns, rows // 2 * columns + columns // 2}
    noise = 3 * torch.randn(x.shape, generator=draws(0, 0, "evaluators")(1), dtype=torch.float32).to(x)
    now = x.clone()
    intact = answer_of(model(now.clone()))
    try:
        plan.allocate(1, x.device)
        plan.begin(x, [1])
        for place in sorted(places):
            down, across = grid.place(place)
            now[:, :, down, across] = noise[:, :, down, across]
            starts = numpy.array([down.start]), numpy.array([across.start])
            plan.replace(numpy.array([0]), Windows(starts, (grid.patch, grid.patch)), noise[:, :, down, across])
            box = numpy.array([[[down.start, down.stop], [across.start, across.stop]]])
            plan.update(numpy.array([0]), box)
            wanted = answer_of(model(now.clone()))
            found = plan.result(slice(0, 1))
            if not agrees(found, wanted, intact):
                difference = float((found - wanted).abs().max())
                return f"the incremental evaluator differs from the model by {difference:.1g} on the first image"
    except Exception as error:  # an operator can meet what it was not made for in any way
        return _failure(error)
    return None


def _failure(error: Exception) -> str:
    reason = str(error).splitlines()[0] if str(error) else "no reason given"
    return f"the incremental evaluator failed ({type(error).__name__}: {reason})"


def _difference(
    incremental: Evaluator, dense: Evaluator, model: nn.Module, x: Tensor, protocol: Protocol, grid: PatchGrid
) -> str | None:
    """Whether its curve over a few steps in a random order is another than the dense one's."""
    order = torch.randperm(len(grid), generator=draws(0, 0, "evaluators")(0))
    steps = min(_CHECKED_STEPS, protocol.steps)
    rankings = order[: steps * protocol.patches_per_step].reshape(1, 1, steps, protocol.patches_per_step)
    with torch.no_grad():
        targets = answer_of(model(x.clone())).argmax(1)
    filled = protocol.filled(x, grid)
    wanted = dense.curves(x, filled, rankings, targets, grid)
    try:
        found = incremental.curves(x, filled, rankings, targets, grid)
    except Exception as error:  # as above
        return _failure(error)
    difference = float(((found - wanted).abs() / wanted.abs().clamp(min=1)).max())
    if difference <= _TOLERANCE:
        return None
    return f"the incremental evaluator differs from the dense one by {difference:.1g} on the first image"


def _largest(model: nn.Module, x: Tensor) -> int:
    """The largest output of a module for one image, in bytes."""
    found = [0]

    def note(_: nn.Module, __: object, output: object) -> None:
        if isinstance(output, Tensor):
            found.append(output.numel() * output.element_size())

    hooks = [module.register_forward_hook(note) for module in model.modules()]
    try:
        with torch.no_grad():
            model(x.clone())
    finally:
        for hook in hooks:
            hook.remove()
    return max(found)
