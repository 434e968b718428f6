"""How to read an explainer's map: what its sign means, if anything, in a sentence for whoever looks at it."""

from collections.abc import Iterable
from typing import NamedTuple

from pgig.explainers.consensus import Consensus
from pgig.explainers.igos import Igos
from pgig.explainers.methods import MethodExplainer
from pgig.explainers.occlusion import Occlusion
from pgig.explainers.protocol import Explainer
from pgig.explainers.registry import explainers
from pgig.methods.rules import patternnet
from pgig.methods.summaries import mean

_PURPLE = "The darker the purple, the more"
_NO_SIDE = "It has no sign: it cannot speak against a class."


class Reading(NamedTuple):
    """signed: is it drawn in two colours, for and against? nothing: the value, over channels, that is drawn as none."""

    signed: bool
    sentence: str
    nothing: float = 0.0


def reading_of(explainer: Explainer, signed: bool = False) -> Reading:
    """signed: draw PGIG with its sign too, as asked."""
    if isinstance(explainer, MethodExplainer):
        return _of_method(explainer, signed)
    if isinstance(explainer, Occlusion):
        return Reading(True, "Red: covering this place lowers the score. Blue: covering it raises the score.")
    if isinstance(explainer, Igos):
        return Reading(False, f"{_PURPLE} of this place the smallest harmful mask takes away. {_NO_SIDE}")
    if isinstance(explainer, Consensus):
        told = f"{_PURPLE} this place counts to several views together: their mean rank, from the middle on. {_NO_SIDE}"
        return Reading(False, told, nothing=0.5)
    return Reading(True, "Red: positive, blue: negative; what that means is the explainer's own.")


def drawn_by_magnitude(methods: Iterable[str]) -> list[str]:
    """Of methods by name, those whose maps have no sides."""
    return [name for name in methods if not reading_of(explainers([name])[name]).signed]


def is_control(explainer: Explainer) -> bool:
    """Does it know nothing, as noise does?"""
    return isinstance(explainer, MethodExplainer) and not explainer.method.rule.backward


def _of_method(explainer: MethodExplainer, signed: bool) -> Reading:
    method = explainer.method
    if not method.rule.backward:
        return Reading(False, "Noise that knows nothing: a control. Whatever looks like this says nothing.")
    if method.summary is not mean:
        return Reading(False, f"{_PURPLE} the score reacts to noise here. {_NO_SIDE}")
    if method.rule.needs_patterns and method.multiply_by_input and signed and not explainer.absolute:
        return Reading(
            True,
            "Red and blue: the sign of the evidence times x - x0. Where the image is brighter than the baseline, red "
            "speaks for the class and blue against it; where it is darker, the other way round.",
        )
    if method.rule.needs_patterns and method.multiply_by_input:
        return Reading(
            False,
            f"{_PURPLE} the signal here counts, for or against. Drawn by magnitude: the sign of PGIG is that of the "
            "evidence times x - x0, and turns where the image is darker than the baseline.",
        )
    if explainer.absolute:
        return Reading(False, f"{_PURPLE} this place counts, for or against: drawn by magnitude, without its sign.")
    if method.rule is patternnet:
        return Reading(False, f"{_PURPLE} signal the network reads here; its sign is the signal's own, and not drawn.")
    if method.rule.needs_patterns:
        return Reading(True, "Red: the signal that the network reads here speaks for the class; blue: against it.")
    if method.multiply_by_input and not method.points.is_path:
        return Reading(True, "Red: what is here raises the score, as the slope there tells; blue: it lowers it.")
    if method.multiply_by_input:
        return Reading(True, "Red: what is here, rather than the baseline, raises the score; blue: it lowers it.")
    return Reading(
        False, f"{_PURPLE} the score would react to a change here; whether it would rise or fall is not shown."
    )
