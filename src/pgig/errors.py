"""The one exception for what a caller got wrong."""


class PgigError(ValueError):
    """What was found, what was expected, and what to do; on one line."""


class PgigWarning(UserWarning):
    """What a caller should know although nothing went wrong."""
