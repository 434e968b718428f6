"""The contract: what an explainer is, what it needs, and what it is told."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

from torch import Tensor

from pgig.errors import PgigError
from pgig.subject.context import Context
from pgig.subject.subject import Subject


@dataclass(frozen=True)
class Needs:
    """What an explainer cannot do without."""

    patterns: bool = False
    references: bool = False
    black: bool = False
    memory: int = 0  # bytes, beside what the model and a chunk of gradients take


@runtime_checkable
class Explainer(Protocol):
    """Turns a subject and an input into an attribution of the input's shape."""

    @property
    def about(self) -> str: ...

    @property
    def options(self) -> Mapping[str, Any]: ...

    @property
    def needs(self) -> Needs: ...

    @property
    def shares(self) -> Hashable | None:
        """Those with equal values do the same work, and are explained in one call; None: nothing is shared."""
        ...

    def with_options(self, **values: Any) -> Self:
        """The same with other options, which may be texts, as a person writes them."""
        ...

    def explain(self, subject: Subject, x: Tensor, target: Tensor, context: Context) -> Tensor: ...


def typed(text: Any, like: Any) -> Any:
    """An option's value as its default is."""
    if not isinstance(text, str):
        return text
    if isinstance(like, bool):
        if text.lower() not in ("true", "false"):
            raise PgigError(f"expected true or false, got {text!r}")
        return text.lower() == "true"
    if text == "auto":
        return text
    if isinstance(like, int | float):
        try:
            return type(like)(text)
        except ValueError:
            raise PgigError(f"expected a number, got {text!r}") from None
    return text
