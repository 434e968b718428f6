"""explain_tokens(): what the tokens of a text did, through the output of the embedding that they are looked up in."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from pgig.errors import PgigError, PgigWarning
from pgig.explainers.registry import explainers
from pgig.explainers.together import needing_patterns
from pgig.explaining.example import embedding_of
from pgig.explaining.explain import explain
from pgig.network.checks import FAILURES
from pgig.network.trace import trace
from pgig.patterns.kept import Auto, given_or_found
from pgig.records.token_explanation import TokenExplanation
from pgig.subject.scores import Score, Target
from pgig.subject.subject import Subject

_CANCELS = 1e-6  # of the size of a token's attributions, in all tokens
TokenBaseline = Literal["padding", "zero"] | int | Tensor | None


def explain_tokens(
    model: nn.Module | Subject,
    input_ids: Tensor | Mapping[str, Any],
    methods: str | Sequence[str] | Mapping[str, Any] = "integrated_gradients",
    target: Target = None,
    *,
    tokenizer: Any = None,
    patterns: Mapping[str, Tensor] | Auto | None = None,
    score: Score = "probability",
    baseline: TokenBaseline = None,
    references: Tensor | None = None,
    embedding: str | None = None,
    forward_kwargs: Mapping[str, Any] | None = None,
    **options: Any,
) -> dict[str, TokenExplanation]:
    """A `TokenExplanation` for each method: attributions to the embedding's output, summed over its features.

    model: takes `input_ids`, and by name what `forward_kwargs` holds (attention_mask, token_type_ids, ...).
    input_ids: token ids, [n, tokens]; or what a tokenizer gives, a mapping that holds them.
    tokenizer: tells how tokens read (`convert_ids_to_tokens`), and which pads; or a function from an id to a text.
    baseline: where paths start: "padding", the embedding of the token that pads; "zero"; the id of a token; or ids,
        [tokens] or [n, tokens]. Without: padding, where the tokenizer or the model's configuration knows it, else zero.
    references: ids [r, tokens], from which expected_gradients draws its baselines.
    embedding: the name of the table, where it cannot be found by what is looked up in it.
    options: as for `pgig.explain`: steps, samples, seed, batch_size, progress, ...

    methods: those of the table, `pgig.METHODS`. Occlusion is not among them: it covers parts of images.

    Nothing is wrapped or hooked: the embedding's output is an inner place (`pgig.Subject(model, at=...)`). Padding, as
    the attention mask says, is explained like all else, and not shown.

    target, patterns, score: as at `pgig.attribute`.

    Raises PgigError where no embedding is found, or ids, names or options do not fit.

    >>> reader = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Flatten(), torch.nn.Linear(12, 2)).eval()
    >>> pgig.explain_tokens(reader, torch.tensor([[1, 5, 2]]), "gradient_x_input")["gradient_x_input"].attribution.shape
    (1, 3)
    """
    subject = Subject.of(model, given_or_found(patterns, model, bool(needing_patterns(explainers(methods)))))
    if isinstance(input_ids, Mapping):  # what a tokenizer gives
        forward_kwargs = {**{k: v for k, v in input_ids.items() if k != "input_ids"}, **(forward_kwargs or {})}
        input_ids = input_ids.get("input_ids")  # type: ignore[assignment]
    if forward_kwargs is not None and not isinstance(forward_kwargs, Mapping):
        raise PgigError(f"forward_kwargs must be a mapping, got {type(forward_kwargs).__name__}")
    ids, named = _checked_ids(input_ids, "input_ids"), dict(forward_kwargs or {})
    if "forward_args" in options:
        raise PgigError("explain_tokens takes what the model is given beside the ids by name: use forward_kwargs")
    for name, value in named.items():
        if isinstance(value, list | numpy.ndarray):
            raise PgigError(f"{name} must be a tensor, got a {type(value).__name__}: give torch.as_tensor({name})")
    texts = _texts(ids, tokenizer)
    with _told(ids):
        at = _found(subject, ids, named, subject.at or embedding)
        inner = Subject(subject.module, subject.patterns, at=at)
        inputs = inner.inner(ids, **named)
    table = _table(subject.module, at)
    padding = _padding(subject.module, tokenizer)
    start = _baseline(baseline, ids, padding, table)
    others = None if references is None else _looked_up(_checked_ids(references, "references"), table, "references")
    found = explain(
        inner, inputs, methods, target, score=score, baseline=start, references=others, forward_args=(ids,),
        forward_kwargs=named, **options,
    )  # fmt: skip
    for name, one in found.items():
        _warn_of_cancelling(name, numpy.asarray(one.attribution))
    shown = _shown(ids, named.get("attention_mask"))
    return {
        name: TokenExplanation(
            method=name,
            tokens=texts,
            attribution=numpy.asarray(one.attribution).sum(-1),
            shown=shown,
            options={**one.options, "embedding": at},
            score=one.score,
            target=one.target,
            predicted=one.predicted,
            probability=one.probability,
            completeness=one.completeness,
            seconds=one.seconds,
        )
        for name, one in found.items()
    }


@contextmanager
def _told(ids: Tensor) -> Iterator[None]:
    """What a model says of ids that it was not made for, in one line."""
    try:
        yield
    except FAILURES as error:
        if isinstance(error, PgigError):
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise PgigError(f"the model failed on token ids of shape {tuple(ids.shape)}: {reason}") from error


def _checked_ids(ids: Any, what: str) -> Tensor:
    whole = isinstance(ids, Tensor) and not ids.is_floating_point() and ids.dtype != torch.bool
    if not whole or ids.dim() != 2 or ids.numel() == 0:
        found = f"{ids.dtype} of shape {tuple(ids.shape)}" if isinstance(ids, Tensor) else type(ids).__name__
        raise PgigError(f"{what} must be token ids, whole numbers [n, tokens], got {found}")
    found_ids: Tensor = ids.detach()
    return found_ids


def _found(subject: Subject, ids: Tensor, named: Mapping[str, Any], wanted: str | None) -> str:
    first = {
        name: v[:1] if isinstance(v, Tensor) and v.dim() and len(v) == len(ids) else v for name, v in named.items()
    }
    traced = trace(subject.module, ids[:1], **first)
    tables = [table for table in traced.embeddings if table.ids.shape == ids[:1].shape]
    name = embedding_of(ids[:1], traced) if wanted is None else wanted
    if name is None or (
        wanted is not None and not any(torch.equal(t.ids, ids[:1]) for t in tables if t.name == wanted)
    ):
        known = ", ".join(dict.fromkeys(table.name for table in traced.embeddings)) or "none"
        where = "one embedding" if wanted is None else repr(wanted)
        raise PgigError(
            f"the token ids are not looked up in {where}, once (embeddings of this model: {known}): give embedding= "
            "where one table is looked up once; else explain a model that takes inputs_embeds, with pgig.attribute"
        )
    return name


def _table(model: nn.Module, at: str) -> Tensor:
    parameters = dict(model.named_parameters())
    return parameters[f"{at}.weight" if f"{at}.weight" in parameters else at].detach()


def _looked_up(ids: Tensor, table: Tensor, what: str) -> Tensor:
    if int(ids.min()) < 0 or int(ids.max()) >= len(table):
        raise PgigError(f"{what} must be token ids in 0..{len(table) - 1}, got {int(ids.min())}..{int(ids.max())}")
    return F.embedding(ids, table)


def _warn_of_cancelling(name: str, attribution: NDArray[Any]) -> None:
    """Behind a layer norm, gradients add up to nothing over the features: what is left is rounding."""
    summed, size = numpy.abs(attribution.sum(-1)).max(), numpy.abs(attribution).sum(-1).max()
    if size > 0 and summed < _CANCELS * size:
        warnings.warn(
            f"{name} cancels out over the features of every token, as gradients do before a layer norm: its sums are "
            "rounding. Use a method that multiplies by the input, such as integrated_gradients or gradient_x_input",
            PgigWarning,
            stacklevel=3,
        )


def _padding(model: nn.Module, tokenizer: Any) -> int | None:
    for owner in (tokenizer, getattr(model, "config", None)):
        if isinstance(found := getattr(owner, "pad_token_id", None), int):
            return found
    return None


def _baseline(wanted: TokenBaseline, ids: Tensor, padding: int | None, table: Tensor) -> Any:
    if wanted is None:
        wanted = "zero" if padding is None else "padding"
    if isinstance(wanted, str) and wanted == "zero":
        return 0.0
    if isinstance(wanted, str):
        if wanted != "padding":
            raise PgigError(f"unknown baseline {wanted!r}; choose 'padding', 'zero', a token's id, or ids")
        if padding is None:
            raise PgigError("neither the tokenizer nor the model's configuration knows a token that pads: give its id")
        wanted = padding
    try:
        given = torch.as_tensor(wanted, device=ids.device)
    except (TypeError, ValueError, RuntimeError):
        raise PgigError(f"the baseline must be 'padding', 'zero', a token's id, or ids, got {wanted!r}") from None
    if given.is_floating_point() or given.dtype == torch.bool:
        raise PgigError("the baseline of tokens is token ids, whole numbers; 'zero' is the embedding's zero")
    try:
        whole = given.to(ids.dtype).expand_as(ids)
    except RuntimeError:
        raise PgigError(f"a baseline of shape {tuple(given.shape)} does not fit ids {tuple(ids.shape)}") from None
    return _looked_up(whole, table, "the baseline")


def _texts(ids: Tensor, tokenizer: Any) -> tuple[tuple[str, ...], ...]:
    rows = ids.tolist()
    try:
        return _read_by(tokenizer, rows)
    except PgigError:
        raise
    except Exception as error:  # it is the caller's own
        reason = (str(error).splitlines() or [""])[0]
        raise PgigError(f"the tokenizer failed on these ids: {type(error).__name__}: {reason}") from error


def _read_by(tokenizer: Any, rows: list[list[int]]) -> tuple[tuple[str, ...], ...]:
    if hasattr(tokenizer, "convert_ids_to_tokens"):
        read_rows = [tokenizer.convert_ids_to_tokens(row) for row in rows]
        if any(read is None or len(read) != len(row) for read, row in zip(read_rows, rows, strict=True)):
            raise PgigError("the tokenizer does not give one token for every id: is it the model's?")
        return tuple(tuple(map(str, read)) for read in read_rows)
    if tokenizer is not None and not callable(tokenizer):
        raise PgigError(
            f"the tokenizer must have convert_ids_to_tokens, or be a function, got {type(tokenizer).__name__}"
        )
    read = tokenizer if callable(tokenizer) else str
    return tuple(tuple(str(read(token)) for token in row) for row in rows)


def _shown(ids: Tensor, mask: Any) -> NDArray[Any]:
    """All that the model attends to."""
    if isinstance(mask, Tensor) and mask.shape == ids.shape:
        return numpy.asarray((mask != 0).cpu())
    return numpy.ones(tuple(ids.shape), dtype=bool)
