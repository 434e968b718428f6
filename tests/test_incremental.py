"""Incremental inference gives what whole forward passes give, on any network, at any step."""

import numpy
import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from pgig.degradation import DenseEvaluator, PatchGrid, scored_by
from pgig.degradation.dense import score_of
from pgig.incremental import IncrementalEvaluator, TracingError, plan_of
from pgig.incremental.reach import Ranges, Stencil
from pgig.vision.models import MODELS

CHANNELS = 4
ACTIVATIONS = [
    nn.ReLU(), nn.SiLU(), nn.Tanh(), nn.GELU(), nn.LeakyReLU(), nn.Hardswish(), nn.PReLU(CHANNELS), nn.Sigmoid(),
    nn.ELU(), nn.Softplus(), nn.Mish(), nn.ReLU6(), nn.Hardsigmoid(), nn.Dropout(), nn.Identity(),
]  # fmt: skip


class Joined(nn.Module):
    """Two branches, added, multiplied or concatenated."""

    def __init__(self, one: nn.Module, other: nn.Module, way: str) -> None:
        super().__init__()
        self.one, self.other, self.way = one, other, way
        self.back = nn.Conv2d(2 * CHANNELS, CHANNELS, 1)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.one(x), self.other(x)
        if self.way == "cat":
            return self.back(torch.cat([a, b], 1))
        return a + b if self.way == "add" else a * torch.sigmoid(b)


