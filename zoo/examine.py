"""One model of the zoo, through all that pgig does with it."""

import copy
import time
import traceback
import warnings
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy
import torch
from families import Family, given
from torch import Tensor, nn

import pgig
from pgig.degradation import PatchGrid
from pgig.errors import PgigError
from pgig.explaining.example import embedding_of
from pgig.explaining.self_test import _Watching
from pgig.incremental import TracingError, plan_of
from pgig.incremental.windows import Windows
from pgig.measures.evaluators import arithmetic_gain
from pgig.network.outputs import answer_of
from pgig.network.trace import trace

ROWS = 16  # for patterns
CLOSE = {torch.float64: 1e-8, torch.float32: 2e-3}  # of the largest value


@dataclass
class Found:
    """What came of one family."""

    source: str
    name: str
    variant: str
    parameters: int = 0
    gates: dict[str, int] = field(default_factory=dict)
    coverage: float = 0.0
    paths: float = 1.0  # on which branches come together
    check_seconds: float = 0.0
    largest: float = 0.0  # |attribution| of pattern attribution, over that of the gradient
    plan: str = ""  # multiply-adds saved, or why there is no plan
    right: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    crashed: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def verdict(self) -> str:
        return next((word for word in ("crashed", "wrong", "refused") if getattr(self, word)), "right")


def examine(family: Family) -> dict[str, Any]:
    torch.manual_seed(0)
    began = time.perf_counter()
    found = Found(family.source, family.name, family.variant)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = _enlivened(family.make().eval())
        found.parameters = sum(parameter.numel() for parameter in model.parameters())
        for step in (_check, _gradients, _guided, _patterns, _plan):
            try:
                step(family, model, found)
            except PgigError as error:
                found.refused.append(f"{step.__name__[1:]}: {error}")
            except Exception as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{place.filename.split('/')[-1]}:{place.lineno}"
                reason = (str(error).splitlines() or [""])[0]
                found.crashed.append(f"{step.__name__[1:]}: {type(error).__name__}: {reason} ({where})")
    found.seconds = time.perf_counter() - began
    return {**asdict(found), "verdict": found.verdict}


