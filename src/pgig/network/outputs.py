"""Outputs: the tensor that is meant by what a model returns."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from pgig.errors import PgigError
from pgig.network.nested import tensors_in

_NAMES = "logits", "out"


def answer_in(output: Any) -> Tensor | None:
    """The tensor named `logits` or `out` in a mapping, a named tuple or an object; the only one; or None."""
    if isinstance(output, Tensor):
        return output
    for name in _NAMES:
        named = output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)
        if isinstance(named, Tensor):
            return named
    found = list(tensors_in(output))
    return found[0] if len(found) == 1 else None


def answer_of(output: Any) -> Tensor:
    """The same, and one line where there is no telling."""
    answer = answer_in(output)
    if answer is None:
        raise PgigError(
            f"the model returned {_shown(output)}, and none of it is named 'logits' or 'out'", lacks="a score"
        )
    return answer


def _shown(output: Any) -> str:
    kind = type(output).__name__
    count = len(list(tensors_in(output)))
    if isinstance(output, Mapping):
        names = [str(name) for name in output]
        return f"a {kind} of {', '.join(names[:4])}{', ...' if len(names) > 4 else ''}"
    return f"a {kind} of {count} tensors" if count else f"a {kind}"
