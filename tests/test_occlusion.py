"""Occlusion: its definition, its fast path, and Captum's."""

import gc
from weakref import ref

import pytest
import torch
from captum.attr import Occlusion as CaptumOcclusion
from commands import FACTORY, run
from torch import Tensor, nn

import pgig
from pgig.errors import PgigError
from pgig.explainers.occlusion import Occlusion
from pgig.explainers.registry import explainers


def images(n: int = 2, size: int = 20) -> Tensor:
    return torch.randn(n, 3, size, size + 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 6, 3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4),
    ).double().eval()  # fmt: skip


@pytest.mark.parametrize(("window", "stride"), [(5, 5), (6, 2), (7, 3), (20, 1)])
@pytest.mark.parametrize("baseline", [0.0, -1.5])
def test_the_fast_path_is_the_definition_and_captums(model, window, stride, baseline):
    x, target = images(), torch.tensor([1, 3])
    explainer = Occlusion(window, stride, baseline)
    fast = explainer(model, x, target, "logit")
    slow = explainer(model, x, target, "logit", incremental=False)
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-12)
    captum = CaptumOcclusion(model).attribute(
        x, (3, window, window), (3, stride, stride), baselines=baseline, target=target
    )
    torch.testing.assert_close(fast, captum.double(), rtol=0, atol=1e-6)  # Captum sums in float32


def test_it_falls_where_the_evidence_is():
    class Corner(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x[:, :, :4, :4].sum((1, 2, 3))[:, None] * torch.tensor([1.0, 0.0])

    x = torch.ones(1, 3, 16, 16)
    found = pgig.occlusion(Corner(), x, torch.tensor([0]), window=4, stride=4, score="logit")  # without a convolution
    assert found.shape == x.shape
    torch.testing.assert_close(found[0, 0, :4, :4], torch.full((4, 4), 48.0))
    assert not found[0, :, 4:].any()


def test_weights_that_change_are_noticed(model):
    x, target = images(1), torch.tensor([0])
    before = pgig.occlusion(model, x, target, window=5, stride=5)
    with torch.no_grad():
        model[0].weight.mul_(2)
    after = pgig.occlusion(model, x, target, window=5, stride=5)
    slow = Occlusion(5, 5)(model, x, target, incremental=False)
    torch.testing.assert_close(after, slow, rtol=0, atol=1e-12)
    assert not torch.allclose(before, after)
    model[3].weight.data.mul_(3)  # without a trace in the version of the tensor
    model[1] = nn.Tanh()
    after = pgig.occlusion(model, x, target, window=5, stride=5)
    torch.testing.assert_close(after, Occlusion(5, 5)(model, x, target, incremental=False), rtol=0, atol=1e-12)


def test_plans_go_with_their_models():
    made = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()).double().eval()
    pgig.occlusion(made, images(1), torch.tensor([0]), window=5, stride=5)
    plan = ref(next(iter(pgig.Subject(made).recall("plans", dict).values())))  # type: ignore[var-annotated]
    assert plan() is not None
    del made
    gc.collect()
    assert plan() is None


def test_a_plan_that_is_wrong_is_not_used(model, monkeypatch):
    from pgig.incremental import Plan

    x, target = images(1), torch.tensor([0])
    slow = Occlusion(5, 5)(model, x, target, incremental=False)
    monkeypatch.setattr(Plan, "_carry", lambda self, rows, windows: None)
    with pytest.warns(pgig.PgigWarning, match="computed whole"):
        found = pgig.occlusion(model, x, target, window=5, stride=5)
    torch.testing.assert_close(found, slow)


def test_bad_windows(model):
    x, target = images(1), torch.tensor([0])
    with pytest.raises(PgigError, match="does not fit"):
        pgig.occlusion(model, x, target, window=21)
    with pytest.raises(PgigError, match="stride must be"):
        pgig.occlusion(model, x, target, window=4, stride=5)
    with pytest.raises(PgigError, match="unknown score"):
        pgig.occlusion(model, x, target, window=4, stride=4, score="odds")
    with pytest.raises(PgigError, match="needs a tensor of images"):
        pgig.occlusion(model, x[0], target, window=4, stride=4)
    for wrong, match in (([0, 1], "2 targets for 1"), (9, "out of range"), ("cat", "must be a class index")):
        with pytest.raises(PgigError, match=match):
            pgig.occlusion(model, x, wrong, window=4, stride=4)
    with pytest.raises(PgigError, match="training mode"):
        pgig.occlusion(nn.Sequential(nn.BatchNorm2d(3), nn.Flatten()).double().train(), x, target, window=4, stride=4)
    with pytest.raises(PgigError, match="one row of class scores"):
        pgig.occlusion(model[:2], x, target, window=4, stride=4)
    torch.testing.assert_close(
        pgig.occlusion(model, x, window=5, stride=5),
        pgig.occlusion(model, x, int(model(x).argmax()), window=5, stride=5),
    )
    assert explainers("occlusion+window=8+stride=4")["occlusion+window=8+stride=4"] == Occlusion(8, 4)
    for wrong in ("occlusion+speed=3", "occlusion+window=wide"):
        with pytest.raises(PgigError, match=r"no option speed|expected a number"):
            explainers(wrong)
    with pytest.raises(PgigError, match="no method of gradients"):
        pgig.attribute("occlusion", model, x)


def test_commands_know_it(tmp_path):
    import numpy
    from PIL import Image

    (tmp_path / "net.py").write_text(FACTORY)
    rng = numpy.random.default_rng(0)
    Image.fromarray(rng.integers(0, 255, (40, 50, 3), numpy.uint8)).save(tmp_path / "a.png")
    size = ("--model", "net:make", "--size", "32", "--resize", "32")
    done = run(tmp_path, "explain", "a.png", *size, "--methods", "occlusion,gradient")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "explained" / "a" / "occlusion.png").is_file()
    assert "occlusion" in run(tmp_path, "methods").stdout
    (tmp_path / "photos").mkdir()
    (tmp_path / "a.png").rename(tmp_path / "photos" / "a.png")
    call = ("--images", "photos", "--patch", "8", "--steps", "4", "--methods", "occlusion,random", "--out", "run")
    done = run(tmp_path, "degrade", *size, *call)
    assert done.returncode == 0, done.stderr
    assert "occlusion" in done.stdout


class Writing(nn.Module):
    """Works on its input in place, as networks with preprocessing of their own do."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.in_place = in_place
        self.net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 5))

    def forward(self, x):
        return self.net(x.mul_(2) if self.in_place else x * 2)


def test_a_model_may_write_to_its_input():
    x = torch.rand(2, 3, 16, 16)
    given = x.clone()
    with torch.random.fork_rng():
        writing, other = Writing(True).eval(), Writing(False).eval()
    found = pgig.occlusion(writing, given, window=4, stride=4)
    assert torch.equal(given, x)
    torch.testing.assert_close(found, pgig.occlusion(other, x, window=4, stride=4))


def test_what_is_not_finite_is_no_map():
    with torch.random.fork_rng():
        model = Writing(False).eval()
    with pytest.raises(pgig.PgigError, match="baseline must be a finite number"):
        pgig.occlusion(model, torch.rand(1, 3, 16, 16), baseline=float("nan"))
    model.net[0].weight.data[0] = float("nan")
    with pytest.raises(pgig.PgigError, match="scores are NaN or infinite"):
        pgig.occlusion(model, torch.rand(1, 3, 16, 16), 1, window=4, stride=4)
