"""Errors as Captum's users expect them."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from pgig.errors import PgigError

P = ParamSpec("P")
R = TypeVar("R")


class CaptumError(PgigError, AssertionError):
    """What a caller got wrong: pgig's one exception, and the AssertionError that Captum raises."""


def with_captum_errors(call: Callable[P, R]) -> Callable[P, R]:
    """The call, whose errors are both. `__wrapped__` is the call itself, by which Captum's NoiseTunnel calls it."""

    @wraps(call)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except CaptumError:
            raise
        except PgigError as error:
            raise CaptumError(str(error), lacks=error.lacks) from error

    return wrapped


def not_in_the_future(name: str) -> Callable[..., Any]:
    """`attribute_future`, which Captum has for few of its classes."""

    def attribute_future(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Not implemented, as in most of Captum's classes."""
        raise NotImplementedError(f"attribute_future is not implemented for {name}")

    return attribute_future
