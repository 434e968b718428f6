"""The methods behind Captum's signatures: change the import, keep the rest.

Names and defaults are Captum's: the raw output is the score, backpropagation starts from one, 50 Gauss-Legendre steps,
`Saliency` takes absolute values. Captum itself is not needed. What Captum does not have keeps the paper's constants.

>>> from pgig.captum import IntegratedGradients
>>> model = torch.nn.Linear(2, 3).eval()
>>> a, delta = IntegratedGradients(model).attribute(torch.ones(4, 2), target=0, return_convergence_delta=True)
>>> a.shape, bool((delta.abs() < 1e-5).all())
(torch.Size([4, 2]), True)
"""

from pgig.captum.ablation import FeatureAblation
from pgig.captum.base import (
    Attribution,
    GuidedBackprop,
    InputXGradient,
    PatternAttribution,
    PatternNet,
    Random,
    Saliency,
)
from pgig.captum.conductance import InternalInfluence, LayerConductance
from pgig.captum.layers import LayerActivation, LayerGradientXActivation, LayerIntegratedGradients
from pgig.captum.noise import NoiseTunnel, SmoothGrad, SmoothGradSquared, SmoothTaylor, VarGrad
from pgig.captum.occlusion import Occlusion
from pgig.captum.paths import PGIG, IntegratedGradients, IntegratedPatternAttribution, SmoothGradIG
from pgig.captum.shap import ExpectedGradients, GradientShap

__all__ = [
    "PGIG",
    "Attribution",
    "ExpectedGradients",
    "FeatureAblation",
    "GradientShap",
    "GuidedBackprop",
    "InputXGradient",
    "IntegratedGradients",
    "IntegratedPatternAttribution",
    "InternalInfluence",
    "LayerActivation",
    "LayerConductance",
    "LayerGradientXActivation",
    "LayerIntegratedGradients",
    "NoiseTunnel",
    "Occlusion",
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
