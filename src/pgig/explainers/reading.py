"""How to read an explainer's map: what its sign means, if anything, in a sentence for whoever looks at it."""

from typing import NamedTuple

from pgig.explainers.igos import Igos
from pgig.explainers.methods import MethodExplainer
from pgig.explainers.occlusion import Occlusion
from pgig.explainers.protocol import Explainer
from pgig.methods.summaries import mean

_PURPLE = "The darker the purple, the more"
_NO_SIDE = "It has no sign: it cannot speak against a class."


class Reading(NamedTuple):
    """signed: is it drawn in two colours, for and against?"""

    signed: bool
    sentence: str


def reading_of(explainer: Explainer) -> Reading:
    if isinstance(explainer, MethodExplainer):
        return _of_method(explainer)
    if isinstance(explainer, Occlusion):
        return Reading(True, "Red: covering this place lowers the score. Blue: covering it raises the score.")
    if isinstance(explainer, Igos):
        return Reading(False, f"{_PURPLE} of this place the smallest harmful mask takes away. {_NO_SIDE}")
    return Reading(True, "Red: positive, blue: negative; what that means is the explainer's own.")


def _of_method(explainer: MethodExplainer) -> Reading:
    method = explainer.method
    if not method.rule.backward:
        return Reading(False, "Noise that knows nothing: a control. Whatever looks like this says nothing.")
    if method.summary is not mean:
        return Reading(False, f"{_PURPLE} the score reacts to noise here. {_NO_SIDE}")
    if method.rule.needs_patterns and method.multiply_by_input:
        return Reading(
            False,
            f"{_PURPLE} the signal here counts, for or against. Drawn by magnitude: the sign of PGIG is that of the "
            "evidence times x - x0, and turns where the image is darker than the baseline.",
        )
    if explainer.absolute:
        return Reading(False, f"{_PURPLE} this place counts, for or against: drawn by magnitude, without its sign.")
    if method.rule.needs_patterns:
        return Reading(True, "Red: the signal that the network reads here speaks for the class; blue: against it.")
    if method.multiply_by_input:
        return Reading(True, "Red: what is here, rather than the baseline, raises the score; blue: it lowers it.")
    return Reading(
        False, f"{_PURPLE} the score would react to a change here; whether it would rise or fall is not shown."
    )
