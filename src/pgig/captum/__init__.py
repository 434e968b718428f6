"""The methods behind Captum's signatures: change the import, keep the rest.

Names and defaults are Captum's: the raw output is the score, backpropagation starts from one, 50 Gauss-Legendre steps,
`Saliency` takes absolute values. Captum itself is not needed. What Captum does not have keeps the paper's constants.
"""

from pgig.captum.base import GuidedBackprop, InputXGradient, PatternAttribution, PatternNet, Random, Saliency
from pgig.captum.noise import (
    ExpectedGradients,
    GradientShap,
    NoiseTunnel,
    SmoothGrad,
    SmoothGradSquared,
    SmoothTaylor,
    VarGrad,
)
from pgig.captum.paths import PGIG, IntegratedGradients, IntegratedPatternAttribution, SmoothGradIG

__all__ = [
    "PGIG",
    "ExpectedGradients",
    "GradientShap",
    "GuidedBackprop",
    "InputXGradient",
    "IntegratedGradients",
    "IntegratedPatternAttribution",
    "NoiseTunnel",
    "PatternAttribution",
    "PatternNet",
    "Random",
    "Saliency",
    "SmoothGrad",
    "SmoothGradIG",
    "SmoothGradSquared",
    "SmoothTaylor",
    "VarGrad",
]
