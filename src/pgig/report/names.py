"""Names of methods, as figures show them."""

_MOST = 24


def short_name(method: str) -> str:
    """In words; of a long name the end, which tells more than its beginning."""
    words = method.replace("_", " ")
    return words if len(words) <= _MOST else f"…{words[1 - _MOST :]}"
