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
from pgig.incremental.covering import covered_outputs
from pgig.incremental.reach import Ranges, Stencil
from pgig.incremental.windows import Windows
from pgig.vision.models import MODELS

CHANNELS = 4
ACTIVATIONS = [
    nn.ReLU, nn.SiLU, nn.Tanh, nn.GELU, nn.LeakyReLU, nn.Hardswish, lambda: nn.PReLU(CHANNELS), nn.Sigmoid,
    nn.ELU, nn.Softplus, nn.Mish, nn.ReLU6, nn.Hardsigmoid, nn.Dropout, nn.Identity,
]  # fmt: skip
activations = st.sampled_from(ACTIVATIONS).map(lambda make: make())


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
    others = [nn.Identity, lambda: nn.Conv2d(CHANNELS, CHANNELS, 1), lambda: nn.MaxPool2d(3, 1, 1), nn.Dropout]
    other = draw(st.sampled_from(others))()
    return Joined(nn.Sequential(same, draw(activations)), other, draw(st.sampled_from(["add", "mul", "cat"])))


@st.composite
def transposed(draw: st.DrawFn) -> nn.Module:
    stride = draw(st.integers(1, 3))
    kernel = draw(st.integers(1, 4))
    return nn.ConvTranspose2d(
        CHANNELS, CHANNELS, kernel, stride, draw(st.integers(0, min(2, kernel - 1))),
        draw(st.integers(0, stride - 1)), draw(st.sampled_from([1, 2])), dilation=draw(st.integers(1, 2)),
    )  # fmt: skip


layers = st.one_of(
    convolutions(), convolutions(), pools(), norms(), branches(), transposed(), activations,
    st.builds(Resized, st.sampled_from(["nearest", "bilinear"]), st.integers(2, 2)),
    st.builds(nn.ZeroPad2d, st.tuples(small, small, small, small)),
    st.builds(lambda: nn.Conv2d(CHANNELS, CHANNELS, 3, padding="same")),
    st.builds(Gate),
)  # fmt: skip


def compared(
    model: nn.Module, x: Tensor, patch: int, dtype: torch.dtype, rows: int = 5, at_once: int = 1, most: int = 12
) -> tuple[Tensor, Tensor, object]:
    """Curves of the incremental and the dense evaluator on random rankings, and the plan."""
    model, x = model.to(dtype).eval(), x.to(dtype)
    grid = PatchGrid(x.shape[2], x.shape[3], patch)
    steps = min(most, len(grid) // at_once)
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
    assert plan.reasons == ()  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["squeezenet1_0", "squeezenet1_1", "resnet18", "resnet50", "vgg11", "vgg11_bn"])
def test_named_networks(name):
    torch.manual_seed(0)
    model = MODELS[name](name, 10).eval()
    if name == "vgg11":  # in this format another way of flattening is exported
        model = model.to(memory_format=torch.channels_last)
    fast, slow, plan = compared(model, torch.randn(2, 3, 96, 96), 9, torch.float64)
    assert agree(fast, slow, torch.float64)
    assert plan.reasons == ()  # type: ignore[attr-defined]


def test_a_hundred_steps_on_photographs_do_not_drift(shared):
    from pgig.vision import Preprocess
    from pgig.vision.image_folder import ImageFolder
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


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_hundred_steps_do_not_drift(dtype):
    torch.manual_seed(0)
    model = MODELS["resnet18"]("resnet18", 10).eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    fast, slow, _ = compared(model, torch.randn(1, 3, 80, 80), 6, dtype, most=100)
    assert fast.shape[-1] == 101
    assert agree(fast, slow, dtype)


def test_outside_the_windows_nothing_is_touched():
    torch.manual_seed(0)
    model = MODELS["squeezenet1_0"]("squeezenet1_0", 10).eval()
    x = torch.randn(1, 3, 96, 96)
    plan = plan_of(model, x)
    plan.allocate(2, x.device)
    box = numpy.array([[[40, 45], [8, 13]]])
    with torch.inference_mode():
        plan.begin(x, [2])
        windows = plan.windows(box)
        marked = []
        for step, found in zip(plan.steps, windows, strict=True):
            for cache in step.caches.values():
                now = cache.whole(slice(0, 2))
                inside = torch.zeros(now.shape[2:], dtype=torch.bool)
                (top,), (left,) = found.starts
                inside[top : top + found.size[0], left : left + found.size[1]] = True
                now[1][:, ~inside] += 7  # what nobody computes: if it is still there, nobody wrote
                marked.append((cache, inside, now.clone()))
        plan.replace(numpy.array([1]), Windows((box[:, 0, 0], box[:, 1, 0]), (5, 5)), torch.randn(1, 3, 5, 5))
        plan.update(numpy.array([1]), box)
    assert any(bool((~inside).any()) for _, inside, _ in marked)
    for cache, inside, before in marked:
        now = cache.whole(slice(0, 2))
        assert torch.equal(now[0], before[0])  # the other row
        assert torch.equal(now[1][:, ~inside], before[1][:, ~inside])
        assert not torch.equal(now[1][:, inside], before[1][:, inside])


