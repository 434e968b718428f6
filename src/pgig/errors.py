"""The one exception for what a caller got wrong."""


class PgigError(ValueError):
    """What was found, what was expected, and what to do; on one line.

    lacks: what the caller did not give, by one word, so that a command can say which of its options gives it.

    >>> pgig.attribute("lime", torch.nn.Linear(2, 3).eval(), torch.ones(1, 2))
    Traceback (most recent call last):
    pgig.errors.PgigError: unknown method 'lime'; known: random, gradient, ...
    """

    def __init__(self, message: str, *, lacks: str | None = None) -> None:
        super().__init__(message)
        self.lacks = lacks

    def __str__(self) -> str:
        said = super().__str__()
        return f"{said}: {_IN_PYTHON[self.lacks]}" if self.lacks in _IN_PYTHON else said


# what gives it in Python, where commands have another way
_IN_PYTHON = {"a score": "pass score=, a callable that picks one scalar per input"}


class DiskFullError(PgigError):
    """What could not be written. No input is to blame."""


class PgigWarning(UserWarning):
    """What a caller should know although nothing went wrong.

    >>> import warnings
    >>> warnings.simplefilter("error", pgig.PgigWarning)  # to stop at the first
    """
