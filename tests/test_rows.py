"""Chunks never show in a result: a model that mixes the rows of its batch is refused, or put through whole."""

import pytest
import torch
import torch.nn.functional as F
from networks import Centring, images, network, patterns_of_ones, random_patterns
from torch import nn

import pgig
from pgig.subject.subject import _KNOWN

NET, X = network("chain"), images(4)
EXACT = {"rtol": 0, "atol": 1e-12}


def whole(name, model, x, **options):
    """The definition: for every point one pass of all inputs together, with autograd."""
    line = x * (torch.arange(1, 6).double() / 5).reshape(-1, 1, 1, 1, 1)
    total = torch.zeros_like(x)
    for at in line if name == "integrated_gradients" else [x]:
        inside = at.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(model(inside).softmax(1)[:, 1].sum(), inside)
        total += gradient
    return total / 5 * x if name == "integrated_gradients" else total


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("name", pgig.METHODS)
def test_a_model_that_mixes_its_rows_is_refused(name, count):
    model, x = Centring(), X[:count]
    patterns = {f"net.{key}": value for key, value in random_patterns(model.net).items()}
    options = {"patterns": patterns, "references": X}
    if count == 1 and pgig.METHODS[name].points.count == 1:
        pgig.attribute(name, model, x, 1, **options)  # one row in one pass: there is nothing to mix
        return
    for batch_size in (None, 2, 3):
        with pytest.raises(pgig.PgigError, match="depends on the others in its batch: give batch_size='whole'"):
            pgig.attribute(name, model, x, 1, batch_size=batch_size, **options)
    assert pgig.attribute(name, model, x, 1, batch_size="whole", **options).isfinite().all()


@pytest.mark.parametrize("name", ["gradient", "integrated_gradients"])
def test_whole_batches_are_what_autograd_says(name):
    model = Centring()
    options = {"steps": 5} if name == "integrated_gradients" else {}
    found = pgig.attribute(name, model, X, 1, batch_size="whole", **options)
    torch.testing.assert_close(found, whole(name, model, X), **EXACT)


@pytest.mark.parametrize("name", pgig.METHODS)
def test_where_rows_are_not_mixed_whole_batches_change_nothing(name):
    options = {"patterns": random_patterns(NET), "references": X}
    usual, together = (pgig.attribute(name, NET, X, 1, batch_size=size, **options) for size in (None, "whole"))
    torch.testing.assert_close(usual, together, **EXACT)


def test_a_loss_that_closes_over_the_labels_of_its_batch():
    labels = torch.tensor([0, 1, 2, 3])

    def loss(x):
        return F.cross_entropy(NET(x), labels, reduction="none")

    for options in ({}, {"batch_size": 1}, {"batch_size": 3}):
        with pytest.raises(pgig.PgigError, match="whole batch of 4, but not one input by itself: give batch_size"):
            pgig.attribute("integrated_gradients", loss, X, score=lambda y: y, **options)
    found = pgig.attribute("gradient", loss, X, score=lambda y: y, batch_size="whole")
    for row in range(4):
        single = pgig.attribute(
            "gradient",
            NET,
            X[row : row + 1],
            score=lambda y, r=row: F.cross_entropy(y, labels[r : r + 1], reduction="none"),  # type: ignore[misc]
        )
        torch.testing.assert_close(found[row : row + 1], single, **EXACT)


class Labelled(nn.Module):
    """A loss per row of a whole batch, with convolutions, which would run in channels_last."""

    def __init__(self, labels):
        super().__init__()
        self.net, self.labels = network("chain", torch.float32), labels

    def forward(self, x):
        return F.cross_entropy(self.net(x), self.labels, reduction="none")


def test_a_module_that_holds_the_labels_of_its_batch():
    model, x = Labelled(torch.tensor([0, 1, 2, 3])), X.float()
    with pytest.raises(pgig.PgigError, match="whole batch of 4, but not one input by itself"):
        pgig.attribute("integrated_gradients", model, x, score=lambda y: y)
    inside = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(model(inside).sum(), inside)
    found = pgig.attribute("gradient", model, x, score=lambda y: y, batch_size="whole")
    torch.testing.assert_close(found, expected)


