"""What models return: a tensor in any wrapping, understood the same everywhere."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

import pgig
from pgig.degradation import Protocol
from pgig.incremental import plan_of
from pgig.measures.evaluators import Wish, choose


class Named(NamedTuple):
    features: Tensor
    logits: Tensor


@dataclass
class Output:
    logits: Tensor
    features: Tensor


KINDS = {
    "dict by logits": lambda y, x: {"features": x, "logits": y},
    "dict by out": lambda y, x: {"aux": x, "out": y},
    "logits before out": lambda y, x: {"out": x, "logits": y},
    "the only one in a dict": lambda y, x: {"scores": y, "name": "it"},
    "the only one in a tuple": lambda y, x: (y, None),
    "the only one in a list": lambda y, x: [y],
    "named tuple": lambda y, x: Named(x, y),
    "object": lambda y, x: Output(y, x),
}


class Returning(nn.Module):
    def __init__(self, wrap) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU())
        self.head, self.wrap = nn.Linear(4, 3), wrap

    def forward(self, x: Tensor) -> Any:
        y = self.body(x)
        return self.wrap(self.head(y.mean((2, 3))), y)


PLAIN = Returning(lambda y, x: y).eval()
X = torch.randn(2, 3, 24, 24, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("wrap", KINDS.values(), ids=KINDS)
def test_the_answer_is_found_everywhere(wrap):
    model = Returning(wrap).eval()
    patterns, same = (pgig.estimate_patterns(m, [torch.cat([X] * 20)]) for m in (model, PLAIN))
    for name in same:
        torch.testing.assert_close(patterns[name], same[name])
    methods = ["integrated_gradients", "guided_backprop", "pgig"]
    found, wanted = (pgig.attribute_all(methods, m, X, patterns=same, steps=3) for m in (model, PLAIN))
    for name in methods:
        torch.testing.assert_close(found[name], wanted[name])
    explanation = pgig.explain(model, X, "gradient")["gradient"]
    assert (explanation.predicted == PLAIN(X).argmax(1).numpy()).all()
    torch.testing.assert_close(*(pgig.occlusion(m, X, window=8, stride=8) for m in (model, PLAIN)))
    assert pgig.check(model, X[:1]).ok
    plan = plan_of(model, X[:1])
    plan.allocate(1, X.device)
    plan.begin(X[:1], [1])
    torch.testing.assert_close(plan.result(slice(0, 1)), PLAIN(X[:1]))
    notes = [choose(Wish(), m, X[:1], Protocol(patch=4, steps=2)).note for m in (model, PLAIN)]
    assert notes[0] == notes[1]


@pytest.mark.parametrize("wrap", [lambda y, x: (y, x), lambda y, x: {"a": y, "b": x}, lambda y, x: "nothing"])
def test_where_there_is_no_telling_a_score_is_asked_for(wrap):
    model = Returning(wrap).eval()
    for ask in (lambda: pgig.attribute("gradient", model, X), lambda: pgig.attribute("gradient", model, X, 1)):
        with pytest.raises(pgig.PgigError, match=r"none of it is named 'logits' or 'out': pass score="):
            ask()
    with pytest.raises(pgig.PgigError):
        pgig.occlusion(model, X, window=8)


@dataclass
class Scores:
    scores: torch.Tensor


class Changing(torch.nn.Module):
    def __init__(self, change) -> None:
        super().__init__()
        self.layer, self.change = torch.nn.Linear(4, 3), change

    def forward(self, x: torch.Tensor):
        return self.change(self.layer(x))


def test_a_dataclass_with_one_tensor_is_its_answer():
    model, x = Changing(Scores).eval(), torch.randn(2, 4)
    assert pgig.check(model, x).ok
    torch.testing.assert_close(
        pgig.attribute("gradient", model, x, 1), pgig.attribute("gradient", lambda x: model(x).scores, x, 1)
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y: None, "returned a NoneType"),
        (lambda y: {}, "returned a dict"),
        (lambda y: y > 0, "no gradient"),
        (lambda y: y.detach(), "no gradient"),
        (lambda y: y * float("nan"), "NaN"),
        (lambda y: y.to(torch.complex64), "no gradient"),
    ],
    ids=["none", "empty", "bool", "detached", "nan", "complex"],
)
def test_check_refuses_what_cannot_be_explained(change, message):
    with pytest.raises(pgig.PgigError, match=message):
        pgig.check(Changing(change).eval(), torch.randn(2, 4))


def test_check_takes_one_number_for_all_and_says_when_a_score_is_needed():
    assert pgig.check(Changing(lambda y: y.sum()).eval(), torch.randn(2, 4)).ok
    assert "methods need score=" in str(pgig.check(Changing(lambda y: (y, y[:, :2])).eval(), torch.randn(2, 4)))


def test_a_name_is_given_once():
    model = Changing(lambda y: y).eval()
    with pytest.raises(pgig.PgigError, match="both among the inputs and in forward_kwargs"):
        pgig.attribute("gradient", model, {"x": torch.randn(2, 4)}, 1, forward_kwargs={"x": torch.randn(2, 4)})