class Gate(nn.Module):
    """Squeeze and excitation: nothing is local behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(CHANNELS, CHANNELS)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.layer(x.mean((2, 3))))[:, :, None, None]


class Resized(nn.Module):
    def __init__(self, mode: str, scale: int) -> None:
        super().__init__()
        self.mode, self.scale = mode, scale

    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(x, scale_factor=self.scale, mode=self.mode)


class Head(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.layer = kind, nn.LazyLinear(3)

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "pool":
            x = F.adaptive_avg_pool2d(x, 1)
        elif self.kind == "grid":
            x = F.adaptive_avg_pool2d(x, (2, 3))
        return self.layer(x.flatten(1))


small = st.integers(1, 3)


@st.composite
def convolutions(draw: st.DrawFn) -> nn.Module:
    return nn.Conv2d(
        CHANNELS, CHANNELS, (draw(small), draw(st.integers(1, 4))), (draw(st.integers(1, 2)), draw(small)),
        (draw(st.integers(0, 2)), draw(st.integers(0, 3))), draw(st.integers(1, 2)), draw(st.sampled_from([1, 2, 4])),
        draw(st.booleans()),
    )  # fmt: skip


@st.composite
def pools(draw: st.DrawFn) -> nn.Module:
    kernel = draw(st.integers(2, 4))
    kind = draw(st.sampled_from([nn.MaxPool2d, nn.AvgPool2d]))
    options = {"ceil_mode": draw(st.booleans())}
    if kind is nn.AvgPool2d:
        options["count_include_pad"] = draw(st.booleans())
    return kind(kernel, draw(small), draw(st.integers(0, kernel // 2)), **options)


@st.composite
def norms(draw: st.DrawFn) -> nn.Module:
    norm = nn.BatchNorm2d(CHANNELS, affine=draw(st.booleans()))
    assert norm.running_mean is not None
    assert norm.running_var is not None
    norm.running_mean.uniform_(-1, 1)
    norm.running_var.uniform_(0.5, 2)
    return norm


@st.composite
def branches(draw: st.DrawFn) -> nn.Module:
    kernel, dilation = draw(st.sampled_from([1, 3, 5])), draw(st.integers(1, 2))
    same = nn.Conv2d(CHANNELS, CHANNELS, kernel, padding=dilation * (kernel - 1) // 2, dilation=dilation)
    other = draw(st.sampled_from([nn.Identity(), nn.Conv2d(CHANNELS, CHANNELS, 1), nn.MaxPool2d(3, 1, 1)]))
    return Joined(
        nn.Sequential(same, draw(st.sampled_from(ACTIVATIONS))), other, draw(st.sampled_from(["add", "mul", "cat"]))
    )


@st.composite
def transposed(draw: st.DrawFn) -> nn.Module:
    stride = draw(st.integers(1, 3))
    kernel = draw(st.integers(1, 4))
    return nn.ConvTranspose2d(
        CHANNELS, CHANNELS, kernel, stride, draw(st.integers(0, min(2, kernel - 1))),
        draw(st.integers(0, stride - 1)), draw(st.sampled_from([1, 2])), dilation=draw(st.integers(1, 2)),
    )  # fmt: skip


layers = st.one_of(
    convolutions(), convolutions(), pools(), norms(), branches(), transposed(), st.sampled_from(ACTIVATIONS),
    st.builds(Resized, st.sampled_from(["nearest", "bilinear"]), st.integers(2, 2)),
    st.builds(nn.ZeroPad2d, st.tuples(small, small, small, small)),
    st.just(nn.Conv2d(CHANNELS, CHANNELS, 3, padding="same")),
    st.builds(Gate),
)  # fmt: skip


def compared(
    model: nn.Module, x: Tensor, patch: int, dtype: torch.dtype, rows: int = 5, at_once: int = 1
) -> tuple[Tensor, Tensor, object]:
    """Curves of the incremental and the dense evaluator on random rankings, and the plan."""
    model, x = model.to(dtype).eval(), x.to(dtype)
    grid = PatchGrid(x.shape[2], x.shape[3], patch)
    steps = min(12, len(grid) // at_once)
    rng = torch.Generator().manual_seed(0)
    orders = [torch.randperm(len(grid), generator=rng)[: steps * at_once] for _ in range(len(x) * 2)]
    rankings = torch.stack(orders).reshape(len(x), 2, steps, at_once)
    targets = torch.zeros(len(x), dtype=torch.long)
    filled = torch.randn(x.shape, generator=rng, dtype=dtype)
    plan = plan_of(model, x[:1])
    fast = IncrementalEvaluator(plan, lambda output, which: score_of(output, which, "logit"), rows)
    slow = DenseEvaluator(scored_by(model, "logit"), 4)
    return (
        fast.curves(x, filled, rankings, targets, grid),
        slow.curves(x, filled, rankings, targets, grid),
        plan,
    )


def agree(one: Tensor, other: Tensor, dtype: torch.dtype) -> bool:
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    return bool(((one - other).abs() <= tolerance * other.abs().clamp(min=1)).all())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to shrink takes minutes
)
@given(data=st.data())
def test_random_networks(dtype, data):
    torch.manual_seed(data.draw(st.integers(0, 1000)))
    size = data.draw(st.tuples(st.integers(9, 24), st.integers(9, 24)))
    found = data.draw(st.lists(layers, min_size=1, max_size=5))
    with torch.no_grad():
        model = nn.Sequential(
            nn.Conv2d(3, CHANNELS, 3, padding=1), *found, Head(data.draw(st.sampled_from(["pool", "grid", "flat"])))
        ).eval()  # fmt: skip
        x = torch.randn(2, 3, *size)
        try:
            assert model(x).isfinite().all()
        except RuntimeError:
            assume(False)  # a kernel larger than what is left of the image
    fast, slow, _ = compared(
        model, x, data.draw(st.integers(2, 6)), dtype, data.draw(st.integers(1, 5)), data.draw(st.integers(1, 2))
    )
    assert agree(fast, slow, dtype)


class DenseBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(CHANNELS * n), nn.ReLU(), nn.Conv2d(CHANNELS * n, CHANNELS, 3, padding=1))
            for n in (1, 2, 3)
        )

    def forward(self, x: Tensor) -> Tensor:
        found = [x]
        for part in self.parts:
            found.append(part(torch.cat(found, 1)))
        return found[-1]


def mobile() -> nn.Module:
    wide = nn.Sequential(
        nn.Conv2d(CHANNELS, 16, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU6(),
        nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False), nn.BatchNorm2d(16), nn.ReLU6(),
        nn.Conv2d(16, CHANNELS, 1, bias=False), nn.BatchNorm2d(CHANNELS),
    )  # fmt: skip
    return nn.Sequential(nn.Conv2d(3, CHANNELS, 3, 2, 1), Joined(wide, nn.Identity(), "add"), Head("pool"))


def u_net() -> nn.Module:
    inner = nn.Sequential(
        nn.MaxPool2d(2), nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1), nn.ReLU(),
        nn.ConvTranspose2d(CHANNELS, CHANNELS, 2, 2),
    )  # fmt: skip
    return nn.Sequential(
        nn.Conv2d(3, CHANNELS, 3, padding=1), nn.ReLU(), Joined(nn.Identity(), inner, "cat"), Head("pool")
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("at_once", [1, 3])
@pytest.mark.parametrize(
    "make",
    [
        mobile, u_net,
        lambda: nn.Sequential(nn.Conv2d(3, CHANNELS, 3), DenseBlock(), nn.AvgPool2d(2), DenseBlock(), Head("pool")),
        lambda: nn.Sequential(nn.MaxPool2d(3, 2, 1), nn.Conv2d(3, CHANNELS, 3, 5), Head("flat")),  # gaps
    ],
)  # fmt: skip
def test_styles_of_networks(make, dtype, at_once):
    torch.manual_seed(0)
    model = make().eval()
    x = torch.randn(2, 3, 32, 36)
    with torch.no_grad():
        model(x)
    fast, slow, plan = compared(model, x, 5, dtype, at_once=at_once)
    assert agree(fast, slow, dtype)
    assert plan.reasons == ()


@pytest.mark.parametrize("name", ["squeezenet1_0", "squeezenet1_1", "resnet18", "resnet50", "vgg11", "vgg11_bn"])
def test_named_networks(name):
    torch.manual_seed(0)
    model = MODELS[name](name, 10).eval()
    if name == "vgg11":  # in this format another way of flattening is exported
        model = model.to(memory_format=torch.channels_last)
    fast, slow, plan = compared(model, torch.randn(2, 3, 96, 96), 9, torch.float64)
    assert agree(fast, slow, torch.float64)
    assert plan.reasons == ()


def test_a_hundred_steps_on_photographs_do_not_drift(shared):
    from pgig.vision import Preprocess
    from pgig.vision.folders import ImageFolder
    from pgig.vision.models import load_model

    model = load_model("squeezenet1_0", str(shared / "models" / "squeezenet1_0_imagenet.safetensors"))
    folder = ImageFolder.open(shared / "imagenet-sample" / "images").first(2)
    _, x = next(folder.batches(Preprocess(), 2, 0, {}))
    grid = PatchGrid(224, 224, 9)
    rankings = torch.stack(
        [torch.randperm(len(grid), generator=torch.Generator().manual_seed(n))[:100] for n in (0, 1)]
    )
    with torch.no_grad():
        targets = model(x).argmax(1)
    fast = IncrementalEvaluator(plan_of(model, x[:1]), lambda output, which: score_of(output, which, "probability"))
    slow = DenseEvaluator(scored_by(model, "probability"), 2)
    found = [each.curves(x, grid.means(x), rankings[:, None, :, None], targets, grid) for each in (fast, slow)]
    assert (found[0] - found[1]).abs().max() <= 1e-5


def test_outside_the_windows_nothing_is_touched():
    torch.manual_seed(0)
    model = MODELS["squeezenet1_0"]("squeezenet1_0", 10).eval()
    x = torch.randn(1, 3, 96, 96)
    plan = plan_of(model, x)
    plan.allocate(2, x.device)
    with torch.inference_mode():
        plan.begin(x, [2])
        before = [step.any_cache.whole(slice(0, 2)).clone() for step in plan.steps if step.caches]
        box = numpy.array([[[40, 45], [8, 13]]])
        plan.update(numpy.array([1]), box)
        windows = [found for found, step in zip(plan._windows(box), plan.steps, strict=True) if step.caches]
        some_outside = False
        for step, old, found in zip([s for s in plan.steps if s.caches], before, windows, strict=True):
            now = step.any_cache.whole(slice(0, 2))
            assert torch.equal(now[0], old[0])  # the other row
            (top,), (left,) = found.starts
            inside = torch.zeros(old.shape[2:], dtype=torch.bool)
            inside[top : top + found.size[0], left : left + found.size[1]] = True
            some_outside |= bool((~inside).any())
            assert torch.equal(now[1][:, ~inside], old[1][:, ~inside])
    assert some_outside


@given(
    size=st.integers(1, 20), kernel=st.integers(1, 5), stride=st.integers(1, 4), padding=st.integers(0, 3),
    dilation=st.integers(1, 3), data=st.data(),
)  # fmt: skip
def test_stencils_reach_exactly_what_depends(size, kernel, stride, padding, dilation, data):
    span = dilation * (kernel - 1) + 1
    assume(size + 2 * padding >= span)
    out = (size + 2 * padding - span) // stride + 1
    lo = data.draw(st.integers(0, size - 1))
    hi = data.draw(st.integers(lo + 1, size))
    depends = [
        place for place in range(out)
        if any(lo <= place * stride - padding + dilation * tap < hi for tap in range(kernel))
    ]  # fmt: skip
    first, behind = Stencil(size, out, kernel, stride, padding, dilation).after(numpy.array([lo]), numpy.array([hi]))
    assert 0 <= first[0] < behind[0] <= out
    if depends:
        assert first[0] <= depends[0]
        assert behind[0] > depends[-1]
        if dilation == 1 or hi - lo >= dilation:
            assert (first[0], behind[0]) == (depends[0], depends[-1] + 1)


@given(data=st.data(), before=st.integers(1, 12), after=st.integers(1, 20))
def test_ranges_reach_what_depends_and_need_what_they_depend_on(data, before, after):
    matrix = F.interpolate(torch.eye(before)[:, None], size=after, mode="linear")[:, 0].T.double().numpy()
    reach = Ranges(matrix)
    lo = data.draw(st.integers(0, before - 1))
    hi = data.draw(st.integers(lo + 1, before))
    first, behind = reach.after(numpy.array([lo]), numpy.array([hi]))
    depends = numpy.flatnonzero((matrix[:, lo:hi] != 0).any(1))
    assert not len(depends) or (first[0] <= depends[0] and behind[0] > depends[-1])
    width = data.draw(st.integers(1, after))
    start = data.draw(st.integers(0, after - width))
    begin, wide = reach.needed(numpy.array([start]), width)
    needs = numpy.flatnonzero((matrix[start : start + width] != 0).any(0))
    assert 0 <= begin[0] <= needs[0]
    assert needs[-1] < begin[0] + wide <= before


def test_what_cannot_be_treated_in_windows_is_computed_whole_and_named():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, CHANNELS, 3), Gate(), nn.Conv2d(CHANNELS, CHANNELS, 3), Head("pool")).eval()
    x = torch.randn(2, 3, 20, 20)
    with torch.no_grad():
        model(x)
    fast, slow, plan = compared(model, x, 4, torch.float64)
    assert agree(fast, slow, torch.float64)
    assert any("computed whole" in reason for reason in plan.reasons)


class Odd(nn.Module):
    """Its way depends on values."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3)) if x.sum() > 0 else x.amax((2, 3))


@pytest.mark.parametrize("model", [Odd(), nn.Sequential(nn.Flatten(), nn.Linear(48, 2))])
def test_models_without_a_plan_say_why(model):
    with pytest.raises(TracingError, match=r"cannot be traced|no convolution"):
        plan_of(model, torch.randn(1, 3, 4, 4))
