"""explain_tokens(): what the tokens of a text did, through the output of the embedding that they are looked up in."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pgig.errors import PgigError
from pgig.explaining.example import embedding_of
from pgig.explaining.explain import explain
from pgig.network.trace import trace
from pgig.records.token_explanation import TokenExplanation
from pgig.subject.scores import Score, Target
from pgig.subject.subject import Subject

TokenBaseline = Literal["padding", "zero"] | int | Tensor | None


def explain_tokens(
    model: nn.Module | Subject,
    input_ids: Tensor,
    methods: str | Sequence[str] | Mapping[str, Any] = "integrated_gradients",
    target: Target = None,
    *,
    tokenizer: Any = None,
    patterns: Mapping[str, Tensor] | None = None,
    score: Score = "probability",
    baseline: TokenBaseline = None,
    references: Tensor | None = None,
    embedding: str | None = None,
    forward_kwargs: Mapping[str, Any] | None = None,
    **options: Any,
) -> dict[str, TokenExplanation]:
    """A `TokenExplanation` for each method: attributions to the embedding's output, summed over its features.

    model: takes `input_ids`, and by name what `forward_kwargs` holds (attention_mask, token_type_ids, ...).
    input_ids: token ids, [n, tokens].
    tokenizer: tells how tokens read (`convert_ids_to_tokens`), and which pads; or a function from an id to a text.
    baseline: where paths start: "padding", the embedding of the token that pads; "zero"; the id of a token; or ids,
        [tokens] or [n, tokens]. Without: padding, where the tokenizer or the model's configuration knows it, else zero.
    references: ids [r, tokens], from which expected_gradients draws its baselines.
    embedding: the name of the table, where it cannot be found by what is looked up in it.
    options: as for `pgig.explain`: steps, samples, seed, batch_size, progress, ...

    Nothing is wrapped or hooked: the embedding's output is an inner place (`pgig.Subject(model, at=...)`). Padding, as
    the attention mask says, is explained like all else, and not shown.
    """
    subject = Subject.of(model, patterns)
    ids, named = _checked_ids(input_ids, "input_ids"), dict(forward_kwargs or {})
    at = subject.at or embedding or _found(subject, ids, named)
    inner = Subject(subject.module, subject.patterns, at=at)
    inputs = inner.inner(ids, **named)
    padding = _padding(subject.module, tokenizer)
    start = _baseline(baseline, ids, padding, lambda other: inner.inner(other, **named))
    others = None if references is None else _embedded(inner, _checked_ids(references, "references"))
    found = explain(
        inner, inputs, methods, target, score=score, baseline=start, references=others, forward_args=(ids,),
        forward_kwargs=named, **options,
    )  # fmt: skip
    texts, shown = _texts(ids, tokenizer), _shown(ids, named.get("attention_mask"), padding)
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


def _checked_ids(ids: Any, what: str) -> Tensor:
    if not isinstance(ids, Tensor) or ids.is_floating_point() or ids.dim() != 2 or ids.numel() == 0:
        found = f"{ids.dtype} of shape {tuple(ids.shape)}" if isinstance(ids, Tensor) else type(ids).__name__
        raise PgigError(f"{what} must be token ids, whole numbers [n, tokens], got {found}")
    return ids.detach()


def _found(subject: Subject, ids: Tensor, named: Mapping[str, Any]) -> str:
    first = {
        name: v[:1] if isinstance(v, Tensor) and v.dim() and len(v) == len(ids) else v for name, v in named.items()
    }
    traced = trace(subject.module, ids[:1], **first)
    name = embedding_of(ids[:1], traced)
    if name is None:
        known = ", ".join(dict.fromkeys(table.name for table in traced.embeddings)) or "none"
        raise PgigError(
            f"the token ids are not looked up in one embedding, once (embeddings of this model: {known}): give "
            "embedding=, the name of a table, or explain its output with pgig.attribute"
        )
    return name


def _padding(model: nn.Module, tokenizer: Any) -> int | None:
    for owner in (tokenizer, getattr(model, "config", None)):
        if isinstance(found := getattr(owner, "pad_token_id", None), int):
            return found
    return None


def _baseline(wanted: TokenBaseline, ids: Tensor, padding: int | None, embed: Callable[[Tensor], Tensor]) -> Any:
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
    given = torch.as_tensor(wanted, device=ids.device)
    if given.is_floating_point():
        raise PgigError("the baseline of tokens is token ids, whole numbers; 'zero' is the embedding's zero")
    try:
        return embed(given.to(ids.dtype).expand_as(ids).clone())
    except RuntimeError as error:
        raise PgigError(
            f"a baseline of shape {tuple(given.shape)} does not fit ids {tuple(ids.shape)}: {error}"
        ) from error


def _embedded(inner: Subject, ids: Tensor) -> Tensor:
    return inner.inner(ids)


def _texts(ids: Tensor, tokenizer: Any) -> tuple[tuple[str, ...], ...]:
    rows = ids.tolist()
    if hasattr(tokenizer, "convert_ids_to_tokens"):
        return tuple(tuple(map(str, tokenizer.convert_ids_to_tokens(row))) for row in rows)
    read = tokenizer if callable(tokenizer) else str
    return tuple(tuple(str(read(token)) for token in row) for row in rows)


def _shown(ids: Tensor, mask: Any, padding: int | None) -> NDArray[Any]:
    if isinstance(mask, Tensor) and mask.shape == ids.shape:
        return numpy.asarray((mask != 0).cpu())
    found = torch.ones_like(ids, dtype=torch.bool) if padding is None else ids != padding
    return numpy.asarray(found.cpu())
