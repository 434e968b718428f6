"""For Quantus: its metrics on our explanations, and our benchmark as one of its metrics.

`explain` is an `explain_func`; `Degradation` a metric, for which alone Quantus itself must be installed.
"""

from typing import TYPE_CHECKING, Any

from pgig.quantus.explain import explain

if TYPE_CHECKING:
    from pgig.quantus.degradation import Degradation

__all__ = ["Degradation", "explain"]


def __getattr__(name: str) -> Any:
    if name != "Degradation":
        raise AttributeError(f"module 'pgig.quantus' has no attribute {name!r}")
    from pgig.quantus.degradation import Degradation

    return Degradation
