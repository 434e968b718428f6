"""Subjects: what is found out about a model is found out once, and not kept beyond its weights."""

import copy
import gc
from weakref import ref

import pytest
import torch
from networks import images, network, random_patterns
from torch import Tensor, nn

import pgig
from pgig.errors import PgigError
from pgig.explainers.registry import known_explainers
from pgig.subject.subject import _KNOWN


class Counting(nn.Module):
    """Counts how many rows go through it, call by call."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.rows: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.rows.append(len(x))
        return self.inner(x)


def test_a_subject_stands_wherever_a_model_can():
    model, x, target = network("chain"), images(), torch.tensor([0, 1, 2])
    patterns = random_patterns(model)
    subject = pgig.Subject(model, patterns=patterns)
    for name in ("gradient", "pgig"):
        wanted = pgig.attribute(name, model, x, target, patterns=patterns)
        torch.testing.assert_close(pgig.attribute(name, subject, x, target), wanted, rtol=0, atol=0)
    found = pgig.attribute_all(["pgig"], subject, x, target)["pgig"]
    explained = pgig.explain(subject, x, "pgig", target)["pgig"]
    torch.testing.assert_close(torch.from_numpy(explained.attribution), found)
    torch.testing.assert_close(
        pgig.occlusion(subject, x, target, window=5, stride=5), pgig.occlusion(model, x, target, window=5, stride=5)
    )
    assert str(pgig.check(subject, x)) == str(pgig.check(model, x))
    torch.testing.assert_close(
        pgig.completeness(found, subject, x, target), pgig.completeness(found, model, x, target), rtol=0, atol=0
    )
    assert "patterns of 3 layers" in repr(subject)


def test_nothing_is_found_out_twice_and_changed_weights_are_noticed():
    model, x = Counting(network("chain").float()).eval(), images().float()
    pgig.attribute("gradient", model, x, 1)
    first = list(model.rows)
    model.rows.clear()
    pgig.attribute("gradient", pgig.Subject(model), x, 1)  # another subject of the same model
    assert len(model.rows) < len(first)
    again = list(model.rows)
    model.rows.clear()
    with torch.no_grad():
        next(model.parameters()).mul_(1.5)
    pgig.attribute("gradient", model, x, 1)
    assert model.rows == first
    model.rows.clear()
    pgig.attribute("gradient", model, x, 1)
    assert model.rows == again
    model.rows.clear()
    model.inner[0].bias = nn.Parameter(torch.zeros_like(model.inner[0].bias))  # a parameter in another's place
    pgig.attribute("gradient", model, x, 1)
    assert model.rows == first


def test_scratch_memory_of_a_model_is_no_change():
    class Caching(Counting):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__(inner)
            self.register_buffer("scratch", torch.zeros(1), persistent=False)

        def forward(self, x: Tensor) -> Tensor:
            self.scratch += 1  # type: ignore[assignment]
            return super().forward(x)

    model, x = Caching(network("chain")).eval(), images()
    pgig.attribute("gradient", model, x, 1)
    before = len(model.rows)
    pgig.attribute("gradient", model, x, 1)
    assert len(model.rows) - before < before


def test_what_is_known_goes_with_its_model():
    model = network("chain")
    gc.collect()
    before = len(_KNOWN)
    pgig.attribute("pgig", model, images(), 1, patterns=random_patterns(model))
    pgig.occlusion(model, images(1), 0, window=5, stride=5)
    assert len(_KNOWN) == before + 1
    held = ref(model)
    del model
    gc.collect()
    assert held() is None
    assert len(_KNOWN) == before


def test_patterns_of_other_weights_are_refused_also_where_nobody_counted():
    model, x = network("chain"), images()
    patterns = pgig.Patterns(random_patterns(model), pgig.Subject(model).digest)
    subject = pgig.Subject(model, patterns)
    pgig.attribute("pgig", subject, x, 1)
    next(model.parameters()).data.view(-1)[0] += 1  # torch does not count this
    with pytest.raises(PgigError, match=r"other weights than this model's: '0\.weight' differs"):
        pgig.attribute("pgig", subject, x, 1)
    pgig.attribute("pgig", subject.with_patterns(dict(patterns)), x, 1)


def test_copies_are_models_of_their_own():
    model = network("chain")
    digest = pgig.Subject(model).digest
    copied = copy.deepcopy(model)
    assert pgig.Subject(copied).digest == digest
    with torch.no_grad():
        next(copied.parameters()).mul_(2)
    assert pgig.Subject(copied).digest != digest
    assert pgig.Subject(model).digest == digest


def test_wrong_subjects():
    with pytest.raises(PgigError, match="must be a module or a callable"):
        pgig.Subject(3)
    with pytest.raises(PgigError, match="must be a mapping"):
        pgig.Subject(network("chain"), patterns=[1])
    with pytest.raises(PgigError, match="a Subject of a Subject"):
        pgig.Subject(pgig.Subject(network("chain")))
    with pytest.raises(PgigError, match="a module is needed here"):
        _ = pgig.Subject(lambda x: x.flatten(1)).digest
    with pytest.raises(PgigError, match="no inner place"):
        pgig.Subject(network("chain")).inner(images())


def test_inner_places_are_inputs_of_the_rest():
    """The output of a layer as a leaf: the same as to explain the rest of the network by itself."""
    torch.manual_seed(0)
    lower = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 3))
    upper = nn.Sequential(nn.ReLU(), nn.Conv2d(5, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 5))
    model, x = nn.Sequential(*lower, *upper).double().eval(), images()
    subject = pgig.Subject(model, at="2")
    inner = subject.inner(x)
    torch.testing.assert_close(inner, lower(x).detach())
    for name in ("gradient", "integrated_gradients", "smoothgrad", "guided_backprop"):
        found = pgig.attribute(name, subject, inner, 1, forward_args=(x,))
        torch.testing.assert_close(found, pgig.attribute(name, upper, inner, 1), rtol=1e-10, atol=1e-14)
    patterns = random_patterns(model)
    found = pgig.attribute("pgig", subject, inner, 1, patterns=patterns, forward_args=(x,))
    own = {str(int(name) - 3): p for name, p in patterns.items() if int(name) > 2}
    torch.testing.assert_close(found, pgig.attribute("pgig", upper, inner, 1, patterns=own), rtol=1e-10, atol=1e-14)
    with pytest.raises(PgigError, match=r"no layer '9' in this model; there are 0, 1, 2"):
        pgig.Subject(model, at="9")
    with pytest.raises(PgigError, match="a name or a module, got int"):
        pgig.Subject(model, at=0)
    with pytest.raises(PgigError, match=r"gives \(1, 5, 4, 4\), not"):
        pgig.attribute("gradient", subject, inner[:, :2], 1, forward_args=(x,))


@pytest.mark.parametrize("name", known_explainers())
def test_explaining_leaves_models_and_inputs_alone(name):
    model, x = network("chain"), images()
    subject = pgig.Subject(model, random_patterns(model))
    before, given = subject.digest, x.clone()
    named = "occlusion+window=5+stride=5" if name == "occlusion" else name
    pgig.explain(subject, x, named, 1, references=x)
    assert subject.digest == before
    assert torch.equal(x, given)


def test_plans_are_made_once_and_a_model_without_one_is_freed(monkeypatch):
    from pgig.degradation import Protocol
    from pgig.incremental import kept_plans, planner
    from pgig.measures.evaluators import Wish, choose

    made = []
    real = planner.plan_of

    def counted(*given):
        made.append(1)
        return real(*given)

    monkeypatch.setattr(kept_plans, "plan_of", counted)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)
    ).eval()  # fmt: skip
    x = torch.randn(1, 3, 40, 40)
    assert choose(Wish(), model, x, Protocol(patch=4, steps=3)).evaluator.name == "incremental"
    pgig.occlusion(model, x, 0)
    assert len(made) == 1
    with torch.no_grad():
        model[0].weight.mul_(2)
    pgig.occlusion(model, x, 0)
    assert len(made) == 2

    odd = nn.Sequential(nn.Flatten(), nn.Linear(4800, 5)).eval()  # it has no convolution
    for _ in range(2):
        pgig.occlusion(odd, x, 0)
    assert len(made) == 3
    held = ref(odd)
    del odd
    gc.collect()
    assert held() is None
