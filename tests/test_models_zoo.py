"""Pattern estimation and pattern methods on architectures of every kind."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pgig
from zoo import ZOO, made


@pytest.mark.filterwarnings("ignore:.*unreliable:pgig.PgigWarning")  # a few random images are few samples
@pytest.mark.parametrize("name", ZOO)
def test_patterns_for_any_model(name):
    model = made(name)
    data = torch.rand(24, 3, 32, 32) - 0.3
    patterns = pgig.estimate_patterns(model, data.split(8))
    assert patterns.unsupported == ()
    convolutional = {n for n, m in model.named_modules() if isinstance(m, nn.Conv2d | nn.ConvTranspose2d)}
    assert convolutional <= set(patterns)
    assert all(p.isfinite().all() for p in patterns.values())
    assert max(layer.error for layer in patterns.layers.values()) < 1e-3
    x = data[:2].double()
    model = model.double()
    ones = {n: torch.ones_like(p).double() for n, p in patterns.items()}
    found = pgig.attribute_all(
        ["gradient", "pattern_attribution"], model, x, 1, patterns=ones, score="logit", start="one"
    )
    torch.testing.assert_close(found["pattern_attribution"], found["gradient"], rtol=1e-9, atol=1e-12)
    guided = pgig.attribute("pgig", model, x, 1, patterns={n: p.double() for n, p in patterns.items()}, steps=5)
    assert guided.isfinite().all()
    assert guided.abs().sum() > 0


@pytest.mark.filterwarnings("ignore::pgig.PgigWarning")
def test_regimes_follow_the_relus():
    regimes = {
        name: {
            n: layer.regime
            for n, layer in pgig.estimate_patterns(made(name), [torch.rand(2, 3, 32, 32)]).layers.items()
        }
        for name in ("resnet18", "dense", "u-net")
    }
    assert regimes["resnet18"]["conv1"] == "positive"
    assert regimes["resnet18"]["layer1.0.conv1"] == "positive"
    assert regimes["resnet18"]["layer1.0.conv2"] == "linear"  # is added to another branch before its ReLU
    assert regimes["resnet18"]["layer2.0.downsample.0"] == "linear"
    assert regimes["resnet18"]["fc"] == "linear"
    assert set(regimes["dense"].values()) == {"linear"}
    assert regimes["u-net"] == {
        "down1": "positive",
        "down2": "positive",
        "up": "positive",
        "join": "positive",
        "out": "linear",
    }


def test_a_text_classifier_lists_what_it_cannot_do():
    class Text(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(50, 8)
            self.lstm = nn.LSTM(8, 12, batch_first=True)
            self.hidden, self.out = nn.Linear(12, 6), nn.Linear(6, 3)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.from_words(self.words(tokens))

        def from_words(self, words: Tensor) -> Tensor:
            return self.out(F.relu(self.hidden(self.lstm(words)[0][:, -1])))

    torch.manual_seed(0)
    model = Text().eval()
    tokens = torch.randint(50, (2000, 7))
    patterns = pgig.estimate_patterns(model, tokens.split(500))
    assert list(patterns) == ["hidden", "out"]
    assert set(patterns.unsupported) == {"lstm.weight_ih_l0", "lstm.weight_hh_l0"}
    assert "without a pattern: lstm.weight_ih_l0" in str(patterns.health())


def test_pooling_and_dropout_between_a_layer_and_its_relu_do_not_matter():
    torch.manual_seed(0)
    conv = nn.Conv2d(3, 4, 3)
    between = nn.Sequential(conv, nn.MaxPool2d(2), nn.Dropout(), nn.Identity(), nn.ReLU(), nn.Flatten()).eval()
    averaged = nn.Sequential(conv, nn.AvgPool2d(2), nn.ReLU(), nn.Flatten()).eval()
    x = torch.randn(8, 3, 12, 12)
    direct = pgig.estimate_patterns(nn.Sequential(conv, nn.ReLU()).eval(), [x])
    torch.testing.assert_close(pgig.estimate_patterns(between, [x])["0"], direct["0"])
    assert pgig.estimate_patterns(averaged, [x]).layers["0"].regime == "linear"
