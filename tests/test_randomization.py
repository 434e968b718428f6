"""Weight randomisation: similarity, stages, and the command."""

import csv

import numpy
import pytest
import torch
from commands import FACTORY, run
from PIL import Image
from torch import nn

from pgig.errors import PgigError
from pgig.explainers.registry import explainers
from pgig.measures.similarity import spearman, ssim
from pgig.patterns.estimation import estimate_patterns
from pgig.randomization.comparison import Asked, Stage, compare_randomised, layers_from_the_top, randomised, stages_of


def test_rank_correlation():
    x = torch.tensor([[3.0, 1.0], [2.0, 2.0]])
    assert spearman(x, x) == pytest.approx(1)
    assert spearman(x, -x) == pytest.approx(-1)
    assert spearman(x, x**3 + 5) == pytest.approx(1)  # only the order counts
    assert spearman(x, torch.ones(2, 2)) == 0
    # ranks of a: 1, 2, 3, 4; of b, with a tie: 1, 2.5, 2.5, 4
    assert spearman(torch.tensor([1.0, 2, 3, 4]), torch.tensor([0.0, 5, 5, 9])) == pytest.approx(4.5 / (5 * 4.5) ** 0.5)


def test_structural_similarity():
    x = torch.randn(30, 40, generator=torch.Generator().manual_seed(0))
    assert ssim(x, x) == pytest.approx(1)
    assert ssim(x, 7 * x) == pytest.approx(1)  # maps are scaled to their largest magnitude
    other = torch.randn(30, 40, generator=torch.Generator().manual_seed(1))
    assert abs(ssim(x, other)) < 0.3
    assert ssim(x, -x) < 0
    assert ssim(x[:5, :5], x[:5, :5]) == pytest.approx(1)


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.Flatten(), nn.Linear(64, 5)).eval()


def test_stages_go_from_the_top():
    layers = layers_from_the_top(net(), torch.randn(1, 3, 8, 8))
    assert layers == ["4", "2", "0"]
    cascade = stages_of(layers, ["cascading"])
    assert [stage.layers for stage in cascade] == [("4",), ("4", "2"), ("4", "2", "0")]
    assert [stage.layers for stage in stages_of(layers, ["independent"], 2)] == [("4",), ("0",)]
    for wrong in ({"modes": ["sideways"]}, {"modes": ["cascading"], "most": 0}):
        with pytest.raises(PgigError):
            stages_of(layers, **wrong)


def test_only_the_named_layers_change():
    model = net()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    other = randomised(model, ["2"], seed=1)
    for name, tensor in other.state_dict().items():
        assert torch.equal(tensor, before[name]) != name.startswith("2.")
        assert torch.equal(model.state_dict()[name], before[name])
    again = randomised(model, ["2"], seed=1)
    assert torch.equal(other[2].weight, again[2].weight)
    assert not torch.equal(other[2].weight, randomised(model, ["2"], seed=2)[2].weight)
    cascade = randomised(model, ["4", "2"], seed=1)
    assert torch.equal(other[2].weight, cascade[2].weight)  # a layer's draw does not depend on the others


