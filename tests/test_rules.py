"""Rules change gradients as their definition says, and never a value."""

import pytest
import torch
from naive import matrix_gradient, naive_gradient
from networks import NETWORKS, images, network, patterns_of_ones, random_patterns
from torch import Tensor, nn
from torch.nn.grad import conv2d_input
from torch.nn.utils import parametrizations, parametrize
from torch.utils.checkpoint import checkpoint

import pgig
from pgig.methods import rules
from pgig.network.channels_last import in_channels_last
from pgig.network.interception import RuleMode
from pgig.network.layers import Layers

EXACT = {"rtol": 0, "atol": 1e-12}
METHOD_OF = {"guided": "guided_backprop", "pattern": "pattern_attribution", "patternnet": "patternnet"}
ALL_RULES = [rules.plain, rules.guided, rules.pattern, rules.patternnet]


@pytest.mark.parametrize("start", ["one", "score"])
@pytest.mark.parametrize("rule", METHOD_OF)
@pytest.mark.parametrize("net", NETWORKS)
def test_rules_equal_the_naive_reference(net, rule, start):
    model, x = network(net), images()
    patterns = random_patterns(model)
    fast = pgig.attribute(METHOD_OF[rule], model, x, 2, patterns=patterns, start=start)
    slow = naive_gradient(net, model, x, 2, rule, patterns, start)
    assert slow.abs().max() > 0
    torch.testing.assert_close(fast / slow.abs().max(), slow / slow.abs().max(), **EXACT)


def test_the_pattern_rule_equals_explicit_matrices():
    model, x = network("chain"), images(1)
    patterns = random_patterns(model)
    fast = pgig.attribute("pattern_attribution", model, x, 3, patterns=patterns, score="logit", start="one")
    torch.testing.assert_close(fast[0], matrix_gradient(model, x[0], 3, patterns), **EXACT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("net", NETWORKS)
def test_rules_change_no_value(net, dtype):
    model, x = network(net, dtype), images(5, dtype)
    for channels_last in (False, True):
        inputs = x.contiguous(memory_format=torch.channels_last) if channels_last else x
        layers = Layers(model, random_patterns(model), channels_last)
        with RuleMode(layers, ALL_RULES, channels_last):
            under_rules = model(inputs.clone().requires_grad_())
        with RuleMode(Layers(model, None, channels_last), [rules.plain], channels_last):
            plain = model(inputs.clone().requires_grad_())
        assert torch.equal(under_rules, plain)
        if net != "concatenating" or not channels_last:  # its view() needs the mode to run in channels_last
            assert torch.equal(under_rules, model(inputs))


def test_channels_last_changes_no_gradient():
    for net in NETWORKS:
        model, x = network(net, torch.float32), images(dtype=torch.float32)
        patterns = random_patterns(model)
        a = pgig.attribute_all(["gradient", "pattern_attribution"], model, x, 1, patterns=patterns)
        slow = naive_gradient(net, model, x, 1, "pattern", patterns, "score")
        torch.testing.assert_close(a["pattern_attribution"], slow, rtol=1e-3, atol=1e-4 * float(slow.abs().max()))
        inside = x.clone().requires_grad_()
        (native,) = torch.autograd.grad(model(inside).softmax(1)[:, 1].sum(), inside)
        torch.testing.assert_close(a["gradient"], native, rtol=1e-4, atol=1e-6)


def test_the_folded_network_gives_the_same():
    """Batch norm behind a layer is part of it: fold it by hand, and the pattern rule must not notice."""
    model, x = network("residual"), images()
    patterns = random_patterns(model)
    folded = network("residual")
    factor = folded.bn1.weight / (folded.bn1.running_var + folded.bn1.eps).sqrt()
    conv = nn.Conv2d(3, 6, 3, padding=1).double()
    conv.weight.data = folded.conv1.weight.data * factor.data.reshape(-1, 1, 1, 1)
    conv.bias.data = (folded.bn1.bias - folded.bn1.running_mean * factor).data
    folded.conv1, folded.bn1 = conv, nn.Identity()
    for name in ("pattern_attribution", "pgig", "patternnet"):
        torch.testing.assert_close(
            pgig.attribute(name, model, x, 1, patterns=patterns),
            pgig.attribute(name, folded.eval(), x, 1, patterns=patterns),
            **EXACT,
        )


@pytest.mark.parametrize("wrap", ["weight_norm", "old_weight_norm", "tied", "checkpointed", "compiled"])
def test_weights_are_found_however_they_are_held(wrap):
    torch.manual_seed(0)
    a, b = nn.Linear(6, 6).double(), nn.Linear(6, 6).double()
    if wrap == "weight_norm":
        a = parametrizations.weight_norm(a)
    if wrap == "old_weight_norm":
        with pytest.warns(FutureWarning):
            a = torch.nn.utils.weight_norm(a)
    if wrap == "tied":
        b.weight = a.weight
    middle = nn.Sequential(a, nn.ReLU(), b, nn.ReLU())

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.middle = middle
            self.out = nn.Linear(6, 3).double()

        def forward(self, x):
            if wrap == "checkpointed":
                return self.out(checkpoint(self.middle, x, use_reentrant=False))
            return self.out(self.middle(x))

    model = Net().eval()
    names = ["middle.0", "out"] if wrap == "tied" else ["middle.0", "middle.2", "out"]
    generator = torch.Generator().manual_seed(0)
    weights = {"middle.0": a.weight, "middle.2": b.weight, "out": model.out.weight}
    patterns = {n: torch.randn(weights[n].shape, generator=generator).double() for n in names}
    second = patterns["middle.0" if wrap == "tied" else "middle.2"]
    x = torch.randn(4, 6, generator=generator).double()
    tested = torch.compile(model, backend="eager") if wrap == "compiled" else model
    found = pgig.attribute("pattern_attribution", tested, x, 1, patterns=patterns, score="logit", start="one")
    with torch.no_grad():
        before_1 = a(x)
        before_2 = b(before_1.relu())
        row = (model.out.weight * patterns["out"])[1] * (before_2 > 0)
        row = (row @ (b.weight * second)) * (before_1 > 0)
        expected = row @ (a.weight * patterns["middle.0"])
    torch.testing.assert_close(found, expected, **EXACT)


def test_a_reentrant_checkpoint_is_an_error_not_a_plain_gradient():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            return checkpoint(self.layer, x, use_reentrant=True)

    with pytest.raises(RuntimeError, match="use_reentrant"):
        pgig.attribute("pattern_attribution", Net(), torch.randn(2, 4), 1, patterns={"layer": torch.ones(4, 4)})


def test_one_layer_may_be_called_twice():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4).double()

        def forward(self, x):
            return self.layer(self.layer(x))

    torch.manual_seed(0)
    model, x, p = Twice(), torch.randn(2, 4).double(), torch.randn(4, 4).double()
    found = pgig.attribute("pattern_attribution", model, x, 2, patterns={"layer": p}, score="logit", start="one")
    both = (model.layer.weight * p).detach()
    torch.testing.assert_close(found, (both @ both)[2].expand(2, 4), **EXACT)


