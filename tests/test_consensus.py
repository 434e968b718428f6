"""pattern_consensus: its definition, and what it becomes where that can be written down (docs/consensus.md)."""

from collections.abc import Sequence

import numpy
import pytest
import torch
from torch import Tensor, nn

import pgig
from pgig.explainers.consensus import Consensus, PatternConsensus, fitting, pixel_ranks
from pgig.explainers.occlusion import Occlusion
from pgig.explainers.registry import explainers
from pgig.synthetic.stress import stress_data, stress_model

VIEWS = "occlusion", "integrated_gradients", "integrated_pattern_attribution+absolute"


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 5, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(45, 4)
    ).eval()  # fmt: skip


def images(n: int = 3, side: int = 32) -> Tensor:
    return torch.randn(n, 3, side, side, generator=torch.Generator().manual_seed(1))


def patterns_of(model: nn.Module) -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(2)
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, nn.Conv2d | nn.Linear)}
    return {name: 0.5 + torch.rand(layer.weight.shape, generator=rng) for name, layer in layers.items()}


def explained(method: str, model: nn.Module, x: Tensor, **options: object) -> Tensor:
    found = pgig.explain(model, x, method, 1, score="logit", **options)
    return torch.from_numpy(found[method].attribution)


def middle_ranks(values: Sequence[float]) -> list[float]:
    """Places from 0 to 1, by counting."""
    return [
        (sum(other < value for other in values) + (sum(other == value for other in values) - 1) / 2)
        / max(1, len(values) - 1)
        for value in values
    ]


def test_it_is_the_mean_of_three_ranks():
    model, x = network(), images(1, 33)
    p = patterns_of(model)
    found = explained("pattern_consensus", model, x, patterns=p).sum(1).flatten()
    views = [explained(view, model, x, patterns=p).double().sum(1).flatten().tolist() for view in VIEWS]
    wanted = torch.tensor([middle_ranks(view) for view in views]).mean(0)
    torch.testing.assert_close(found, wanted.to(found), rtol=0, atol=1e-6)
    assert 0 <= float(found.min()) < 0.3 < 0.7 < float(found.max()) <= 1


def test_company_and_channels_change_nothing():
    model, x = network(), images()
    p = patterns_of(model)
    together = explained("pattern_consensus", model, x, patterns=p)
    alone = torch.cat([explained("pattern_consensus", model, one[None], patterns=p) for one in x])
    assert float((together - alone).abs().mean()) < 1e-5
    assert torch.equal(together, together[:, :1].expand_as(together))


def test_in_the_linear_case_it_ranks_falls_products_and_patterns():
    """Removal is the mean over windows of their sums of w x, the path is w x, and patterns are |w p|, all ranked.

    Weights of 1 and -1 and inputs on a grid have exact sums, so that what is equal (removal at the four corners and
    edges) is equal in every bit, and the law holds exactly.
    """
    torch.manual_seed(3)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 2, bias=False)).double().eval()
    with torch.no_grad():
        model[1].weight.copy_(torch.randn(2, 3072).sign())
    x = torch.randint(-(2**30), 2**30, (1, 3, 32, 32)).double() / 2**30
    p = {"1": torch.rand(2, 3072).double()}
    w, pattern = model[1].weight[1].detach().reshape(3, 32, 32), p["1"][1].reshape(3, 32, 32)
    product = (w * x[0]).sum(0)
    total, covers = torch.zeros(32, 32).double(), torch.zeros(32, 32).double()
    for top, bottom in ((0, 16), (8, 24), (16, 32)):
        for left, right in ((0, 16), (8, 24), (16, 32)):
            total[top:bottom, left:right] += product[top:bottom, left:right].sum()
            covers[top:bottom, left:right] += 1
    views = total / covers, product, (w * pattern).abs().sum(0)
    wanted = torch.stack([pixel_ranks(view[None, None])[0, 0] for view in views]).mean(0)
    found = explained("pattern_consensus", model, x, patterns=p)[0].sum(0)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


def test_with_patterns_of_ones_the_third_view_is_the_mean_gradient_by_magnitude():
    model, x = network(), images()
    ones = {name: torch.ones_like(p) for name, p in patterns_of(model).items()}
    plain = Consensus(explainers([*VIEWS[:2], "integrated_gradients+multiply_by_input=false+start=score+absolute"]))
    wanted = torch.from_numpy(pgig.explain(model, x, {"plain": plain}, 1, score="logit")["plain"].attribution)
    torch.testing.assert_close(explained("pattern_consensus", model, x, patterns=ones), wanted, rtol=0, atol=1e-5)