def test_where_nothing_is_randomised_nothing_changes():
    """Not even where patterns are estimated from other images than those that were given."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 8 * 8, 3)).eval()
    images = {name: torch.randn(1, 3, 10, 10) for name in "ab"}
    given = estimate_patterns(model, [torch.randn(200, 3, 10, 10)])
    other = [torch.rand(200, 3, 10, 10)]
    asked = Asked(
        explainers("gradient,pattern_attribution,pgig+baseline=black"), images, {"a": 0, "b": 1}, given,
        lambda model: estimate_patterns(model, other), black=torch.full((3, 1, 1), -2.0),
    )  # fmt: skip
    originals = dict(asked.maps(model))
    frozen, anew = (originals["a", "pattern_attribution", kind] for kind in ("frozen", "anew"))
    assert not torch.allclose(frozen, anew)
    rows = list(compare_randomised(asked, model, Stage("cascading", 1, "3", ()), originals))
    assert [(row.method, row.patterns) for row in rows[:5]] == [
        ("gradient", ""), ("pattern_attribution", "frozen"), ("pgig+baseline=black", "frozen"),
        ("pattern_attribution", "anew"), ("pgig+baseline=black", "anew"),
    ]  # fmt: skip
    for row in rows:
        assert (row.spearman, row.ssim) == (pytest.approx(1), pytest.approx(1))
    changed = list(compare_randomised(asked, model, Stage("cascading", 2, "0", ("3", "0")), originals))
    assert all(row.spearman < 0.999 for row in changed)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "net.py").write_text(FACTORY)
    rng = numpy.random.default_rng(0)
    (tmp_path / "photos").mkdir()
    for number in range(6):
        Image.fromarray(rng.integers(0, 255, (40, 50, 3), numpy.uint8)).save(tmp_path / "photos" / f"{number}.png")
    return tmp_path


def test_the_command_answers_both_questions_and_goes_on(folder):
    size = ("--model", "net:make", "--size", "32", "--resize", "32")
    assert run(folder, "patterns", *size, "--images", "photos", "--out", "p.safetensors").returncode == 0
    call = ("randomize", *size, "--images", "photos", "--limit", "3", "--patterns", "p.safetensors", "--out", "run")
    call = (*call, "--estimate-from", "photos", "--methods", "gradient,pgig,random")  # type: ignore[assignment]
    done = run(folder, *call)
    assert done.returncode == 0, done.stderr
    with (folder / "run" / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["method"] for row in rows} == {"gradient", "random", "pgig (frozen)", "pgig (anew)"}
    assert {(row["mode"], row["layer"]) for row in rows} == {
        (mode, layer) for mode in ("cascading", "independent") for layer in ("4", "0")
    }
    for row in rows:
        assert float(row["ssim low"]) <= float(row["ssim"]) <= float(row["ssim high"])
        if row["method"] == "random":  # noise does not look at the model
            assert float(row["spearman"]) == pytest.approx(1)
        if row["method"] == "gradient" and row["mode"] == "cascading" and row["layer"] == "0":
            assert abs(float(row["spearman"])) < 0.9
    assert (folder / "run" / "randomization.png").stat().st_size > 1000
    stage = folder / "run" / "stages" / "cascading-002.csv"
    content, stamp = stage.read_bytes(), (folder / "run" / "stages" / "cascading-001.csv").stat().st_mtime_ns
    stage.unlink()
    assert run(folder, *call).returncode == 0
    assert stage.read_bytes() == content
    assert (folder / "run" / "stages" / "cascading-001.csv").stat().st_mtime_ns == stamp
    for damage in (b"", content[: len(content) // 2], content.replace(b"spearman", b"x"), b"\xff\xfe"):
        stage.write_bytes(damage)
        done = run(folder, *call)
        assert done.returncode == 2
        assert "cascading-002.csv is damaged: delete it" in done.stderr
    stage.write_bytes(content)
    (folder / "run" / "stages.csv").unlink()  # killed at the very end
    assert run(folder, *call).returncode == 0
    assert (
        run(folder, "patterns", *size, "--images", "photos", "--limit", "3", "--out", "q.safetensors").returncode == 0
    )
    other = run(folder, *call, "--patterns", "q.safetensors")
    assert other.returncode == 2
    assert "patterns_digest was" in other.stderr
    other = run(folder, *call, "--seed", "3")
    assert other.returncode == 2
    assert "seed was 0, now 3" in other.stderr


def test_attributions_without_an_order_are_told_of(folder):
    """Weights so large that random ones rule the class out: its probability is 0, and so is its gradient."""
    larger = "    with torch.no_grad():\n        model[4].weight.mul_(1e6)\n    return model\n"
    (folder / "sure.py").write_text(FACTORY.split("def wrong")[0].replace("return nn.Seq", "model = nn.Seq") + larger)
    call = ("randomize", "--model", "sure:make", "--size", "32", "--resize", "32", "--images", "photos", "--limit", "3",
            "--methods", "gradient,random", "--modes", "cascading")  # fmt: skip
    done = run(folder, *call, "--out", "run")
    assert done.returncode == 0, done.stderr
    assert "attributions have no order" in done.stderr
    assert "--score logit" in done.stderr
    assert "have no order" in (folder / "run" / "report.md").read_text()
    done = run(folder, *call, "--out", "logits", "--score", "logit")
    assert "no order" not in done.stderr + (folder / "logits" / "report.md").read_text()


def test_another_kind_of_run_is_not_overwritten_and_bad_images_are_named(folder):
    size = ("--model", "net:make", "--size", "32", "--resize", "32", "--images", "photos", "--methods", "gradient")
    assert run(folder, "degrade", *size, "--patch", "8", "--steps", "2", "--out", "run").returncode == 0
    before = (folder / "run" / "config.toml").read_bytes()
    done = run(folder, "randomize", *size, "--out", "run")
    assert done.returncode == 2
    assert "is that of a degradation run" in done.stderr
    assert (folder / "run" / "config.toml").read_bytes() == before
    (folder / "photos" / "0.png").write_bytes(b"")
    done = run(folder, "randomize", *size, "--limit", "3", "--out", "sanity")
    assert done.returncode == 0
    assert "1 of the images could not be read" in done.stderr
    assert "0.png" in (folder / "sanity" / "skipped.csv").read_text()
    done = run(folder, "report", "sanity")
    assert done.returncode == 2
    assert "is that of a randomisation run" in done.stderr


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--methods", "pgig"), "pgig need patterns: give --patterns FILE, --estimate-from DIR, or other --methods"),
        (("--out", "photos"), "--out is the folder of the images"),
        (("--modes", "up"), "unknown mode 'up'"),
        (("--modes", ","), "no mode given"),
        (("--layers", "0"), "at least one layer"),
        (("--limit", "0"), "limits must be at least 1"),
        (("--methods", ""), "no method given"),
        (("--images", "nowhere"), "no images at nowhere"),
    ],
)
def test_bad_arguments(folder, more, message):
    given = {"--images": "photos", "--methods": "gradient", "--out": "run"} | dict([more])
    size = ("--model", "net:make", "--size", "32", "--resize", "32")
    done = run(folder, "randomize", *size, *(word for pair in given.items() for word in pair))
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
