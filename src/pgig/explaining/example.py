"""An example of what a model takes, and where its gradient can be looked at."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from pgig.errors import PgigError
from pgig.network.traced import Trace
from pgig.subject.inputs import PerInput, named_inputs
from pgig.subject.subject import Subject


@dataclass(frozen=True)
class Example:
    """What a subject is called with."""

    subject: Subject
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    @classmethod
    def of(
        cls, subject: Subject, example: Any, forward_args: Any, forward_kwargs: Mapping[str, Any] | None
    ) -> "Example":
        further = forward_args if isinstance(forward_args, tuple) else (forward_args,)
        named = dict(forward_kwargs or {})
        if isinstance(example, Mapping):
            try:
                names, tensors, rest = named_inputs(example)
            except PgigError:  # token ids
                return cls(subject, further, {**example, **named})
            given = tensors if isinstance(tensors, tuple) else (tensors,)
            return cls(subject.taking(names), (*given, *further), {**rest, **named})
        return cls(subject, (*(example if isinstance(example, tuple) else (example,)), *further), named)

    @property
    def first(self) -> Any:
        """What counts the rows."""
        return next(iter((*self.args, *self.kwargs.values())), None)

    @property
    def by_name(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What the model itself is called with."""
        names = self.subject.names
        return self.args[len(names) :], {**dict(zip(names, self.args, strict=False)), **self.kwargs}

    @property
    def has_gradient(self) -> bool:
        return bool(self.args) and isinstance(self.args[0], Tensor) and self.args[0].is_floating_point()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.first.shape)

    def at_embedding(self, traced: Trace) -> "Example":
        """The same from the output of the embedding that token ids are looked up in, which has a gradient."""
        whole = (value for value in (*self.args, *self.kwargs.values()) if isinstance(value, Tensor))
        names = (embedding_of(value, traced) for value in whole if not value.is_floating_point())
        name = next((name for name in names if name is not None), None)
        if name is None:
            return self
        subject = Subject(self.subject.model, self.subject.patterns, at=name)
        return Example(subject, (subject.inner(*self.args, **self.kwargs), *self.args), self.kwargs)

    def copies(self, has_gradient: bool) -> tuple[Tensor | None, list[Any]]:
        """The first input as a leaf, if it has a gradient, and copies for the model, which may work in place."""
        leaf = self.args[0].detach().clone().requires_grad_() if has_gradient else None
        given = (leaf, *self.args[1:]) if leaf is not None else self.args
        return leaf, [x.clone() if isinstance(x, Tensor) else x for x in given]

    def precise(self, model: nn.Module) -> "Example":
        """The same for a model in float64."""
        subject = self.subject.like(model)
        kwargs = {name: _doubled(value) for name, value in self.kwargs.items()}
        return Example(subject, tuple(map(_doubled, self.args)), kwargs)

    def rolled(self, cells: int) -> "Example":
        """The same of another input, that has the same values at other places."""
        return replace(self, args=(self.args[0].roll(cells, -1), *self.args[1:]))

    def further(self, rows: Tensor) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What the model takes beside the input, of some rows."""
        return PerInput(tuple(self.args[1:]), dict(self.kwargs), len(self.args[0])).rows(rows)


def embedding_of(ids: Any, traced: Trace) -> str | None:
    """The table that these token ids were looked up in, once, and nothing else; of several, the largest."""
    if not isinstance(ids, Tensor):
        return None
    names = [table.name for table in traced.embeddings]
    found = [t for t in traced.embeddings if t.ids.shape == ids.shape and torch.equal(t.ids, ids)]
    alone = [table for table in found if names.count(table.name) == 1]
    return max(alone, key=lambda table: table.rows).name if alone and len(alone) == len(found) else None


def _doubled(value: Any) -> Any:
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value