def test_memory_is_allocated_once():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, CHANNELS, 3), nn.ReLU(), nn.Conv2d(CHANNELS, CHANNELS, 3), Head("pool")).eval()
    x = torch.randn(3, 3, 24, 24)
    with torch.no_grad():
        model(x)
    grid = PatchGrid(24, 24, 4)
    plan = plan_of(model, x[:1])
    fast = IncrementalEvaluator(plan, lambda output, which: score_of(output, which, "logit"), 6)
    slow = DenseEvaluator(scored_by(model, "logit"), 4)
    places, known = set(), set()
    for seed, images in enumerate((3, 1, 2, 3, 3)):  # the last part of a run is smaller
        rankings = torch.stack([torch.randperm(36)[:20] for _ in range(2 * images)]).reshape(images, 2, 20, 1)
        some = x[:images] + seed
        given = some, grid.means(some), rankings, torch.zeros(images, dtype=torch.long), grid
        torch.testing.assert_close(fast.curves(*given), slow.curves(*given), rtol=1e-5, atol=1e-5)
        places.add(tuple(cache._data.data_ptr() for cache in plan._caches))
        known.add(sum(len(each) for each in plan._known) <= 2 * grid.rows)
    assert len(places) == 1
    assert known == {True}


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
    assert any("computed whole" in reason for reason in plan.reasons)  # type: ignore[attr-defined]


class Aliased(nn.Module):
    """A norm behind an alias of a convolution that others read too."""

    def __init__(self, alias: nn.Module) -> None:
        super().__init__()
        self.conv, self.alias, self.norm = nn.Conv2d(3, CHANNELS, 3), alias, nn.BatchNorm2d(CHANNELS)
        self.norm.running_mean.normal_()
        self.head = Head("pool")

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        return self.head(self.norm(self.alias(y)) + y)


class Unpooled(nn.Module):
    """The second output of an operator is used."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, CHANNELS, 3, padding=1), Head("pool")

    def forward(self, x: Tensor) -> Tensor:
        y, places = F.max_pool2d(self.conv(x), 2, return_indices=True)
        return self.head(F.max_unpool2d(y, places, 2) + torch.frexp(x.mean(1, keepdim=True))[0])


class Masked(nn.Module):
    """Bool maps, casts, scalars from buffers, adaptive max pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, CHANNELS, 3, padding=1), Head("flat")
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        mask = (y > 0) & (y < 1)
        y = torch.where(mask, y, -y) * mask.to(y.dtype) * self.scale + y.clamp(min=-1)
        return self.head(F.adaptive_max_pool2d(y, (y.shape[2] // 2, y.shape[3] // 2)))


@pytest.mark.parametrize(
    "make", [lambda: Aliased(nn.Dropout()), lambda: Aliased(nn.AvgPool2d(1)), Unpooled, Masked]
)  # fmt: skip
def test_odd_graphs(make):
    torch.manual_seed(0)
    model = make().eval()
    x = torch.randn(2, 3, 20, 20)
    with torch.no_grad():
        model(x)
    fast, slow, plan = compared(model, x, 4, torch.float64)
    assert agree(fast, slow, torch.float64)
    if make is Masked:
        assert plan.reasons == ()  # type: ignore[attr-defined]


class Noisy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x * torch.rand(1)).mean((2, 3))


class Odd(nn.Module):
    """Its way depends on values."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3)) if x.sum() > 0 else x.amax((2, 3))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Odd(), "cannot be traced"),
        (nn.Sequential(nn.Flatten(), nn.Linear(48, 2)), "no convolution that is not behind"),
        (Noisy(), "draws random numbers"),
        (nn.Sequential(nn.Conv2d(3, 2, 3), nn.BatchNorm2d(2, track_running_stats=False)), "normalises over the batch"),
        (nn.Sequential(nn.Conv2d(3, 2, 3, padding=1, padding_mode="reflect")), "not behind pad"),
    ],
)
def test_models_without_a_plan_say_why(model, reason):
    with pytest.raises(TracingError, match=reason):
        plan_of(model.eval(), torch.randn(1, 3, 4, 4))


class InPlaceBehind(nn.Module):
    """What stands between is the tensor itself, or a view of it: the in-place ReLU changes both."""

    def __init__(self, between) -> None:
        super().__init__()
        self.between = between
        self.first, self.second, self.head = (
            nn.Conv2d(3, 6, 3, padding=1),
            nn.Conv2d(6, 6, 3, padding=1),
            nn.Linear(6, 5),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        return self.head((self.second(self.between(y).relu_()) + y).mean((2, 3)))


@pytest.mark.parametrize(
    "between",
    [
        lambda y: F.dropout(y, 0.5, False), lambda y: torch.dropout(y, 0.5, False),
        lambda y: F.dropout2d(y, 0.5, False), lambda y: F.alpha_dropout(y, 0.5, False),
        lambda y: F.dropout(y, 0.0, True), lambda y: y.contiguous(),
        lambda y: y.to(y.dtype), lambda y: y.view(y.shape), lambda y: y.reshape(y.shape), lambda y: y[:],
        lambda y: y.expand_as(y), lambda y: y.clone(), lambda y: y.flatten(2).unflatten(2, (16, 16)),
    ],
    ids=range(13),
)  # fmt: skip
def test_aliases_stay_aliases(between):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = InPlaceBehind(between).double().eval()
    x = torch.randn(1, 3, 16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    plan = plan_of(model, x)
    fill = torch.zeros_like(x)
    boxes = numpy.array([[[0, 4], [0, 4]], [[6, 10], [3, 7]]])
    found = torch.cat(list(covered_outputs(plan, x, boxes, fill, 2)))
    for row, ((top, bottom), (left, right)) in enumerate(boxes):
        covered = x.clone()
        covered[:, :, top:bottom, left:right] = 0
        torch.testing.assert_close(found[row : row + 1], model(covered), rtol=0, atol=1e-12)


def test_no_step_at_all_leaves_the_intact_score():
    """One patch, two at once: there is nothing to replace."""
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
    fast, slow, _ = compared(model, torch.randn(2, 3, 11, 11), 6, torch.float64, at_once=2)
    assert fast.shape == (2, 2, 1)
    assert agree(fast, slow, torch.float64)
