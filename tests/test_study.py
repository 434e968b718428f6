"""The candidates of the study, by what they become where the truth is known."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import pgig
from pgig.errors import PgigError
from pgig.explainers.registry import explainers
from pgig.patterns.patterns import Patterns

sys.path.insert(0, str(Path(__file__).parents[1] / "study"))
import candidates
import settings

CANDIDATES: dict[str, Any] = {
    "expected_pgig": candidates.expected_pgig,
    "smoothed_pgig": candidates.smoothed_pgig,
    "mean_pgig": candidates.mean_pgig,
    "consensus": candidates.consensus,
}


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 5, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(45, 4)
    ).eval()  # fmt: skip


def ones(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: torch.ones_like(layer.weight) for name, layer in model.named_modules() if hasattr(layer, "weight")}


def images(n: int = 2, seed: int = 1) -> torch.Tensor:
    return torch.randn(n, 3, 12, 12, generator=torch.Generator().manual_seed(seed))


def explained(name: str, model: nn.Module, x: torch.Tensor, **options: object) -> torch.Tensor:
    table = {name: CANDIDATES[name]} if name in CANDIDATES else name
    found = pgig.explain(model, x, table, 2, references=images(6, 9), score="logit", **options)  # type: ignore[arg-type]
    return torch.from_numpy(found[name].attribution)


PEERS = {
    "expected_pgig": "expected_gradients+start=score",
    "smoothed_pgig": "smoothgrad_ig+start=score+steps=5+samples=5",
}


@pytest.mark.parametrize("name", PEERS)
def test_with_patterns_of_ones_it_is_its_plain_peer(name):
    model, x = network(), images()
    found = explained(name, model, x, patterns=ones(model))
    torch.testing.assert_close(found, explained(PEERS[name], model, x), rtol=1e-4, atol=1e-6)
    assert float(found.abs().max()) > 0


def test_from_the_mean_it_is_pgig_with_that_baseline():
    model, x = network(), images()
    p = {name: torch.rand_like(w) + 0.5 for name, w in ones(model).items()}
    wanted = pgig.attribute(
        "pgig", model, x, 2, patterns=p, baseline=images(6, 9).mean(0, keepdim=True).expand_as(x), score="logit"
    )  # fmt: skip
    torch.testing.assert_close(explained("mean_pgig", model, x, patterns=p), wanted, rtol=1e-4, atol=1e-6)


def test_consensus_is_the_mean_of_two_ranks():
    model, x = network(), images()
    p = {name: torch.rand_like(w) + 0.5 for name, w in ones(model).items()}
    found = explained("consensus", model, x, patterns=p).sum(1)
    views = pgig.attribute_all(["integrated_gradients", "pgig"], model, x, 2, patterns=p, score="logit")
    for n in range(len(x)):
        signed, sizes = views["integrated_gradients"][n].double().sum(0), views["pgig"][n].double().abs().sum(0)
        for row, column in ((0, 0), (5, 7), (11, 3)):
            ranks = [float((of < of[row, column]).double().mean()) * 144 / 143 for of in (signed, sizes)]
            assert float(found[n, row, column]) == pytest.approx(sum(ranks) / 2, abs=1e-4)


def test_blending_goes_from_weights_to_patterns():
    model, x = network(), images()
    p = {name: torch.rand_like(w) + 0.5 for name, w in ones(model).items()}
    for rho, peer in ((0.0, "integrated_gradients+start=score"), (1.0, "pgig")):
        of = Patterns(p, None, None, {"quality": {name: [0.1, rho, 0.0] for name in p}})
        got = explained("pgig", model, x, patterns=candidates.blended(of))
        torch.testing.assert_close(got, explained(peer, model, x, patterns=p), rtol=1e-4, atol=1e-6)
    with pytest.raises(PgigError, match="do not say"):
        candidates.blended(Patterns(p))


@pytest.mark.parametrize("name", ["mean_pgig", "consensus"])
def test_candidates_have_no_options(name):
    with pytest.raises(PgigError, match="no options to tune"):
        CANDIDATES[name].with_options(steps=3)
    assert explainers({name: CANDIDATES[name]})[name].needs.patterns


def test_the_questions_name_every_candidate():
    text = (Path(candidates.__file__).parent / "questions.md").read_text()
    assert all(f"`{name}`" in text for name in (*CANDIDATES, "blended_pgig"))


def test_photographs_for_patterns_are_never_measured():
    photographs = [Path(f"{number:03}.jpg") for number in range(500)]
    found = settings.uses(photographs)
    assert {use: len(some) for use, some in found.items()} == {
        "patterns": 250,
        "references": 64,
        "many": 100,
        "few": 24,
    }
    assert not set(found["patterns"]) & {*found["many"], *found["few"]}
    assert set(found["references"]) <= set(found["patterns"])
    assert set(found["few"]) <= set(found["many"])
    for use in ("many", "few"):
        halves = [settings.half_of(path.name, photographs) for path in found[use]]
        assert halves.count("selection") == halves.count("confirmation") == len(found[use]) / 2
