"""The candidates of the study, by what they become where the truth is known."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import pgig
from pgig.errors import PgigError
from pgig.explainers.occlusion import Occlusion
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
    "consensus_ipa": candidates.consensus_ipa,
    "expected_consensus": candidates.expected_consensus,
    "removal_consensus": candidates.removal_consensus,
}


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 5, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(45, 4)
    ).eval()  # fmt: skip


def ones(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: torch.ones_like(layer.weight) for name, layer in model.named_modules() if hasattr(layer, "weight")}


def images(n: int = 2, seed: int = 1) -> torch.Tensor:
    return torch.randn(n, 3, 32, 32, generator=torch.Generator().manual_seed(seed))


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


VIEWS = {
    "consensus": ("integrated_gradients", "pgig+absolute"),
    "consensus_ipa": ("integrated_gradients", "integrated_pattern_attribution+absolute"),
    "removal_consensus": ("occlusion", "integrated_gradients", "integrated_pattern_attribution+absolute"),
}


@pytest.mark.parametrize("name", VIEWS)
def test_consensus_is_the_mean_of_ranks(name):
    model, x = network(), images()
    p = {name: torch.rand_like(w) + 0.5 for name, w in ones(model).items()}
    found = explained(name, model, x, patterns=p).sum(1)
    views = [explained(view, model, x, patterns=p).double().sum(1) for view in VIEWS[name]]
    for n in range(len(x)):
        for row, column in ((0, 0), (5, 7), (11, 3)):
            ranks = [  # equal ones share the middle of their places
                int((of[n] < of[n, row, column]).sum()) + (int((of[n] == of[n, row, column]).sum()) - 1) / 2
                for of in views
            ]
            assert float(found[n, row, column]) == pytest.approx(sum(ranks) / len(views) / 1023, abs=1e-4)


def test_blending_goes_from_weights_to_patterns():
    model, x = network(), images()
    p = {name: torch.rand_like(w) + 0.5 for name, w in ones(model).items()}
    for rho, peer in ((0.0, "integrated_gradients+start=score"), (1.0, "pgig")):
        of = Patterns(p, None, None, {"quality": {name: [0.1, rho, 0.0] for name in p}})
        got = explained("pgig", model, x, patterns=candidates.blended(of))
        torch.testing.assert_close(got, explained(peer, model, x, patterns=p), rtol=1e-4, atol=1e-6)
    with pytest.raises(PgigError, match="do not say"):
        candidates.blended(Patterns(p))


@pytest.mark.parametrize("name", ["mean_pgig", *VIEWS, "expected_consensus"])
def test_candidates_have_no_options(name):
    with pytest.raises(PgigError, match="no option"):
        CANDIDATES[name].with_options(steps=3)
    assert explainers({name: CANDIDATES[name]})[name].needs.patterns


def test_occlusion_is_computed_once_for_the_three_that_ask(monkeypatch):
    model, x, asked = network(), images(), list[int]()
    explain = Occlusion.explain

    def counted(*call):
        asked.append(1)
        return explain(*call)

    monkeypatch.setattr(Occlusion, "explain", counted)
    names = "candidates:occlusion", "candidates:removal_consensus", "candidates:removal_control"
    for seen in (x, x + 1):
        found = pgig.explain(model, seen, names, 2, patterns=ones(model))
        alone = pgig.explain(model, seen, "occlusion,pattern_consensus", 2, patterns=ones(model))
        assert (found[names[0]].attribution == alone["occlusion"].attribution).all()
        assert (found[names[1]].attribution == alone["pattern_consensus"].attribution).all()
    assert len(asked) == 2 * (1 + 2)


def test_the_questions_name_every_candidate():
    text = (Path(candidates.__file__).parent / "questions.md").read_text()
    assert all(f"`{name}`" in text for name in (*CANDIDATES, "blended_pgig"))


def test_photographs_for_patterns_are_never_measured():
    photographs = [Path(f"{number:03}.jpg") for number in range(500)]
    found = settings.uses(photographs)
    patterns = found.pop("patterns")
    references = found.pop("references")
    assert (len(patterns), len(references)) == (250, 64)
    assert set(references) <= set(patterns)
    for use, count in (("many", 100), ("few", 24)):
        parts = [found[f"{use}-{part}"] for part in range(settings.PARTS[use])]
        assert sum(map(len, parts)) == len({path for part in parts for path in part}) == count
        assert not set(patterns) & {path for part in parts for path in part}
        for part in parts:
            halves = [settings.half_of(path.name, photographs) for path in part]
            assert halves.count("selection") == halves.count("confirmation") == len(part) / 2
    assert {p for n in (0, 1) for p in found[f"few-{n}"]} <= {p for n in range(5) for p in found[f"many-{n}"]}
