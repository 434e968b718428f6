"""Which evaluator a run gets, and what it says about it."""

import pytest
import torch
from commands import OWN, curves, run
from torch import Tensor, nn

from pgig.degradation import Protocol
from pgig.errors import PgigError
from pgig.incremental import IncrementalEvaluator, Plan, plan_of
from pgig.measures import evaluators
from pgig.measures.evaluators import Wish, affordable_rows, choose
from pgig.records.part_files import read_rows
from pgig.vision.models import MODELS

PROTOCOL = Protocol(patch=4, steps=3)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    ).eval()  # fmt: skip


def image(size: int = 48) -> Tensor:
    return torch.randn(1, 3, size, size, generator=torch.Generator().manual_seed(0))


def test_incremental_where_it_pays_and_dense_where_not():
    found = choose(Wish(), network(), image(), PROTOCOL)
    assert found.evaluator.name == "incremental"
    assert "times fewer multiply-adds" in found.note
    assert found.doubt is None
    small = choose(Wish(), network(), image(8), Protocol(patch=8, steps=1))
    assert small.evaluator.name == "dense"
    assert "would save little" in small.note
    assert choose(Wish("dense"), network(), image(), PROTOCOL).evaluator.name == "dense"


@pytest.mark.parametrize("name", ["squeezenet1_1", "resnet18", "vgg11_bn"])
def test_untrained_networks_raise_no_doubt(name):
    torch.manual_seed(0)  # their outputs hardly change with a patch: rounding must not count as a difference
    found = choose(Wish(), MODELS[name](name, 1000).eval(), image(96), Protocol(patch=9, steps=2))
    assert found.doubt is None
    assert found.evaluator.name == "incremental"


