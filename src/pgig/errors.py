"""The one exception for what a caller got wrong."""


class PgigError(ValueError):
    """What was found, what was expected, and what to do; on one line."""


class DiskFullError(PgigError):
    """What could not be written. No input is to blame."""


class PgigWarning(UserWarning):
    """What a caller should know although nothing went wrong."""