MIXING = {
    "less the first": lambda x: NET(x - x[:1]),
    "sums": lambda x: NET(x.cumsum(0)),
    "by the largest": lambda x: NET(x / x.abs().max()),
    "normalised": lambda x: NET((x - x.mean(0)) / (x.std(0, correction=0) + 1e-3)),
    "each with each": lambda x: NET(x) @ NET(x).T,
    "sorted": lambda x: NET(x.sort(0).values),
    "beside minus infinity": lambda x: torch.cat([NET(x - x.mean(0))[:, :4], torch.full((len(x), 1), -1e38)], 1),
    "with a gap": lambda x: NET(x.roll(1, 0)),
}


@pytest.mark.parametrize("way", MIXING)
def test_rows_can_be_mixed_in_many_ways(way):
    with pytest.raises(pgig.PgigError, match=r"depends on the others|whole batch of 4"):
        pgig.attribute("integrated_gradients", MIXING[way], X, 0, score="logit")


def test_a_model_that_takes_one_row_only():
    layer = nn.Linear(192, 5).double()

    def single(x):
        return layer(x.reshape(1, 192))

    expected = pgig.attribute("gradient", lambda x: layer(x.flatten(1)), X, 1)
    torch.testing.assert_close(pgig.attribute("gradient", single, X, 1, batch_size=1), expected, **EXACT)
    with pytest.raises(pgig.PgigError, match=r"takes one input alone, but not three .*: give batch_size=1"):
        pgig.attribute("gradient", single, X, 1)


def test_a_loss_for_the_whole_batch_is_told_what_to_be():
    labels = torch.tensor([0, 1, 2, 3])
    with pytest.raises(pgig.PgigError, match=r"one number for the whole batch of 4.*reduction='none'.*'whole'"):
        pgig.attribute("gradient", NET, X, score=lambda y: F.cross_entropy(y, labels))


def test_what_else_a_model_returns_need_not_have_rows():
    class Busy(nn.Module):
        """Also says how often each of its experts was asked, over the batch."""

        def __init__(self):
            super().__init__()
            self.net = network("chain")

        def forward(self, x):
            y = self.net(x)
            return {"logits": y, "load": y.sum(0), "all": y.sum()}

    assert pgig.attribute("integrated_gradients", Busy(), X, score=lambda y: y["logits"][:, 1]).isfinite().all()


def test_a_random_model_is_not_called_one_that_mixes_rows():
    def noisy(x):
        return NET(x) + torch.rand(5)

    with pytest.warns(pgig.PgigWarning, match="another answer each time"):
        assert pgig.attribute("integrated_gradients", noisy, X, 1, steps=2).isfinite().all()


def test_a_score_that_mixes_rows_is_refused_too():
    def against_the_batch(y):
        return y[:, 1] * y[:, 1].mean()

    with pytest.raises(pgig.PgigError, match="depends on the others"):
        pgig.attribute("gradient", NET, X, score=against_the_batch)
    assert pgig.attribute("gradient", NET, X, score=against_the_batch, batch_size="whole").abs().sum() > 0
    assert pgig.attribute("gradient", NET, X, score=lambda y: y[:, 1]).abs().sum() > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_rounding_is_not_mixing(dtype):
    model, x = network("residual", dtype), images(3, dtype)
    assert pgig.attribute("integrated_gradients", model, x, 1, steps=3).isfinite().all()


def test_a_model_is_looked_at_once_per_shape_and_forgotten_with_it():
    calls = []

    def counted(x):
        calls.append(len(x))
        return NET(x)

    pgig.attribute("gradient", counted, X, 1, batch_size=4)
    assert calls == [1, 3, 4]
    pgig.attribute("gradient", counted, X, 1, batch_size=4)
    assert calls == [1, 3, 4, 4]
    before = len(_KNOWN)
    del counted
    assert len(_KNOWN) == before - 1


