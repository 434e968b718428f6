"""The preflight says what happens, and that it does."""

import pytest
import torch
from networks import NETWORKS, Centring, images, network
from torch import nn

import pgig
from pgig.network.convolution import Convolution
from pgig.vision import load_model
from pgig.vision.preprocess import example
from zoo import ZOO, made


@pytest.mark.parametrize("name", ZOO)
def test_every_kind_of_model_passes(name):
    report = pgig.check(made(name), torch.rand(1, 3, 32, 32))
    assert report.ok, str(report)
    assert 0 < report.covered <= 1
    assert str(report).splitlines()[-1].startswith("yes")
    assert any("pattern, " in row.treatment for row in report.rows)


@pytest.mark.parametrize("net", NETWORKS)
def test_the_small_networks_are_covered_wholly(net):
    report = pgig.check(network(net), images(1))
    assert report.ok
    assert report.unsupported == ()
    if net != "functional":  # its bias has a name of its own
        assert report.covered == 1


def test_treatments_are_named():
    rows = {
        row.layer or row.operation: row.treatment for row in pgig.check(made("resnet18"), torch.rand(1, 3, 64, 64)).rows
    }
    assert rows["conv1"] == "pattern, positive regime, norm folded"
    assert rows["layer1.0.conv2"] == "pattern, linear regime, norm folded"
    assert rows["fc"] == "pattern, linear regime"
    assert rows["add"] == "plain gradient"
    assert rows["max_pool2d"] == "plain gradient"
    vit = pgig.check(made("vit"), torch.rand(1, 3, 32, 32))
    assert vit.unsupported == ()
    assert vit.covered == 1
    assert "position" in vit.others
    assert "other parameters, which need no pattern: " in str(vit)


def test_a_model_that_is_no_function_of_its_input_fails():
    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x):
            return self.layer(x) + torch.rand(3)

    report = pgig.check(Noisy().eval(), torch.rand(1, 4))
    assert not report.ok
    assert "outputs change under the rules" in report.failures
    assert str(report).splitlines()[-1].startswith("no")
    assert not pgig.check(nn.Sequential(nn.Flatten(), nn.ReLU()), torch.rand(1, 4)).ok
    with pytest.raises(pgig.PgigError, match="training mode"):
        pgig.check(nn.Sequential(nn.Dropout(), nn.Linear(4, 3)), torch.rand(1, 4))


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(9, 4), nn.Linear(12, 3)

    def forward(self, ids):
        return self.head((self.words(ids) + self.words(ids)).flatten(1))


def test_whole_numbers_are_remarked_on():
    model = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(12, 3)).eval()
    report = pgig.check(model, torch.randint(9, (1, 3)))
    assert report.ok
    assert report.unsupported == ()
    assert report.others == ("0", "2.bias")
    assert "token ids: gradients were tested from the output of '0' on" in report.remarks[0]
    twice = pgig.check(Twice().eval(), torch.randint(9, (1, 3)))
    assert twice.ok
    assert "whole numbers" in twice.remarks[0]


@pytest.mark.parametrize("broken", ["gradient", "forward"])
def test_the_self_test_can_fail(broken, monkeypatch):
    from pgig.network.functions import LayerFunction

    if broken == "gradient":
        right = Convolution.input_gradient
        monkeypatch.setattr(Convolution, "input_gradient", lambda *args: 2 * right(*args))
    else:
        right = LayerFunction.forward  # type: ignore[assignment]
        monkeypatch.setattr(LayerFunction, "forward", staticmethod(lambda *args: right(*args) + 1))
    report = pgig.check(network("chain"), images(1))
    assert not report.ok
    assert ("autograd's" if broken == "gradient" else "outputs change") in "".join(report.failures)


@pytest.mark.parametrize("example", [None, "text", (), torch.rand(1, 7), torch.tensor(1.0)])
def test_a_bad_example_gets_a_clear_error(example):
    with pytest.raises(pgig.PgigError, match="example"):
        pgig.check(nn.Sequential(nn.Linear(4, 3)).eval(), example)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["squeezenet1_0", "squeezenet1_1", "resnet18", "vgg11"])
def test_rounding_that_flips_a_relu_is_not_called_a_failure(name, two_threads):
    """In float32 the gradients of all of these differ from autograd's for one example or another."""
    model = load_model(name, "random")
    for seed in range(3 if name != "vgg11" else 1):
        x = torch.rand(1, 3, 224, 224, generator=torch.Generator().manual_seed(seed))
        report = pgig.check(model, x)
        assert report.ok, report.failures


def test_the_real_network_passes(shared, two_threads):
    model = load_model("squeezenet1_0", str(shared / "models" / "squeezenet1_0_imagenet.safetensors"))
    assert pgig.check(model, example(224)).ok


class Single(nn.Module):
    """Computes in float32 whatever it is given, or refuses all else."""

    def __init__(self, strict):
        super().__init__()
        self.net, self.strict = network("residual", torch.float32), strict

    def double(self):
        return self  # as weights that a module keeps to itself stay what they are

    def forward(self, x):
        assert not self.strict or x.dtype == torch.float32
        return self.net(x.float())


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("broken", [True, False])
def test_a_model_that_cannot_run_in_float64_is_judged_by_the_share_of_values(strict, broken, monkeypatch):
    if broken:
        right = Convolution.input_gradient
        monkeypatch.setattr(Convolution, "input_gradient", lambda *args: 1.2 * right(*args))
    report = pgig.check(Single(strict).eval(), images(1, torch.float32))
    assert report.ok is not broken


def test_the_verdict_says_how_much_is_covered():
    class Text(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.out = nn.LSTM(8, 64, batch_first=True), nn.Linear(64, 2)

        def forward(self, x):
            return self.out(self.lstm(x)[0][:, -1])

    report = pgig.check(Text().eval(), torch.rand(1, 5, 8))
    assert "yes, but for 0." in str(report).splitlines()[-1]


def test_a_model_that_mixes_its_rows_is_remarked_on():
    report = pgig.check(Centring().eval(), images(3))
    assert report.ok
    assert "depends on the others in its batch" in str(report)
    assert not any("batch" in remark for remark in pgig.check(network("chain"), images(3)).remarks)
