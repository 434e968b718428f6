"""Joins: what sums of branches send back can be shared out, and then attributions do not grow with every join."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import pgig
from pgig.network.trace import trace, trace_with_joins
from zoo import made

EXACT = {"rtol": 1e-9, "atol": 1e-12}
ADDITIONS = {
    "+": lambda a, b: a + b,
    "+=": lambda a, b: a.__iadd__(b),
    "add": lambda a, b: a.add(b),
    "add_": lambda a, b: a.add_(b),
    "torch.add": torch.add,
}


class Residual(nn.Module):
    """relu(x + branch(x)), some times over."""

    def __init__(self, add=ADDITIONS["+"], blocks: int = 3, gate: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(blocks))
        self.first, self.head = nn.Conv2d(2, 4, 3), nn.Linear(4, 3)
        self.add, self.gate = add, gate
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        for layer in self.layers:
            y = self.add(layer(y), y)
            y = y.relu() if self.gate else y
        return self.head(y.mean((2, 3)))


def data(rows: int = 40) -> Tensor:
    return torch.randn(rows, 2, 8, 8, generator=torch.Generator().manual_seed(1)).double()


@pytest.mark.parametrize("gate", [False, True])
def test_shares_are_the_papers_equation_for_the_join(gate):
    model, x = Residual(gate=gate, blocks=1).eval(), data()
    patterns = pgig.estimate_patterns(model, [x[:25], x[25:]], joins="shared")
    assert patterns.layers["join 1"].regime == ("positive" if gate else "linear")
    with torch.no_grad():
        first = model.first(x)
        branches = torch.stack([model.layers[0](first), first])  # [2, n, channels, ...]
    z = branches.sum(0)
    inside = (z > 0).double() if gate else torch.ones_like(z)

    def mean(values: Tensor) -> Tensor:  # over samples in the regime, by channel
        return (values * inside).sum((-4, -2, -1)) / inside.sum((-4, -2, -1))

    direction = mean(branches * z) - mean(branches) * z.mean((0, 2, 3))
    torch.testing.assert_close(patterns["join 1"][:, :, 0, 0], direction / direction.sum(0), **EXACT)
    torch.testing.assert_close(patterns["join 1"].sum(0).flatten(), torch.ones(4).double(), **EXACT)


@pytest.mark.parametrize("add", ADDITIONS.values(), ids=ADDITIONS)
def test_each_branch_is_sent_its_share(add):
    model, x = Residual(add).eval(), data()
    patterns = pgig.estimate_patterns(model, [x], joins="shared")
    joins = [name for name in patterns if name.startswith("join")]
    assert joins == ["join 1", "join 2", "join 3"]

    class ByHand(nn.Module):
        """Layers by the detach trick, joins by hooks."""

        def forward(self, x: Tensor) -> Tensor:
            y = _by_hand(model.first, patterns["first"], x)
            for number, layer in enumerate(model.layers):
                branches = _by_hand(layer, patterns[f"layers.{number}"], y), y * 1
                for branch, share in zip(branches, patterns[f"join {number + 1}"], strict=True):
                    branch.register_hook(lambda gradient, share=share: gradient * share)
                y = sum(branches).relu()
            return _by_hand(model.head, patterns["head"], y.mean((2, 3)))

    leaf = x[:3].clone().requires_grad_()
    (wanted,) = torch.autograd.grad(ByHand()(leaf)[:, 1].sum(), leaf)
    options = {"score": "logit", "start": "one"}
    found = pgig.attribute_all(
        ["pattern_attribution", "gradient", "guided_backprop"], model, x[:3], 1, patterns=patterns, **options
    )
    torch.testing.assert_close(found["pattern_attribution"], wanted, **EXACT)
    plain = pgig.attribute_all(["gradient", "guided_backprop"], model, x[:3], 1, **options)
    for name, attribution in plain.items():
        torch.testing.assert_close(found[name], attribution, **EXACT)
    ones = {name: torch.ones_like(p) if name.startswith("join") else p for name, p in patterns.items()}
    summed = {name: p for name, p in patterns.items() if not name.startswith("join")}
    torch.testing.assert_close(*(pgig.attribute("pgig", model, x[:3], 1, patterns=p) for p in (ones, summed)), **EXACT)


def _by_hand(layer: nn.Module, pattern: Tensor, x: Tensor) -> Tensor:
    value, weight = layer(x), layer.weight.detach()
    product = (
        nn.functional.linear(x, weight * pattern)
        if weight.dim() == 2
        else nn.functional.conv2d(x, weight * pattern, padding=layer.padding)
    )
    return product + (value - product).detach()


def test_attributions_do_not_grow_with_joins():
    class Doubling(nn.Module):
        """Every join adds what it is given to itself: 2 ** joins paths."""

        def __init__(self, joins: int) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layers = nn.ModuleList(nn.Linear(5, 5, bias=False) for _ in range(joins))
            self.double()

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                y = layer(x)
                x = y + y.clone()
            return x

    x = torch.randn(60, 5).double()
    model = Doubling(12).eval()
    assert trace(model, x[:1]).paths == 2**12
    sums = {}
    for joins in ("summed", "shared"):
        patterns = pgig.estimate_patterns(model, [x], joins=joins)
        found = pgig.attribute("pattern_attribution", model, x[:4], 1, score="logit", start="one", patterns=patterns)
        sums[joins] = found.sum(1)
        assert ("attributions may explode" in str(patterns.health())) == (joins == "summed")
    torch.testing.assert_close(
        sums["shared"], torch.ones(4).double(), **EXACT
    )  # all of what was sent back, and no more
    torch.testing.assert_close(sums["summed"], torch.full((4,), 2.0**12).double(), rtol=1e-6, atol=0)
    assert "attributions may explode: branches are added on 4.1e+03 paths" in str(pgig.check(model, x[:2]))


def test_units_of_joins_are_channels_of_maps_and_features_of_tokens():
    x = torch.rand(1, 3, 32, 32)
    resnet = trace_with_joins(made("resnet18"), x).layers
    assert {tuple(layer.original.shape[1:]) for name, layer in resnet.items() if name.startswith("join")} == {
        (64, 1, 1), (128, 1, 1), (256, 1, 1), (512, 1, 1),
    }  # fmt: skip
    vit = trace_with_joins(made("vit"), x).layers
    shapes = {tuple(layer.original.shape) for name, layer in vit.items() if name.startswith("join")}
    assert shapes
    assert all(shape[:2] == (2, 1) and shape[2] > 1 for shape in shapes)


def test_shared_joins_survive_files_and_addition(tmp_path):
    model, x = Residual().eval(), data()
    halves = [pgig.estimate_moments(model, [half], joins="shared") for half in x.split(20)]
    for number, half in enumerate(halves):
        half.save(tmp_path / f"{number}.safetensors")
    added = sum(pgig.Moments.load(tmp_path / f"{number}.safetensors") for number in (0, 1))
    assert isinstance(added, pgig.Moments)
    whole = pgig.estimate_patterns(model, [x], joins="shared")
    added.patterns().save(tmp_path / "patterns.safetensors")
    loaded = pgig.Patterns.load(tmp_path / "patterns.safetensors")
    assert list(loaded.facts) == list(whole.facts)
    for name in whole:
        torch.testing.assert_close(loaded[name], whole[name], **EXACT)
    found, wanted = (pgig.attribute("pgig", model, x[:2], 1, patterns=p) for p in (loaded, whole))
    torch.testing.assert_close(found, wanted, **EXACT)
    with pytest.raises(pgig.PgigError, match="different regimes"):
        _ = halves[0] + pgig.estimate_moments(model, [x])


def test_joins_of_another_order_are_refused():
    model, x = Residual().eval(), data()
    patterns = pgig.estimate_patterns(model, [x], joins="shared")
    fewer = pgig.Patterns({n: p for n, p in patterns.items() if n != "join 3"})
    with pytest.raises(pgig.PgigError, match=r"no pattern for 'join 3'.*joins='summed'"):
        pgig.attribute("pgig", model, x[:2], 1, patterns=fewer)
    more = {**patterns, "join 4": patterns["join 1"]}
    with pytest.raises(pgig.PgigError, match="these patterns have 4 joins"):
        pgig.attribute("pgig", model, x[:2], 1, patterns=more)
    with pytest.raises(pgig.PgigError, match="unknown joins 'split'"):
        pgig.estimate_patterns(model, [x], joins="split")


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad:UserWarning")
def test_checkpoints_that_add_again_are_refused():
    class Recomputed(Residual):
        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(super().forward, x, use_reentrant=False)

    model, x = Recomputed().eval(), data()
    patterns = pgig.estimate_patterns(model, [x], joins="shared")
    with pytest.raises(pgig.PgigError, match="recomputes some"):
        pgig.attribute("pgig", model, x[:2], 1, patterns=patterns)
    summed = pgig.estimate_patterns(model, [x])
    assert pgig.attribute("pgig", model, x[:2], 1, patterns=summed).isfinite().all()


class Positions(nn.Module):
    """What is added to all rows alike is no branch: one row or many, the same joins."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.embed, self.branch, self.head = nn.Embedding(4, 5), *(nn.Linear(5, 5) for _ in range(3))
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        y = self.embed(x) + self.table(torch.arange(4))[None]
        y = y + torch.zeros_like(y)
        y = y + self.branch(y).relu()
        return self.head(y.mean(1))


