"""attribute() and attribute_all(): the front door for gradients."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from inspect import Parameter, Signature, signature
from typing import Any, Literal, TypedDict, Unpack, cast

from torch import Tensor, nn

from pgig.attribution.attributions import Progress, attributions
from pgig.errors import PgigError
from pgig.explaining.inner import Layer, inner_call
from pgig.methods.quadrature import Quadrature
from pgig.methods.table import Method, Start, method_table
from pgig.network.inner_place import Side
from pgig.patterns.kept import Auto, given_or_found
from pgig.subject.context import BatchSize
from pgig.subject.inputs import Baseline, Given, Tensors, named_inputs
from pgig.subject.scores import Score, Target
from pgig.subject.subject import Subject


class Options(TypedDict, total=False):
    """The keyword arguments of `attribute` and `attribute_all`, explained at the former."""

    score: Score
    start: Start | None
    baseline: Baseline
    references: Tensors | None
    patterns: Mapping[str, Tensor] | Auto | None
    steps: int | Literal["auto"] | None
    tolerance: float | None
    samples: int | None
    variance: float | None
    quadrature: Quadrature | None
    multiply_by_input: bool | None
    soft_gates: bool | None
    seed: int
    ids: Sequence[Hashable] | Tensor | None
    batch_size: BatchSize
    progress: Progress | None
    forward_args: Any
    forward_kwargs: dict[str, Any] | None
    layer: Layer | None
    side: Side
    spent: dict[str, list[int]] | None


def attribute(
    method: str | Method,
    model: Callable[..., Any] | Subject,
    inputs: Given,
    target: Target = None,
    **options: Unpack[Options],
) -> Given:
    """The attribution of `inputs` by one method, shaped like them.

    method: a name out of `pgig.METHODS`, such as "integrated_gradients", "pgig" or "guided_backprop" (`pgig methods`
        lists them with what they cost), or a `Method`.
    model: a module in eval mode, any callable where no rule needs its parameters, or a `pgig.Subject`.
    inputs: a batch [n, ...] or a tuple of batches; dtype and device follow it. Or a mapping of what the model takes by
        name: its floating point tensors are explained, the rest is passed on.
    target: None (the class predicted for x), a class index, one per input, or tuples for outputs of more dimensions.
    score: "probability" (softmax over axis 1), "logit", or a callable from the model's output to one scalar per input.
    start: "one" or "score", what backpropagation begins with; None is each method's own.
    baseline: where paths start: a number, or a tensor that broadcasts to the inputs; a tuple of those for a tuple.
    references: inputs [r, ...] from which expected_gradients draws its baselines.
    patterns: layer name -> tensor of the weight's shape, for the methods with a pattern rule; without, the subject's.
        "auto" looks for those of these weights that were kept on this machine, or come with pgig.
    steps, samples, variance, quadrature, multiply_by_input: set for every method that has the option; None is the
        method's own. An option that none of the methods has is an error.
    steps="auto", tolerance: as many steps as each input needs for a completeness residual below the tolerance (0.01),
        in parts of the score's change; methods with a pattern rule go by the bends of the score instead.
    soft_gates: does guided_backprop act on soft gates too (GELU, SiLU, leaky ReLU, ...), by the sign of their input?
    seed, ids: what random draws depend on, beside the points; ids default to the index in the batch.
    batch_size: how many points go through the model at once; None bounds the memory. "whole" puts all inputs at the
        same point through together, for a model whose answer for one input depends on the others; without it, such a
        model is refused.
    progress: called with (points done, points in all).
    forward_args, forward_kwargs: passed on to the model; tensors with one row per input are cut to the rows in work.
    layer, side: explain what this layer gives ("output") or is given ("input") in place of the input: its name, the
        module, or several. Inputs, baseline and references are still the model's; paths and noise are the layer's, and
        attributions are shaped like what it gives.
    spent: a dict that is filled with the gradients that each input took, for every method with steps="auto".

    Raises PgigError, in one line, for what does not fit: a target or a method that is none, an option that no method
    has, a model that is still training, patterns that do not fit, values that are not finite, a model whose rows depend
    on each other. A keyword that is not above is a TypeError; what the model itself raises comes through as it is.

    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3)).eval()
    >>> x, data = torch.ones(1, 2), torch.randn(100, 2)
    >>> pgig.attribute("integrated_gradients", model, x, target=0, steps=50).shape
    torch.Size([1, 2])
    >>> pgig.attribute("pgig", model, x, patterns=pgig.estimate_patterns(model, [data])).shape
    torch.Size([1, 2])
    """
    if unknown := options.keys() - Options.__annotations__.keys():
        raise TypeError(f"attribute() got an unexpected keyword argument {sorted(unknown)[0]!r}")
    methods = {"method": method} if isinstance(method, Method) else [method]
    (attribution,) = attribute_all(methods, model, inputs, target, **options).values()
    return attribution


def attribute_all(
    methods: Sequence[str] | Mapping[str, Method],
    model: Callable[..., Any] | Subject,
    inputs: Given,
    target: Target = None,
    *,
    score: Score = "probability",
    start: Start | None = None,
    baseline: Baseline = 0,
    references: Tensors | None = None,
    patterns: Mapping[str, Tensor] | Auto | None = None,
    steps: int | Literal["auto"] | None = None,
    tolerance: float | None = None,
    samples: int | None = None,
    variance: float | None = None,
    quadrature: Quadrature | None = None,
    multiply_by_input: bool | None = None,
    soft_gates: bool | None = None,
    seed: int = 0,
    ids: Sequence[Hashable] | Tensor | None = None,
    batch_size: BatchSize = None,
    progress: Progress | None = None,
    forward_args: Any = (),
    forward_kwargs: dict[str, Any] | None = None,
    layer: Layer | None = None,
    side: Side = "output",
    spent: dict[str, list[int]] | None = None,
) -> dict[str, Given]:
    """The attributions of `inputs` by several methods, each shaped like the inputs.

    Methods that look at the same points share their forward passes, and those that also share rule and start share
    their backward passes.

    methods: names out of `pgig.METHODS`, or a mapping of names of your own to `Method` values.

    Arguments and errors are those of `attribute`: model, inputs, target, score, baseline, references, patterns, seed,
    ids, batch_size, progress, forward_args, forward_kwargs, layer, side, spent; and start, steps, tolerance, samples,
    variance, quadrature, multiply_by_input, soft_gates, which go to the methods that have them.

    >>> model, x = torch.nn.Linear(2, 3).eval(), torch.ones(1, 2)
    >>> found = pgig.attribute_all(["gradient", "integrated_gradients"], model, x, target=0)
    >>> {name: tuple(a.shape) for name, a in found.items()}
    {'gradient': (1, 2), 'integrated_gradients': (1, 2)}
    """
    named = {"steps": steps, "tolerance": tolerance, "samples": samples, "variance": variance, "quadrature": quadrature,
             "multiply_by_input": multiply_by_input, "soft_gates": soft_gates, "start": start}  # fmt: skip
    table = method_table(methods, {name: value for name, value in named.items() if value is not None})
    if layer is None and side != "output":
        raise PgigError(f"side={side!r} is of a layer: give layer= too")
    if layer is not None and not isinstance(layer, nn.Module) and not layer:
        raise PgigError("layer= is the name of a layer, a module, or several of them")
    needs_patterns = any(method.rule.needs_patterns for method in table.values())
    subject, given = Subject.of(model, given_or_found(patterns, model, needs_patterns)), inputs
    if layer is not None:
        inner = inner_call(
            subject, layer, side, inputs, baseline, references, forward_args, forward_kwargs,
            whole=batch_size == "whole", has_path=any(method.points.is_path for method in table.values()),
        )  # fmt: skip
        subject, baseline, references = inner.subject, inner.baseline, inner.references
        given = inner.inputs  # type: ignore[assignment]
        forward_args, forward_kwargs = inner.forward_args, inner.forward_kwargs
    elif isinstance(inputs, Mapping):
        if twice := inputs.keys() & (forward_kwargs or {}).keys():
            raise PgigError(f"{sorted(twice)[0]!r} is both among the inputs and in forward_kwargs: give it once")
        names, given, rest = named_inputs(inputs)  # type: ignore[assignment]
        subject, forward_kwargs = subject.taking(names), {**rest, **(forward_kwargs or {})}
    found = attributions(
        table,
        subject,
        cast(Tensors, given),
        target,
        score=score,
        baseline=baseline,
        references=references,
        seed=seed,
        ids=ids,
        batch_size=batch_size,
        progress=progress,
        spent=spent,
        forward_args=forward_args,
        forward_kwargs=forward_kwargs,
    )
    if isinstance(inputs, Mapping) and layer is None:
        return {name: cast(Given, _by_name(subject.names, parts)) for name, parts in found.items()}
    return cast(dict[str, Given], found)


def _spelled_out() -> Signature:
    """Of `attribute`, with the keywords of `attribute_all` and their defaults, for help() and editors."""
    own = [each for each in signature(attribute).parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
    keywords = [each for each in signature(attribute_all).parameters.values() if each.kind is Parameter.KEYWORD_ONLY]
    return signature(attribute).replace(parameters=[*own, *keywords])


attribute.__signature__ = _spelled_out()  # type: ignore[attr-defined]


def _by_name(names: Sequence[str], parts: Tensors) -> dict[str, Tensor]:
    return dict(zip(names, parts if isinstance(parts, tuple) else (parts,), strict=True))
