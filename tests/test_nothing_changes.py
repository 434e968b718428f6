"""Whatever happens, the model, the input and the global random state stay as they were."""

import copy

import numpy
import pytest
import torch
from networks import NETWORKS, images, network, random_patterns
from torch import nn

import pgig

ALL = list(pgig.METHODS)


class Fingerprint:
    """All of a model and its surroundings that an explanation could disturb."""

    def __init__(self, model: nn.Module, x: torch.Tensor) -> None:
        self.state = {k: v.clone() for k, v in model.state_dict().items()}
        self.x = x.clone()
        self.facts = self._facts(model, x)

    @staticmethod
    def _facts(model, x):
        hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
        return {
            "grads": [p.grad is None for p in model.parameters()],
            "requires": [p.requires_grad for p in model.parameters()],
            "strides": [p.stride() for p in model.parameters()],
            "identity": [id(p) for p in model.parameters()],
            "hooks": [len(getattr(m, h)) for m in model.modules() for h in hooks],
            "mode": [m.training for m in model.modules()],
            "attributes": [sorted(vars(m)) for m in model.modules()],
            "input": (x.requires_grad, x.grad is None, x._version, x.stride()),
            "random": torch.get_rng_state().tolist(),
            "numpy": numpy.random.get_state()[1].tolist(),
            "grad mode": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
            "function modes": torch._C._len_torch_function_stack(),
        }

    def check(self, model, x):
        assert self._facts(model, x) == self.facts
        assert torch.equal(x, self.x)
        for name, tensor in model.state_dict().items():
            assert torch.equal(tensor, self.state[name]), name


def options(model, x):
    return {"references": images(4, x.dtype, seed=9), "patterns": random_patterns(model)}


@pytest.mark.parametrize("net", NETWORKS)
def test_an_explanation_leaves_no_trace(net):
    model, x = network(net, torch.float32), images(dtype=torch.float32)
    before = Fingerprint(model, x)
    pgig.attribute_all(ALL, model, x, **options(model, x))
    before.check(model, x)


@pytest.mark.parametrize("where", ["forward", "backward", "score", "progress"])
@pytest.mark.parametrize("name", ALL)
def test_nor_does_an_exception(name, where):
    class Boom(RuntimeError):
        pass

    class Raise(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            raise Boom

    class Fragile(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = network("residual")
            self.last = nn.Linear(5, 4).double()

        def forward(self, x):
            y = self.net.relu(self.net(x))
            if where == "forward":
                raise Boom
            return self.last(Raise.apply(y) if where == "backward" else y)

    def boom(*_):
        raise Boom

    model, x = Fragile().eval(), images()
    before = Fingerprint(model, x)
    given = options(model, x)
    given |= {"score": boom} if where == "score" else {"progress": boom} if where == "progress" else {}
    if name == "random" and where == "backward":  # it has no backward pass
        pgig.attribute(name, model, x, **given)
    else:
        with pytest.raises(Boom):
            pgig.attribute(name, model, x, **given)
    before.check(model, x)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("name", ALL)
def test_the_callers_grad_mode_does_not_matter(name, context):
    model, x = network("chain"), images()
    usual = pgig.attribute(name, model, x, 1, **options(model, x))
    with context():
        inside = pgig.attribute(name, model, x.clone(), 1, **options(model, x))
    torch.testing.assert_close(inside.clone(), usual, rtol=0, atol=1e-12)


def test_gradients_under_way_are_left_alone():
    model, x = network("chain"), images().requires_grad_()
    model(x).sum().backward()
    grads = [p.grad.clone() for p in model.parameters()]
    of_x = x.grad.clone()
    a = pgig.attribute("integrated_gradients", model, x)
    assert not a.requires_grad
    assert torch.equal(x.grad, of_x)
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), grads, strict=True))


def test_a_model_that_writes_into_its_input_is_explained_all_the_same():
    inner = network("chain")

    class Greedy(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x.sub_(0.5).mul_(2))

    x = images()
    untouched = x.clone()
    a = pgig.attribute("gradient", Greedy().eval(), x, 1, score="logit")
    assert torch.equal(x, untouched)
    torch.testing.assert_close(a, 2 * pgig.attribute("gradient", inner, (x - 0.5) * 2, 1, score="logit"))


def test_a_copy_of_the_model_is_not_needed():
    """The model may hold what cannot be copied."""

    class NoCopy(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = network("chain")

        def __deepcopy__(self, memo):
            raise AssertionError

        def forward(self, x):
            return self.net(x)

    with pytest.raises(AssertionError):
        copy.deepcopy(NoCopy())
    assert pgig.attribute("gradient", NoCopy().eval(), images()).isfinite().all()