def test_an_unbatched_convolution_inside_works():
    class Unbatched(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 2, 3).double()

        def forward(self, x):
            return torch.stack([self.conv(image).relu().mean((1, 2)) for image in x])

    torch.manual_seed(0)
    model, x = Unbatched().eval(), images()
    ones = patterns_of_ones(model)
    a = pgig.attribute_all(["gradient", "pattern_attribution"], model, x, 1, patterns=ones, score="logit", start="one")
    torch.testing.assert_close(a["gradient"], a["pattern_attribution"], **EXACT)


def test_guided_backpropagation_names_what_it_left_alone():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4), nn.Tanh()).eval()
    with pytest.warns(pgig.PgigWarning, match=r"left these activations alone: gelu, tanh"):
        pgig.attribute("guided_backprop", model, torch.randn(2, 4))


@pytest.mark.parametrize("activation", [nn.LeakyReLU(), nn.ELU(), nn.GELU(), nn.SiLU(), nn.Sigmoid(), nn.Tanh()])
def test_other_activations_keep_their_plain_gradient(activation):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), activation, nn.Linear(5, 3)).double().eval()
    x = torch.randn(2, 4).double()
    a = pgig.attribute_all(
        ["gradient", "pattern_attribution"], model, x, 1, patterns=patterns_of_ones(model), score="logit", start="one"
    )
    torch.testing.assert_close(a["gradient"], a["pattern_attribution"], **EXACT)


class OwnForward(nn.Module):
    """A module of given parameters and a forward of the test's own."""

    def __init__(self, forward, **parameters) -> None:
        super().__init__()
        self._own = forward
        for name, value in parameters.items():
            setattr(self, name, nn.Parameter(value))

    def forward(self, x: Tensor) -> Tensor:
        return self._own(self, x)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def autograd(model: nn.Module, x: Tensor) -> Tensor:
    inside = x.clone().requires_grad_()
    return torch.autograd.grad(model(inside)[:, 1].sum(), inside)[0]


