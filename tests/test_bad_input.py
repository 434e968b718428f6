"""Bad input: one exception class, one line, saying what to do."""

import pytest
import torch
from networks import images, network, random_patterns
from torch import nn

import pgig

NET, X = network("chain"), images()


def refused(match, method="integrated_gradients", model=NET, x=X, target=None, **options):
    with pytest.raises(pgig.PgigError, match=match) as caught:
        pgig.attribute(method, model, x, target, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", pgig.METHODS)
def test_bad_inputs_are_refused_by_every_method(name):
    given = {"method": name, "patterns": random_patterns(NET), "references": X}
    broken = X.clone()
    broken[1, 0, 0, 0] = float("nan")
    refused("NaN or infinite values, first in row 1", x=broken, **given)
    refused("NaN or infinite", x=X / 0, **given)
    refused(r"empty.*at least one", x=X[:0], **given)
    refused(r"floating point.*\.float\(\)", x=X.long(), **given)
    refused("must be a tensor", x=[1.0], **given)
    refused(r"target 5 is out of range: the model's classes are 0\.\.4", target=5, **given)
    refused("out of range", target=-1, **given)
    refused("2 targets for 3 inputs", target=[1, 2], **given)
    refused("give one class", target=(1, 2), **given)
    refused("whole numbers", target=[1.5, 1, 1], **given)
    refused("leave target at None", target=1, score=lambda y: y[:, 0], **given)
    refused(r"one scalar per input, shape \(\d+,\), got \(\d+, 5\)", score=lambda y: y, **given)
    refused("unknown score", score="margin", **given)
    refused("2 ids for 3 inputs", ids=[1, 2], **given)
    refused("batch_size", batch_size=0, **given)
    refused("unknown start", start="two", **given)


@pytest.mark.parametrize("name", pgig.METHODS)
def test_a_model_in_training_mode_is_refused(name):
    for module in (nn.Dropout(), nn.BatchNorm2d(3), nn.MultiheadAttention(4, 1, dropout=0.1)):
        model = nn.Sequential(module, NET).double()
        refused(
            rf"training mode \({type(module).__name__} '0'\): call model.eval", name, model, patterns={}, references=X
        )
        model.eval()


def test_training_behaviour_is_refused_whatever_the_mode_says():
    functional = {
        "dropout is on": lambda x: NET(nn.functional.dropout(x)),
        "statistics of the batch": lambda x: NET(nn.functional.batch_norm(x, None, None, training=True)),
    }
    for message, model in functional.items():
        refused(message, model=model)
    untracked = nn.Sequential(nn.BatchNorm2d(3, track_running_stats=False), NET).double().eval()
    refused("track_running_stats", model=untracked)
    pgig.attribute("gradient", nn.Sequential(nn.Dropout(0.0), NET).train(), X)  # nothing random in it


def test_options_that_a_method_does_not_have():
    refused(r"gradient has no option 'steps', only start", "gradient", steps=5)
    refused("vargrad has no option 'quadrature', only samples, start, variance", "vargrad", quadrature="right")
    refused("no option 'multiply_by_input'", "vargrad", multiply_by_input=False)
    refused("steps must be a whole number of at least 1, .* got 0", steps=0)
    refused("variance", "vargrad", variance=-1.0)
    refused("unknown quadrature 'simpson'; choose one of: right", quadrature="simpson")
    refused("trapezoid.*>= 2", quadrature="trapezoid", steps=1)
    refused("unknown method 'lime'; known: random", "lime")
    with pytest.raises(pgig.PgigError, match="no method given"):
        pgig.attribute_all([], NET, X)
    # in a group, an option goes to those that have it
    assert len(pgig.attribute_all(["gradient", "integrated_gradients"], NET, X, steps=3)) == 2


def test_scores_without_a_gradient():
    single = nn.Sequential(NET, nn.Linear(5, 1).double())
    refused("use the score 'logit'", model=single)
    assert pgig.attribute("gradient", single, X, score="logit").abs().sum() > 0
    refused("a dict of one, other, and none of it is named.*pass score=", model=lambda x: {"one": NET(x), "other": x})
    refused("does not depend on the inputs", model=lambda x: NET(x.detach()))
    refused("has no gradient", model=torch.no_grad()(NET))
    refused("one number for the whole batch of 3: give one for each", model=lambda x: NET(x)[:1].sum(), target=1)
    refused("one row each", model=lambda x: NET(x)[:1].sum(), x=X[:1], method="gradient", target=1)
    refused("NaN or infinite", model=lambda x: NET(x) / 0, target=1, score="logit")
    refused("tuple of 3 indices", model=lambda x: x)


def test_patterns_that_do_not_fit():
    patterns = random_patterns(NET)
    refused("needs patterns", "pgig")
    refused("needs a module", "pgig", model=lambda x: NET(x), patterns=patterns)
    refused("no pattern for layer '2'", "pgig", patterns={k: v for k, v in patterns.items() if k != "2"})
    refused(r"'0' has shape \(1, 2\), its weight \(6, 3, 3, 3\)", "pgig", patterns={**patterns, "0": torch.ones(1, 2)})
    refused("'conv9', which this model does not have", "pgig", patterns={**patterns, "conv9": torch.ones(1)})
    refused("'6' has NaN", "pgig", patterns={**patterns, "6": patterns["6"] * float("nan")})


def test_rules_with_nothing_to_act_on():
    smooth = nn.Sequential(nn.Flatten(), nn.Linear(192, 5), nn.Tanh()).double().eval()
    refused("found no rectifier to act on; tanh keep", "guided_backprop", model=smooth)
    no_layer = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.ReLU()).eval()
    refused("found no layer to act on", "pgig", model=no_layer, patterns={})
    refused(r"pass model\.module", "guided_backprop", model=nn.DataParallel(NET))
    assert pgig.attribute("gradient", nn.DataParallel(NET), X).isfinite().all()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_rules_refuse_torchscript_and_plain_methods_do_not():
    scripted = torch.jit.trace(NET, X)
    refused("TorchScript", "guided_backprop", model=scripted)
    a = pgig.attribute("integrated_gradients", scripted, X, 1)
    torch.testing.assert_close(a, pgig.attribute("integrated_gradients", NET, X, 1))