def _enlivened(model: nn.Module) -> nn.Module:
    """Norms with statistics, and scales that are not zero: fresh models let nothing through some branches."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            if name.endswith("running_mean"):
                tensor.normal_(0, 0.1, generator=generator)
            elif name.endswith("running_var"):
                tensor.uniform_(0.5, 2, generator=generator)
            elif (tensor.is_floating_point() and tensor.dim() <= 1 and tensor.numel() and not bool(tensor.any())) or (
                isinstance(tensor, nn.Parameter) and tensor.numel() and float(tensor.abs().max()) < 1e-3
            ):
                tensor.uniform_(-0.1, 0.1, generator=generator)
    return model


def _check(family: Family, model: nn.Module, found: Found) -> None:
    began = time.perf_counter()
    report = pgig.check(model, given(family.example(1)))
    found.check_seconds = time.perf_counter() - began
    found.coverage = report.covered
    example = given(family.example(1))
    found.paths = (trace(model, example) if isinstance(example, Tensor) else trace(model, **example)).paths
    for row in report.rows:
        if row.treatment in ("gate", "soft gate"):
            name = row.operation.strip("_")
            found.gates[name] = found.gates.get(name, 0) + 1
    _note(found, "check", report.ok, "; ".join(report.failures))


def _runs_in_float64(family: Family, model: nn.Module) -> bool:
    """Some models compute positions or windows in float32, whatever they are asked for."""
    precise, watching = copy.deepcopy(model).double(), _Watching()
    example = {name: x.double() if x.is_floating_point() else x for name, x in family.example(1).items()}
    try:
        with torch.no_grad(), watching:
            precise(example["x"]) if "x" in example else precise(**example)
    except RuntimeError:
        return False
    return watching.is_double


class _InFloat64:
    """The model in float64, where it runs in that, and its input where that has a gradient."""

    def __init__(self, family: Family, model: nn.Module) -> None:
        self.dtype = torch.float64 if _runs_in_float64(family, model) else torch.float32
        self.close = CLOSE[self.dtype]
        self.model = copy.deepcopy(model).to(self.dtype)
        example = family.example(2)
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}
        self.subject = pgig.Subject(self.model)
        if "x" in example:
            self.x = example["x"].to(self.dtype)
        elif "pixel_values" in example:
            self.x, self.subject = example["pixel_values"].to(self.dtype), self.subject.taking(["pixel_values"])
        else:
            self.kwargs = example
            place = embedding_of(example["input_ids"], trace(self.model, **example))
            if place is None:
                raise PgigError("its token ids are looked up in no single embedding")
            self.subject = pgig.Subject(self.model, at=place)
            self.x = self.subject.inner(**example)

    def attribute(self, method: str, **options: Any) -> Tensor:
        found = pgig.attribute(
            method, self.subject, self.x, score=_score, forward_kwargs=self.kwargs, batch_size=2, **options
        )
        assert isinstance(found, Tensor)
        return found

    def by_autograd(self, model: nn.Module | None = None) -> tuple[Tensor, Tensor]:
        """What autograd says, and the score that it began with."""
        leaf = self.x.clone().requires_grad_()
        subject = self.subject
        if model is not None:
            subject = pgig.Subject(model, at=subject.at, names=subject.names)
        score = _score(subject(leaf.clone(), **self.kwargs))
        (gradient,) = torch.autograd.grad(score.sum(), leaf)
        return gradient, score.detach()


def _score(output: Any) -> Tensor:
    answer = answer_of(output)
    return answer.flatten(1) @ torch.linspace(0.5, 1.5, answer[0].numel(), dtype=answer.dtype)


def _gradients(family: Family, model: nn.Module, found: Found) -> None:
    precise = _InFloat64(family, model)
    wanted, _ = precise.by_autograd()
    _note(
        found,
        "gradient",
        _close(precise.attribute("gradient"), wanted, precise.close),
        "the gradient is not autograd's",
    )
    traced = trace(precise.model, *precise.args, **_named(precise))
    layers = {name: layer for name, layer in traced.layers.items() if layer.form is not None}
    unsupported = [*traced.hidden, *(name for name in traced.layers if name not in layers)]
    ones = pgig.Patterns(
        {name: torch.ones_like(layer.original) for name, layer in layers.items()}, facts={"unsupported": unsupported}
    )
    same = precise.attribute("pattern_attribution", patterns=ones, start="one")
    _note(found, "patterns of ones", _close(same, wanted, precise.close), "patterns of ones do not give the gradient")


def _named(precise: _InFloat64) -> dict[str, Any]:
    if precise.kwargs:
        return precise.kwargs
    return {precise.subject.names[0] if precise.subject.names else _first_name(precise.model): precise.x}


def _first_name(model: nn.Module) -> str:
    import inspect

    return next(iter(inspect.signature(model.forward).parameters))


_GATES: tuple[type[nn.Module], ...] = (
    nn.ReLU, nn.ReLU6, nn.GELU, nn.SiLU, nn.Hardswish, nn.LeakyReLU, nn.ELU, nn.Mish, nn.PReLU, nn.SELU, nn.CELU,
)  # fmt: skip


def _guided(family: Family, model: nn.Module, found: Found) -> None:
    """Against hooks at modules, where all gates are modules of torch's own."""
    if not found.gates:
        return
    precise = _InFloat64(family, model)
    guided = precise.attribute("guided_backprop", soft_gates=True, start="one")
    hooked = copy.deepcopy(precise.model)
    calls = 0

    def after(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        nonlocal calls
        calls += 1
        sign = 1 if isinstance(module, nn.ReLU | nn.ReLU6) else (args[0].detach() > 0)
        if output.requires_grad:
            output.register_hook(lambda gradient: gradient.clamp(min=0) * sign)

    for module in hooked.modules():
        if isinstance(module, _GATES) or _is_own_gate(module):
            if hasattr(module, "inplace"):
                setattr(module, "inplace", False)  # noqa: B010 (mypy takes it for a submodule)
            module.register_forward_hook(after)
    wanted, _ = precise.by_autograd(hooked)
    if calls != sum(found.gates.values()):
        found.right.append("guided backprop runs (gates that are no modules: no hooks to compare with)")
        return
    _note(
        found, "guided backprop", _close(guided, wanted, precise.close), "guided backpropagation is not what hooks give"
    )


def _is_own_gate(module: nn.Module) -> bool:
    """timm's and transformers' own spellings of torch's gates."""
    return type(module).__name__ in {"GELU", "GELUTanh", "GELUActivation", "Swish", "SiLUActivation", "Mish", "PReLU"}


def _patterns(family: Family, model: nn.Module, found: Found) -> None:
    batch = given(family.example(ROWS))
    patterns = pgig.estimate_patterns(model, [batch])
    finite = all(bool(pattern.isfinite().all()) for pattern in patterns.values())
    _note(found, "patterns", finite, "patterns are not finite")
    example, options = family.example(1), {}
    subject, x = pgig.Subject(model, patterns), example.get("x", example.get("pixel_values"))
    if "pixel_values" in example:
        subject = subject.taking(["pixel_values"])
    if x is None:
        place = embedding_of(example["input_ids"], trace(model, **example))
        subject = pgig.Subject(model, patterns, at=place)
        x, options = subject.inner(**example), {"forward_kwargs": example}
    methods = ["gradient_x_input", "pgig"]
    both = pgig.attribute_all(methods, subject, x, score=_score, steps=3, start="one", batch_size=1, **options)  # type: ignore[arg-type]
    _note(found, "pgig", bool(both["pgig"].isfinite().all()) and bool(both["pgig"].any()), "PGIG is zero or not finite")
    found.largest = float(both["pgig"].abs().max() / both["gradient_x_input"].abs().max())


def _plan(family: Family, model: nn.Module, found: Found) -> None:
    example = family.example(1)
    if "input_ids" in example:
        found.plan = "no image"
        return
    x = example.get("x", example.get("pixel_values"))
    try:
        plan = plan_of(model, x)
    except TracingError as error:
        found.plan = str(error)
        return
    side = 9
    top = left = x.shape[-1] // 2 - 5
    noise = torch.randn(1, x.shape[1], side, side, generator=torch.Generator().manual_seed(3))
    with torch.inference_mode():
        plan.allocate(1, x.device)
        plan.begin(x, [1])
        plan.replace(numpy.array([0]), Windows((numpy.array([top]), numpy.array([left])), (side, side)), noise)
        plan.update(numpy.array([0]), numpy.array([[[top, top + side], [left, left + side]]]))
        changed = x.clone()
        changed[:, :, top : top + side, left : left + side] = noise
        intact, wanted = answer_of(model(x.clone())), answer_of(model(changed))
        planned = plan.result(slice(0, 1))
    size, change = float(wanted.abs().max()), float((wanted - intact).abs().max())
    close = float((planned - wanted).abs().max()) <= max(1e-4 * size, 1e-2 * change)
    _note(found, "plan", close, "the plan is not the model")
    gain = arithmetic_gain(plan, PatchGrid(x.shape[-2], x.shape[-1], side))
    found.plan = "; ".join([f"{gain:.1f}", *plan.reasons])


def _close(found: Tensor, wanted: Tensor, close: float) -> bool:
    return float((found - wanted).abs().max()) <= close * (float(wanted.abs().max()) or 1.0)


def _note(found: Found, what: str, right: bool, otherwise: str) -> None:
    (found.right if right else found.wrong).append(what if right else otherwise)