def test_inputs_without_a_batch_axis_are_told_so():
    with pytest.raises(pgig.PgigError, match=r"shape \(3, 8, 8\) have no batch axis.*x\[None\]"):
        pgig.attribute("integrated_gradients", NET, X[0], 1)
    grey = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(72, 5)).double().eval()
    for options in ({}, {"batch_size": 1}, {"batch_size": "whole"}):  # also where there is nothing to mix
        with pytest.raises(pgig.PgigError, match=r"shape \(1, 8, 8\) have no batch axis"):
            pgig.attribute("gradient", grey, X[0, :1], 1, **options)
    with pytest.raises(RuntimeError, match="expected input"):  # what is really wrong is not hidden
        pgig.attribute("gradient", NET, X[:, :2], 1)


def test_token_ids_are_told_to_explain_their_embedding():
    with pytest.raises(pgig.PgigError, match="explain_tokens explains token ids"):
        pgig.attribute("gradient", NET, torch.arange(12).reshape(2, 6))


def test_completeness_of_a_model_that_mixes_its_rows():
    a = pgig.attribute("integrated_gradients", Centring(), X, 1, batch_size="whole", steps=400)
    with pytest.raises(pgig.PgigError, match="depends on the others"):
        pgig.completeness(a, Centring(), X, 1)
    for wrong in (0, -1, "all"):
        with pytest.raises(pgig.PgigError, match="batch_size must be"):
            pgig.completeness(a, Centring(), X, 1, batch_size=wrong)
    # the sum over the batch is complete: each row's score depends on all rows
    assert float(pgig.completeness(a, Centring(), X, 1, batch_size="whole").sum().abs()) < 1e-2


def test_occlusion_refuses_a_model_that_mixes_its_rows():
    with pytest.raises(pgig.PgigError, match="depends on the others"):
        pgig.occlusion(Centring(), X, 1, window=4, stride=4)
    assert pgig.occlusion(NET, X, 1, window=4, stride=4).isfinite().all()


class Across(nn.Module):
    """A convolution over tokens, each of which is a channel."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(64, 64, 1)

    def forward(self, x):
        return self.conv(x)[..., :5]


@pytest.mark.parametrize("kind", [lambda: nn.Linear(6, 5), Across], ids=["linear", "convolution"])
@pytest.mark.parametrize("inplace", [True, False])
def test_patterns_of_ones_are_autograd_for_blocks_of_norm_and_tokens(kind, inplace):
    """A batch norm in front of a transposition, where torch's own backward minds the strides it is given."""

    class Block(nn.Module):
        def __init__(self, head):
            super().__init__()
            self.conv, self.bn, self.tokens = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), kind()
            self.head = head

        def forward(self, x):
            y = self.bn(self.conv(x))
            y = y.relu_() if inplace else y
            return self.head(self.tokens(y.flatten(2).transpose(1, 2)))

    heads = [lambda y: y.mean(1), lambda y: y.flatten(1), lambda y: y.transpose(1, 2).relu().mean(2)]
    heads += [lambda y: y.transpose(1, 2).unflatten(2, (8, 8)).mean((2, 3)), lambda y: (y * y).sum(1)]
    x = images(8)
    for head in heads:
        model = Block(head).double().eval()
        nn.init.uniform_(model.bn.running_var, 0.5, 2)
        inside = x.clone().requires_grad_()
        (expected,) = torch.autograd.grad(model(inside)[:, 1].sum(), inside)
        for batch_size in (1, 2, 8, None):
            for method in ("gradient", "pattern_attribution"):
                found = pgig.attribute(
                    method, model, x, 1, score="logit", start="one", batch_size=batch_size,
                    patterns=patterns_of_ones(model),
                )  # fmt: skip
                torch.testing.assert_close(found, expected, **EXACT)
        assert pgig.check(model, x).ok
        assert pgig.check(model, x[:1]).ok
