"""Pattern-Guided Integrated Gradients and its peers, for any PyTorch model."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgig.app.widget import widget
    from pgig.attribution.completeness import completeness
    from pgig.drawing.figures import show
    from pgig.drawing.heatmaps import heatmap
    from pgig.errors import PgigError, PgigWarning
    from pgig.explainers.occlusion import occlusion
    from pgig.explainers.registry import register
    from pgig.explaining.attribute import attribute, attribute_all
    from pgig.explaining.check import check
    from pgig.explaining.explain import explain
    from pgig.explaining.tokens import explain_tokens
    from pgig.methods.table import METHODS, Method
    from pgig.patterns.choice import patterns_by_quality
    from pgig.patterns.estimation import estimate_moments, estimate_patterns
    from pgig.patterns.kept import find_patterns, keep_patterns
    from pgig.patterns.moments import Moments
    from pgig.patterns.patterns import Patterns
    from pgig.patterns.quality import signal_quality
    from pgig.records.explanation import Explanation
    from pgig.records.token_explanation import TokenExplanation
    from pgig.subject.subject import Subject

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "Explanation",
    "Method",
    "Moments",
    "Patterns",
    "PgigError",
    "PgigWarning",
    "Subject",
    "TokenExplanation",
    "attribute",
    "attribute_all",
    "check",
    "completeness",
    "estimate_moments",
    "estimate_patterns",
    "explain",
    "explain_tokens",
    "find_patterns",
    "heatmap",
    "keep_patterns",
    "occlusion",
    "patterns_by_quality",
    "register",
    "show",
    "signal_quality",
    "widget",
]

# Loaded at first use (PEP 562), so that `import pgig` is quick and its parts load without each other's dependencies.
_HOMES = {
    "METHODS": "methods.table",
    "Explanation": "records.explanation",
    "Method": "methods.table",
    "Moments": "patterns.moments",
    "Patterns": "patterns.patterns",
    "PgigError": "errors",
    "PgigWarning": "errors",
    "Subject": "subject.subject",
    "TokenExplanation": "records.token_explanation",
    "attribute": "explaining.attribute",
    "attribute_all": "explaining.attribute",
    "check": "explaining.check",
    "completeness": "attribution.completeness",
    "estimate_moments": "patterns.estimation",
    "estimate_patterns": "patterns.estimation",
    "explain": "explaining.explain",
    "explain_tokens": "explaining.tokens",
    "find_patterns": "patterns.kept",
    "heatmap": "drawing.heatmaps",
    "keep_patterns": "patterns.kept",
    "occlusion": "explainers.occlusion",
    "patterns_by_quality": "patterns.choice",
    "register": "explainers.registry",
    "show": "drawing.figures",
    "signal_quality": "patterns.quality",
    "widget": "app.widget",
}
_SUBMODULES = {"captum", "degradation", "incremental", "measures", "quantus", "report", "synthetic", "vision"}


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
