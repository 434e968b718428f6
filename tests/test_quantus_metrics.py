"""Every metric of Quantus that works with its own explanations of colour images works with ours, and the reverse."""

import warnings

import numpy
import pytest
import torch
from test_quantus import QUIET
from torch import nn

import pgig
from pgig.degradation import Protocol
from pgig.measures.degradation import Degradation as Judge
from pgig.measures.judges import judge
from pgig.quantus import Degradation, explain

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import quantus

pytestmark = pytest.mark.filterwarnings("ignore")
# with Quantus's own explanations of colour images too
FAILING = "Focus", "InputInvariance", "IROF", "ROAD", "NonSensitivity", "Continuity Test"
METRICS = {
    name: cls for group in quantus.AVAILABLE_METRICS.values() for name, cls in group.items() if name not in FAILING
}
OWN = ("Smooth MPRT",)  # it calls Quantus's own explain, whatever it is given
SMALL = {
    "Infidelity": {"n_perturb_samples": 3, "perturb_patch_sizes": [4]},
    "Selectivity": {"patch_size": 4},
    "Faithfulness Correlation": {"nr_runs": 4, "subset_size": 60},
    "Faithfulness Estimate": {"features_in_step": 256},
    "Monotonicity-Arya": {"features_in_step": 256},
    "Monotonicity-Nguyen": {"features_in_step": 256, "nr_samples": 3},
    "Pixel-Flipping": {"features_in_step": 256},
    "Region Segmentation": {"patch_size": 4, "regions_evaluation": 4},
    "SensitivityN": {"features_in_step": 256, "n_max_percentage": 0.8},
    "ROAD": {"percentages": [20, 60]},
    "Max-Sensitivity": {"nr_samples": 2},
    "Avg-Sensitivity": {"nr_samples": 2},
    "Local Lipschitz Estimate": {"nr_samples": 2},
    "Relative Input Stability": {"nr_samples": 2},
    "Relative Output Stability": {"nr_samples": 2},
    "Relative Representation Stability": {"nr_samples": 2},
    "Smooth MPRT": {"nr_samples": 2},
    "Random Logit": {"num_classes": 4},
    "Top-K Intersection": {"k": 20},
}


def colour() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * 8 * 8, 4)
    ).eval()  # fmt: skip


def data() -> dict[str, numpy.ndarray]:
    rng = numpy.random.default_rng(0)
    masks = numpy.zeros((3, 1, 16, 16))
    masks[:, :, 4:10, 4:10] = 1
    x = rng.normal(size=(3, 3, 16, 16)).astype(numpy.float32)
    return {"x_batch": x, "y_batch": numpy.array([0, 2, 1]), "s_batch": masks}


def patterns_of(model: nn.Module) -> pgig.Patterns:
    rng = torch.Generator().manual_seed(0)
    return pgig.estimate_patterns(model, [torch.randn(8, 3, 16, 16, generator=rng) for _ in range(3)])


def measured(name: str, explain_func, **kwargs) -> list[float]:
    numpy.random.seed(0)
    torch.manual_seed(0)
    metric = METRICS[name](**SMALL.get(name, {}), **QUIET)
    found = metric(model=colour(), **data(), device="cpu", explain_func=explain_func, explain_func_kwargs=kwargs)
    return _flat(found)


def _flat(found) -> list[float]:
    if isinstance(found, dict):
        return _flat(list(found.values()))
    if isinstance(found, list | tuple):
        return [number for value in found for number in _flat(value)]
    return numpy.ravel(numpy.asarray(found, dtype=float)).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", METRICS)
def test_every_metric_takes_our_explanations(name):
    """The same gradients give the same score; and methods with patterns, frozen, work everywhere."""
    if name in OWN:
        pytest.skip("takes no explain_func")
    theirs = measured(name, quantus.explain, method="Gradient")
    ours = measured(name, explain, method="gradient")
    numpy.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)
    frozen = measured(name, explain, method="pattern_attribution", patterns=patterns_of(colour()))
    assert len(frozen) == len(ours)


def test_there_are_as_many_as_there_should_be():
    assert len(METRICS) >= 29