SPELLINGS = {
    "addmm, what is added depends on x": lambda m, x: torch.addmm(x, x, m.w, beta=2, alpha=3),
    "addmm with alpha": lambda m, x: torch.addmm(m.b, x, m.w.t(), beta=0.5, alpha=3),
    "linear with a bias that depends on x": lambda m, x: torch.nn.functional.linear(x, m.w, x.mean(0)),
    "weight on the left": lambda m, x: (m.w @ x.mT).mT,
    "keywords": lambda m, x: torch.matmul(x, other=m.w) + torch.mm(x, mat2=m.w),
    "a vector": lambda m, x: torch.stack([x @ m.b, torch.mv(x, m.b), x @ m.b], 1),
    "a slice": lambda m, x: torch.cat([x @ m.w[:, :2], x @ m.w[:, 2:]], 1),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_products_in_every_spelling(spelling):
    model = OwnForward(SPELLINGS[spelling], w=numbers(4, 4), b=numbers(4, seed=1)).eval()
    x = numbers(3, 4, seed=2)
    used = {"a vector": ["b"]}.get(spelling, ["w"])
    options = {"score": "logit", "start": "one", "batch_size": "whole"}  # one of them mixes its rows
    ones = {name: torch.ones_like(getattr(model, name)) for name in used}
    found = pgig.attribute_all(["gradient", "pattern_attribution"], model, x, 1, patterns=ones, **options)
    torch.testing.assert_close(found["gradient"], autograd(model, x), **EXACT)
    torch.testing.assert_close(found["pattern_attribution"], autograd(model, x), **EXACT)
    p = {name: numbers(*getattr(model, name).shape, seed=5) for name in used}
    scaled = OwnForward(SPELLINGS[spelling], w=model.w * p.get("w", 1), b=model.b * p.get("b", 1)).eval()
    found = pgig.attribute("pattern_attribution", model, x, 1, patterns=p, **options)  # type: ignore[assignment]
    torch.testing.assert_close(found, autograd(scaled, x), **EXACT)


def test_a_convolution_with_a_bias_that_depends_on_x():
    def forward(m, x):
        return torch.conv2d(x, m.w, x.mean((0, 2, 3)).repeat(2)).mean((2, 3))

    model, x = OwnForward(forward, w=numbers(6, 3, 3, 3)).eval(), images()
    ones = {"w": torch.ones_like(model.w)}
    found = pgig.attribute(
        "pattern_attribution", model, x, 1, patterns=ones, score="logit", start="one", batch_size="whole"
    )
    torch.testing.assert_close(found, autograd(model, x), **EXACT)


def test_layers_that_are_not_on_the_way_do_not_count():
    def adapted(m, x):
        return torch.nn.functional.linear(x, m.w + m.b @ m.a)

    model = OwnForward(adapted, w=numbers(4, 4), a=numbers(2, 4), b=numbers(4, 2)).eval()
    with pytest.raises(pgig.PgigError, match="no pattern for layer 'w'"):  # and `a` is no layer, but part of one
        pgig.attribute("pattern_attribution", model, numbers(3, 4), 1, patterns={"a": torch.ones(2, 4)})

    def two_inputs(m, x):
        return x @ m.w + (torch.ones(1, 4).double() @ m.a)

    model = OwnForward(two_inputs, w=numbers(4, 4), a=numbers(4, 4)).eval()
    both = {"w": torch.ones(4, 4), "a": torch.ones(4, 4)}
    found = pgig.attribute("pattern_attribution", model, numbers(3, 4), 1, patterns=both, score="logit", start="one")
    torch.testing.assert_close(found, autograd(model, numbers(3, 4)), **EXACT)


def test_products_that_no_rule_can_read_are_named():
    def forward(m, x):
        y = torch.einsum("ni,io->no", x @ m.w, m.a)
        return torch.nn.functional.linear(y, m.w * 2)

    model = OwnForward(forward, w=numbers(4, 4), a=numbers(4, 4)).eval()
    with pytest.warns(pgig.PgigWarning, match="einsum, linear with a computed weight"):
        pgig.attribute("pattern_attribution", model, numbers(3, 4), 1, patterns={"w": torch.ones(4, 4)})


def test_compiled_parts_obey_too():
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3), nn.ReLU()).double()
    plain_model = nn.Sequential(inner, nn.Linear(3, 3).double()).eval()
    x = numbers(5, 4)
    p = random_patterns(plain_model)
    expected = pgig.attribute_all(["guided_backprop", "pattern_attribution"], plain_model, x, 1, patterns=p)
    compiled = nn.Sequential(torch.compile(inner, backend="eager"), plain_model[1]).eval()
    renamed = {name.replace("0.", "0._orig_mod.", 1) if name != "1" else name: value for name, value in p.items()}
    found = pgig.attribute_all(["guided_backprop", "pattern_attribution"], compiled, x, 1, patterns=renamed)
    for name, attribution in expected.items():
        torch.testing.assert_close(found[name], attribution, **EXACT)