class Attention(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(2)
        return (torch.softmax(flat.mT @ flat, -1) @ flat.mT).mT.reshape_as(x)


def test_what_cannot_be_had_is_said():
    class Odd(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.mean((2, 3)) if x.sum() > 0 else x.amax((2, 3))

    found = choose(Wish(), Odd().eval(), image(), PROTOCOL)
    assert found.evaluator.name == "dense"
    assert "cannot be traced (its way depends on the values" in found.note
    with pytest.raises(PgigError, match="cannot take this model: it cannot be traced"):
        choose(Wish("incremental"), Odd().eval(), image(), PROTOCOL)
    partly = nn.Sequential(network()[:5], Attention(), nn.Conv2d(8, 5, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
    found = choose(Wish("incremental"), partly, image(16), PROTOCOL)
    assert found.evaluator.name == "incremental"
    assert "1 layer computed whole" in found.note


def test_attention_is_computed_whole_and_costly_rests_count():
    class Attending(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.attention, self.head = nn.Conv2d(3, 8, 3), nn.MultiheadAttention(8, 2), nn.Linear(8, 5)

        def forward(self, x: Tensor) -> Tensor:
            y = self.conv(x).flatten(2).permute(2, 0, 1)
            return self.head(self.attention(y, y, y, need_weights=False)[0].mean(0))

    torch.manual_seed(0)
    found = choose(Wish("incremental"), Attending().eval(), image(16), PROTOCOL)
    assert found.evaluator.name == "incremental"
    assert found.doubt is None
    mixed = nn.Sequential(nn.Conv2d(3, 8, 3), Attention(), nn.ConvTranspose2d(8, 64, 5, padding=2),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()  # fmt: skip
    found = choose(Wish(), mixed, image(16), PROTOCOL)
    assert found.evaluator.name == "dense"
    assert "would save little" in found.note


def test_a_wrong_or_failing_evaluator_is_not_used(monkeypatch):
    right = IncrementalEvaluator.curves

    def wrong(self, *arguments):
        return right(self, *arguments) + 1e-3

    monkeypatch.setattr(evaluators.IncrementalEvaluator, "curves", wrong)  # type: ignore[attr-defined]
    found = choose(Wish(), network(), image(), PROTOCOL)
    assert found.evaluator.name == "dense"
    assert found.doubt is not None
    assert "differs from the dense one by 0.001" in found.doubt

    def failing(self, *arguments):
        raise RuntimeError("never met\nbefore")

    monkeypatch.setattr(evaluators.IncrementalEvaluator, "curves", failing)  # type: ignore[attr-defined]
    found = choose(Wish(), network(), image(), PROTOCOL)
    assert found.evaluator.name == "dense"
    assert found.doubt is not None
    assert "failed (RuntimeError: never met)" in found.doubt


@pytest.mark.parametrize("factor", [1.0, 1e-4, 300.0])  # also where probabilities hardly move
def test_a_plan_that_does_nothing_is_noticed(monkeypatch, factor):
    model = network()
    with torch.no_grad():
        model[-1].weight.mul_(factor)
    monkeypatch.setattr(Plan, "update", lambda self, rows, boxes: [])
    found = choose(Wish(), model, image(), PROTOCOL)
    assert found.evaluator.name == "dense"
    assert found.doubt is not None
    assert "differs from the model" in found.doubt


def test_memory_decides_how_many_go_side_by_side():
    plan = plan_of(network(), image())
    assert affordable_rows(plan, 10 * plan.bytes_per_row + 1, 1) == 10
    assert affordable_rows(plan, 10 * plan.bytes_per_row, 2) == 5
    assert affordable_rows(plan, 1, 1) == 1
    some = choose(Wish(memory=7.5 * plan.bytes_per_row / 2**30), network(), image(), PROTOCOL)
    assert some.batch_size == 7
    assert 7 * plan.bytes_per_row < some.bytes < 12 * plan.bytes_per_row
    plan.allocate(4, torch.device("cpu"))
    held = sum(cache._data.numel() * cache._data.element_size() for cache in plan._caches)  # type: ignore[misc]
    assert held == 4 * plan.bytes_per_row
    with pytest.raises(PgigError, match="memory must be above zero"):
        Wish(memory=0)


NET = """
import torch
from torch import nn

def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 6))
"""


def test_runs_by_both_evaluators_agree(tmp_path):
    import numpy
    from PIL import Image

    (tmp_path / "net.py").write_text(NET + OWN)
    (tmp_path / "photos").mkdir()
    rng = numpy.random.default_rng(0)
    for number in range(10):
        Image.fromarray(rng.integers(0, 255, (70, 64, 3), numpy.uint8)).save(tmp_path / "photos" / f"{number}.png")
    call = ("degrade", "--model", "net:make", "--images", "photos", "--size", "64", "--resize", "64", "--steps", "20")
    found = {}
    for name, more in {
        "fast": (),
        "dense": ("--evaluator", "dense"),
        "little": ("--memory", "0.001"),
        "workers": ("--workers", "2"),
    }.items():
        done = run(tmp_path, *call, "--methods", "gradient,vargrad,random", "--out", name, *more)
        assert done.returncode == 0, done.stderr
        assert f"evaluator: {'dense' if name == 'dense' else 'incremental'}" in done.stdout
        found[name] = curves(read_rows(tmp_path / name))
    for other in ("fast", "little", "workers"):
        assert max(abs(numpy.array(found[other][key]) - found["dense"][key]).max() for key in found["dense"]) < 1e-5
    done = run(tmp_path, *call, "--methods", "gradient,vargrad,random", "--out", "fast", "--evaluator", "dense")
    assert done.returncode == 2
    assert "evaluator was 'incremental', now 'dense'" in done.stderr
    assert "batch_size = 88" in (tmp_path / "fast" / "config.toml").read_text()
    several = run(
        tmp_path, *call[:-1], "6", "--methods", "gradient", "--out", "several", "--patches-per-step", "5"
    )  # fmt: skip
    assert several.returncode == 0, several.stderr
    assert run(tmp_path, "report", "several", "--out", "report").returncode == 0
    table = (tmp_path / "report" / "several-curves.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in table[1:]] == ["0", "5", "10", "15", "20", "25", "30"]
    assert "after 10" in (tmp_path / "report" / "several-table.csv").read_text()
    assert "degradation: incremental" in run(tmp_path, "check", "--model", "net:make", "--size", "64").stdout