@pytest.mark.parametrize("estimated", [1, 7])
def test_joins_do_not_depend_on_the_number_of_rows(estimated):
    model, x = Positions().eval(), torch.randn(42, 4, 5).double()
    patterns = pgig.estimate_patterns(model, x.split(estimated), joins="shared")
    assert [name for name in patterns if name.startswith("join")] == ["join 1"]
    found = [
        pgig.attribute("pgig", model, x[:5], 1, patterns=patterns, steps=3, batch_size=size) for size in (None, 1, 2, 7)
    ]
    for other in found[1:]:
        torch.testing.assert_close(found[0], other, **EXACT)


def test_a_pass_with_fewer_joins_is_refused():
    class Sometimes(Residual):
        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x)
            return y + y.relu() if bool((x[:, 0, 0, 0] > 100).any()) else y

    model, x = Sometimes().eval(), data()
    patterns = pgig.estimate_patterns(model, [x], joins="shared")
    far = x[:2] + 200
    with pytest.raises(pgig.PgigError, match=r"no pattern for 'join 4'|adds branches 4 times"):
        pgig.attribute("pattern_attribution", model, far, 1, patterns=patterns)
    with pytest.raises(pgig.PgigError, match=r"another order|adds branches 4 times"):
        pgig.estimate_patterns(model, [x, far], joins="shared")