def test_axes_are_summed_as_quantus_does():
    model, (x, y) = colour(), (data()["x_batch"], data()["y_batch"])
    whole = explain(model, x, y, method="gradient", reduce_axes=())
    assert whole.shape == x.shape
    for axes, keepdims in [((1,), True), ((1,), False), ((2, 3), True), ((-1,), False)]:
        ours = explain(model, x, y, method="gradient", reduce_axes=axes, keepdims=keepdims)
        numpy.testing.assert_allclose(ours, whole.sum(axis=axes, keepdims=keepdims))
        theirs = quantus.explain(model, x, y, method="Gradient", reduce_axes=axes, keepdims=keepdims, device="cpu")
        numpy.testing.assert_allclose(ours, theirs, atol=1e-5)
    flat = nn.Sequential(nn.Linear(5, 3)).eval()
    assert explain(flat, numpy.ones((2, 5)), numpy.array([0, 1]), method="gradient").shape == (2, 5)
    probable = explain(model, x, y, method="gradient", score="probability")
    numpy.testing.assert_array_equal(probable, explain(model, x, y, method="gradient", softmax=True))
    assert not numpy.allclose(probable, explain(model, x, y, method="gradient"))
    quiet = explain(model, x, y, method="integrated_gradients", xai_lib_kwargs={"steps": 3}, img_size=16, nr_channels=3)
    numpy.testing.assert_array_equal(quiet, explain(model, x, y, method="integrated_gradients", steps=3))
    for bad, message in [
        ({"reduce_axes": (0,)}, "axis 0"), ({"reduce_axes": (7,)}, "axes of"), ({"softmax": "yes"}, "True or False"),
        ({"softmax": True, "score": "logit"}, "different things"),
    ]:  # fmt: skip
        with pytest.raises(pgig.PgigError, match=message):
            explain(model, x, y, method="gradient", **bad)


@pytest.mark.parametrize("order", ["morf", "lerf", "random"])
@pytest.mark.parametrize("evaluator", ["auto", "dense", "incremental"])
def test_our_benchmark_is_a_metric(order, evaluator):
    model, given = colour(), data()
    metric = Degradation(patch_size=4, regions_evaluation=6, order=order, evaluator=evaluator)
    assert isinstance(metric, quantus.metrics.base.Metric)  # type: ignore[attr-defined]
    asked = {"explain_func": explain, "explain_func_kwargs": {"method": "gradient"}, "device": "cpu", "batch_size": 2}
    found = metric(model=model, x_batch=given["x_batch"], y_batch=given["y_batch"], **asked)
    x, y = torch.from_numpy(given["x_batch"]), given["y_batch"]
    attribution = pgig.attribute("gradient", model, x, y, score="logit")
    names = {"morf": "descending", "lerf": "ascending", "random": "random"}
    protocol = Protocol(patch=4, steps=6, order=names[order])
    measure = {"morf": "morf", "lerf": "lerf", "random": "random_order"}[order]
    wanted = judge(measure, model, x, y, {"it": attribution}, by=Judge(protocol))["it"]["AUC"]
    numpy.testing.assert_allclose(found, wanted, atol=1e-6)
    assert metric.curves.shape == (3, 7)
    assert metric.note.startswith(evaluator if evaluator != "auto" else ("incremental", "dense"))
    if evaluator == "dense" and order == "morf":
        mean = Degradation(patch_size=4, regions_evaluation=6, return_aggregate=True)
        summed = mean(model=model, x_batch=given["x_batch"], y_batch=y, **asked)
        numpy.testing.assert_allclose(summed, [numpy.mean(found)], atol=1e-6)


def test_bad_settings_of_the_metric():
    for bad, message in [
        ({"order": "up"}, "unknown order"),
        ({"fill": "x"}, "fill"),
        ({"evaluator": "x"}, "evaluator"),
    ]:
        with pytest.raises(pgig.PgigError, match=message):
            Degradation(**bad)
    with pytest.raises(pgig.PgigError, match="Module"):
        Degradation()(model=lambda x: x, **{k: v for k, v in data().items() if k != "s_batch"})
