"""Variants of methods by name."""

import pytest
import torch
from networks import images, network, random_patterns

from pgig import METHODS, attribute
from pgig.errors import PgigError
from pgig.explainers.registry import explainers
from pgig.explainers.together import explain_group, needing_patterns
from pgig.subject.context import Context
from pgig.subject.subject import Subject


def find_variant(name):
    return explainers(name)[name]


def test_names_stand_for_options():
    assert find_variant("pgig+start=one").method == METHODS["pgig"].with_options(start="one")
    assert find_variant("pgig+absolute").absolute
    assert find_variant("pgig+absolute=true").absolute
    assert not find_variant("pgig+absolute=false").absolute
    assert find_variant("pgig+steps=7").method == METHODS["pgig"].with_options(steps=7)
    assert find_variant("pgig+multiply_by_input=false").method.multiply_by_input is False
    assert find_variant("vargrad+variance=0.3").method.options["variance"] == 0.3
    assert needing_patterns(explainers("pgig+absolute"))
    assert not needing_patterns(explainers("integrated_gradients+baseline=black"))


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("lime+steps=3", "unknown method"),
        ("pgig+speed=3", "no option speed in .*; pgig takes: steps.* baseline, absolute$"),
        ("gradient+speed=3", "gradient takes: start, absolute$"),
        ("pgig+steps=many", "expected a number.*; pgig takes: steps.* baseline, absolute$"),
        ("pgig+multiply_by_input=yes", "expected true or false.*baseline, absolute$"),
        ("pgig+baseline=grey", "unknown baseline 'grey'.*baseline, absolute$"),
        ("gradient+baseline=black", "has no path.*gradient takes: start, absolute$"),
        ("pgig+start=two", "unknown start.*baseline, absolute$"),
        ("pgig+absolute=no", "expected true or false.*baseline, absolute$"),
        ("pgig+", "each option once.*baseline, absolute$"),
        ("pgig+steps=3+steps=4", "each option once.*baseline, absolute$"),
    ],
)
def test_wrong_names(name, match):
    with pytest.raises(PgigError, match=match):
        explainers(name)


def test_variants_are_what_they_say():
    model, x = network("chain"), images()
    target, patterns = torch.tensor([0, 1, 0]), random_patterns(model)
    black = torch.tensor([-2.0, -1.0, -3.0], dtype=x.dtype)[:, None, None]
    names = ["pgig", "pgig+start=one", "pgig+absolute", "pgig+baseline=black", "integrated_gradients+baseline=blurred"]
    subject = Subject(model, patterns)
    found = explain_group(explainers(names), subject, x, target, Context(black=black))
    assert list(found) == names
    plain = attribute("pgig", model, x, target, patterns=patterns)
    torch.testing.assert_close(found["pgig"], plain)
    torch.testing.assert_close(found["pgig+absolute"], plain.abs())
    torch.testing.assert_close(
        found["pgig+start=one"], attribute("pgig", model, x, target, patterns=patterns, start="one")
    )
    torch.testing.assert_close(
        found["pgig+baseline=black"],
        attribute("pgig", model, x, target, patterns=patterns, baseline=black.expand_as(x)),
    )
    assert not torch.allclose(
        found["integrated_gradients+baseline=blurred"], attribute("integrated_gradients", model, x, target)
    )
    with pytest.raises(PgigError, match="what black is"):
        explain_group(explainers("pgig+baseline=black"), subject, x, target)