def test_baselines_and_references_that_do_not_fit():
    refused("does not broadcast", baseline=torch.zeros(7))
    refused("baseline has NaN", baseline=float("nan"))
    refused("2 baselines for 1 inputs", baseline=(0, 0))
    refused("need references", "expected_gradients")
    refused(r"references of shape \[\(8, 8\)\]", "expected_gradients", references=X[0])
    refused("references have NaN", "expected_gradients", references=X * float("inf"))
    refused("differ in number", model=lambda x, y: x, x=(X, X[:1]))
    refused("meta device", model=lambda x, y: x, x=(X, X.to("meta")))
    with pytest.raises(pgig.PgigError, match="is not one of these inputs"):
        pgig.completeness(X[:1], NET, X)


def test_a_gradient_that_is_not_finite_is_an_error():
    refused("came out NaN or infinite", "gradient", model=lambda x: x.abs().sqrt().flatten(1), x=0 * X, score="logit")


def test_running_out_of_memory_halves_the_chunks():
    sizes = []

    def hungry(x):
        sizes.append(len(x))
        if len(x) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return NET(x)

    a = pgig.attribute("integrated_gradients", hungry, X, 1, batch_size=25)
    torch.testing.assert_close(a, pgig.attribute("integrated_gradients", NET, X, 1), rtol=0, atol=1e-12)
    assert max(sizes) == 25
    assert max(sizes[5:]) <= 3

    def starving(x):
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")

    with pytest.raises(RuntimeError, match="can't allocate"):
        pgig.attribute("gradient", starving, X, 1)
