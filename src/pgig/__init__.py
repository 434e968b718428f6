"""Pattern-Guided Integrated Gradients and its peers, for any PyTorch model."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgig.attribution import attribute, attribute_all
    from pgig.errors import PgigError, PgigWarning
    from pgig.estimation import estimate_moments, estimate_patterns
    from pgig.figures import show
    from pgig.heatmaps import heatmap
    from pgig.methods import METHODS, Method
    from pgig.moments import Moments
    from pgig.occlusions import occlusion
    from pgig.patterns import Patterns
    from pgig.preflight import check
    from pgig.quality import signal_quality
    from pgig.residual import completeness

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "Method",
    "Moments",
    "Patterns",
    "PgigError",
    "PgigWarning",
    "attribute",
    "attribute_all",
    "check",
    "completeness",
    "estimate_moments",
    "estimate_patterns",
    "heatmap",
    "occlusion",
    "show",
    "signal_quality",
]

# Loaded at first use (PEP 562), so that `import pgig` is quick and its parts load without each other's dependencies.
_HOMES = {
    "METHODS": "methods",
    "Method": "methods",
    "Moments": "moments",
    "Patterns": "patterns",
    "PgigError": "errors",
    "PgigWarning": "errors",
    "attribute": "attribution",
    "attribute_all": "attribution",
    "check": "preflight",
    "completeness": "residual",
    "estimate_moments": "estimation",
    "estimate_patterns": "estimation",
    "heatmap": "heatmaps",
    "occlusion": "occlusions",
    "show": "figures",
    "signal_quality": "quality",
}
_SUBMODULES = {"captum", "degradation", "incremental", "quantus", "report", "synthetic", "vision"}


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f"pgig.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'pgig' has no attribute {name!r}")
    value = getattr(import_module(f"pgig.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_SUBMODULES})