def test_on_the_stress_test_the_patterns_are_outvoted_and_never_silenced():
    """As images of two pixels, ranked by sign. Patterns alone know the distractor everywhere, and two of three views do
    not: the order is that of integrated gradients, but the signal keeps its third, and the distractor never has it all.
    """
    _, data = stress_data()
    model = nn.Sequential(nn.Flatten(), stress_model()).eval()
    p = {f"1.{name}": pattern for name, pattern in pgig.estimate_patterns(stress_model(), [data]).items()}
    found = {
        name: explained_first(name, model, data[:, None, None, :], p) for name in ("pattern_consensus", *VIEWS[1:])
    }
    first = {name: of[:, 0] > of[:, 1] for name, of in found.items()}
    assert bool(first["integrated_pattern_attribution+absolute"].all())
    assert torch.equal(first["pattern_consensus"], first["integrated_gradients"])
    assert 0.3 < float(first["integrated_gradients"].double().mean()) < 0.7
    consensus = found["pattern_consensus"]
    assert float(consensus[:, 0].min()) == pytest.approx(1 / 3)
    assert float(consensus[:, 1].max()) == pytest.approx(2 / 3)


def explained_first(name: str, model: nn.Module, x: Tensor, patterns: dict[str, Tensor]) -> Tensor:
    found = pgig.explain(model, x, name, 0, patterns=patterns, score="logit")[name]
    return torch.from_numpy(found.attribution)[:, 0, 0]


def test_equal_values_share_their_rank():
    flat = torch.zeros(1, 3, 2, 2)
    assert pixel_ranks(flat).flatten().tolist() == [0.5] * 4
    some = torch.tensor([[[[3.0, 1.0], [1.0, 7.0]]]])
    torch.testing.assert_close(pixel_ranks(some).flatten(), torch.tensor([2 / 3, 1 / 6, 1 / 6, 1]).double())


def test_progress_is_told_to_the_end_and_goes_one_way():
    model, x = network(), images(2)
    told: list[tuple[int, int]] = []
    pgig.explain(
        model, x, "pattern_consensus", 1, score="logit", patterns=patterns_of(model),
        progress=lambda done, total: told.append((done, total)),
    )  # fmt: skip
    done = [now for now, _ in told]
    assert done == sorted(done)
    assert told[-1][0] == told[-1][1]


def test_wrong_use_is_one_clear_line():
    model, x = network(), images(1)
    with pytest.raises(pgig.PgigError, match="patterns"):
        pgig.explain(model, x, "pattern_consensus", 1)
    with pytest.raises(pgig.PgigError, match="no option"):
        pgig.explain(model, x, "pattern_consensus+window=3", 1)
    with pytest.raises(pgig.PgigError, match="pixels of images"):
        pgig.explain(stress_model(), torch.ones(1, 2).double(), "pattern_consensus", 0, patterns={
            "0": torch.ones(1, 2).double(), "2": torch.ones(1, 1).double()
        }, score="logit")  # fmt: skip
    assert PatternConsensus().gradients == 25


@pytest.mark.parametrize("side", [5, 12, 16, 31])
def test_of_small_images_the_removal_view_still_tells_places_apart(side):
    model, x = network(), images(1, side)
    view = fitting(Occlusion(), x)
    assert int(view.options["window"]) < side / 2
    found = pgig.explain(model, x, {"removal": view}, 1, score="logit")["removal"].attribution
    assert len(numpy.unique(found)) > 4


def test_a_baseline_is_not_ignored_in_silence():
    model, x = network(), images(1)
    p = patterns_of(model)
    wanted = explained("pattern_consensus", model, x, patterns=p)
    with pytest.warns(pgig.PgigWarning, match="pattern_consensus keeps its own"):
        found = explained("pattern_consensus", model, x, patterns=p, baseline=3.0)
    assert torch.equal(found, wanted)
    with pytest.warns(pgig.PgigWarning, match="occlusion keeps its own"):
        pgig.explain(model, x, "occlusion", 1, baseline=3.0)


def test_pictures_know_that_it_has_no_sides():
    model, x = network(), images(2)
    found = pgig.explain(model, x, "pattern_consensus,occlusion", 1, patterns=patterns_of(model))
    assert [one.signed for one in found.values()] == [False, True]
    drawn = found["pattern_consensus"].heatmap(0)
    ranks = found["pattern_consensus"].attribution[0].sum(0)
    assert bool((drawn[ranks <= 0.5] == 255).all())  # the lower half is nothing
    assert bool((drawn[ranks > 0.75] < 255).any(1).all())
    figure = pgig.show({name: one[0] for name, one in found.items()})
    assert len(figure.axes) == 3  # the maps, and a legend for each kind
    with pytest.raises(pgig.PgigError, match="explanation"):
        pgig.show(found)
