"""The names of joins, which are no parameters: by their number in a forward pass."""


def join_name(number: int) -> str:
    """No parameter has a blank in its name."""
    return f"join {number}"


def is_join(name: str) -> bool:
    return name.startswith("join ")