def test_models_that_write_through_views_are_not_broken_by_channels_last():
    class Writes(nn.Module):
        def __init__(self, write) -> None:
            super().__init__()
            self.conv, self.fc = nn.Conv2d(3, 6, 3), nn.Linear(6 * 36, 5)
            self.write = write

        def forward(self, x: Tensor) -> Tensor:
            h = self.conv(x)
            self.write(h)
            return self.fc(h.reshape(len(h), -1))

    writes = [
        lambda h: h.view(-1).mul_(3),
        lambda h: h.flatten(1)[:, :30].zero_(),
        lambda h: h.reshape(len(h), -1).mul_(2),
    ]
    for write in writes:
        torch.manual_seed(0)
        model, x = Writes(write).eval(), images(dtype=torch.float32)
        found = pgig.attribute("gradient", model, x, 1, score="logit")
        torch.testing.assert_close(found, autograd(model, x), rtol=1e-4, atol=1e-5)


def test_parametrised_weights_that_are_made_anew_in_the_middle_are_noticed():
    """Without the cache a layer is not known by its weight any more: later gradients would be plain."""
    model = network("chain")
    parametrizations.weight_norm(model[6])
    patterns = random_patterns(network("chain"))

    def drop(done, total):
        parametrize._cache_enabled, parametrize._cache = 0, {}

    methods = ["pattern_attribution", "pgig"]
    with pytest.raises(pgig.PgigError, match=r"layer '6' was made anew in the middle.*parametrize.cached"):
        pgig.attribute_all(methods, model, images(), 1, patterns=patterns, progress=drop)
    assert (parametrize._cache_enabled, parametrize._cache) == (-1, {})
    parametrize._cache_enabled = 0
    assert len(pgig.attribute_all(methods, model, images(), 1, patterns=patterns)) == 2


def test_what_was_acted_on_counts_for_its_own_group_only():
    class Once(nn.Module):
        """Uses its layer for the first few rows, and a copy of the weight that nobody knows later on."""

        def __init__(self):
            super().__init__()
            self.layer, self.rows = nn.Linear(4, 3), 0

        def forward(self, x):
            self.rows += len(x) if torch.is_grad_enabled() else 0
            return x @ self.layer.weight.detach().clone().t() if self.rows > 1 else self.layer(x)

    given = {"patterns": {"layer": torch.ones(3, 4)}, "steps": 2}
    with pytest.raises(pgig.PgigError, match="found no layer to act on"):
        pgig.attribute_all(["pattern_attribution", "pgig"], Once().eval(), torch.rand(1, 4), 1, **given)


def test_two_rules_of_one_name_do_not_mix():
    model, x = network("chain"), images()
    twice, thrice = (
        pgig.Method(pgig.METHODS["pattern_attribution"].points, rules.Rule("mine", weight=weight))
        for weight in (lambda w, p: 2 * w, lambda w, p: 3 * w)
    )
    both = pgig.attribute_all({"a": twice, "b": thrice}, model, x, 1, patterns=patterns_of_ones(model))
    torch.testing.assert_close(both["b"], both["a"] * (3 / 2) ** 3, **EXACT)


def test_an_in_place_relu_stays_in_place():
    """What else points at the same memory must see the change."""

    def forward(m, x):
        h = x @ m.w
        kept = h[:, :2]
        h.relu_()
        return torch.cat([kept, h], 1)

    model, x = OwnForward(forward, w=numbers(4, 4)).eval(), numbers(3, 4, seed=3)
    options = {"patterns": {"w": torch.ones(4, 4)}, "score": "logit", "start": "one"}
    found = pgig.attribute_all(["gradient", "guided_backprop", "pattern_attribution"], model, x, 1, **options)
    torch.testing.assert_close(found["gradient"], autograd(model, x), **EXACT)
    torch.testing.assert_close(found["pattern_attribution"], autograd(model, x), **EXACT)


def test_clamps_are_named_and_randomness_is_refused():
    clamped = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)).eval()
    model = OwnForward(lambda m, x: clamped(x).clamp(min=0.1))
    with pytest.warns(pgig.PgigWarning, match="clamp"):
        pgig.attribute("guided_backprop", model, torch.randn(2, 4), 1)

    def attention(x):
        return torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.5)[0]

    for random in (
        attention,
        lambda x: torch.nn.functional.rrelu(x, training=True),
        lambda x: torch.dropout(x, 0.5, True),
    ):
        with pytest.raises(pgig.PgigError, match="dropout is on"):
            pgig.attribute("gradient", random, torch.randn(2, 4), 1)
    off = pgig.attribute("gradient", lambda x: torch.dropout(x, p=0.5, train=False), torch.ones(2, 4), 1, score="logit")
    assert off.sum() == 2


def plain_again(visit: rules.Visit) -> Tensor:
    return visit.gradient(visit.arriving, visit.weight)


def positive_part(visit: rules.Visit) -> Tensor:
    """LRP's z+ rule, where relevance is input times gradient: each input gets its share of the positive products."""
    positive = visit.weight.clamp(min=0)
    outputs = visit.output(positive)
    share = torch.where(outputs > 0, visit.output(visit.weight) / outputs.clamp(min=1e-300), 0)
    return visit.gradient(visit.arriving * share, positive)


@pytest.mark.parametrize("net", NETWORKS)
def test_a_rule_that_sees_the_input_can_be_the_plain_one(net):
    rule = rules.Rule("again", layer=plain_again)
    assert rule.keeps_input
    model, x = network(net), images()
    found = pgig.attribute(pgig.Method(pgig.METHODS["gradient"].points, rule), model, x, 1)
    torch.testing.assert_close(found, pgig.attribute("gradient", model, x, 1), **EXACT)


@pytest.mark.parametrize("inplace", [False, True])
def test_relevance_by_positive_products_equals_the_loop_over_layers(inplace):
    """In place, the input of a layer may be overwritten later: rules see it as it was."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, bias=False), nn.ReLU(inplace), nn.Flatten(), nn.Linear(144, 10, bias=False),
        nn.ReLU(inplace), nn.Linear(10, 5, bias=False),
    ).double().eval()  # fmt: skip
    x = images().abs()
    method = pgig.Method(
        pgig.METHODS["gradient_x_input"].points, rules.Rule("z+", layer=positive_part), multiply_by_input=True
    )
    found = pgig.attribute(method, model, x, 1, score="logit")
    with torch.no_grad():
        middle = model[0](x)
        a = middle.relu().flatten(1)
        b = (a @ model[3].weight.T).relu()
        relevance = torch.zeros(3, 5).double()
        relevance[:, 1] = (b @ model[5].weight.T)[:, 1]
        for given, weight in ((b, model[5].weight), (a, model[3].weight)):
            positive = weight.clamp(min=0)
            products = given @ positive.T
            share = torch.where(products > 0, relevance / products.clamp(min=1e-300), 0)
            relevance = given * (share @ positive)
        positive = model[0].weight.clamp(min=0)
        products = torch.conv2d(x, positive)
        share = torch.where(products > 0, relevance.reshape_as(products) / products.clamp(min=1e-300), 0)
        wanted = x * conv2d_input(x.shape, positive, share)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)


def test_a_rule_that_sees_the_input_needs_a_layer():
    method = pgig.Method(pgig.METHODS["gradient"].points, rules.Rule("again", layer=plain_again))
    with pytest.raises(pgig.PgigError, match="the again rule found no layer to act on"):
        pgig.attribute(method, nn.Sequential(nn.Flatten(), nn.ReLU()).eval(), images(), 1)


@pytest.mark.parametrize("shape", [(8, 4, 1, 1), (8, 1, 3, 3), (8, 4, 3, 3), (1, 1, 1, 1), (2, 3, 5, 1)])
def test_channels_last_weights_have_its_strides(shape):
    """Where both formats are laid out alike, torch goes by the strides, and sends gradients back in the other one."""
    weight = torch.randn(shape)
    found = in_channels_last(weight)
    assert torch.equal(found, weight)
    assert found.stride() == torch.empty(shape).to(memory_format=torch.channels_last).stride()
