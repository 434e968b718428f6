"""Randomisation (Adebayo et al. 2018): what is like the attribution of a model that learnt nothing explains nothing.

The layers one by one, and other likenesses, are in `pgig.randomization`; here all weights are random.
"""

import numpy
from numpy.typing import NDArray
from torch import Tensor

from pgig.errors import PgigError
from pgig.measures.setting import Attributions, Setting, pixel_maps
from pgig.measures.similarity import spearman
from pgig.subject.context import Context
from pgig.subject.subject import Subject


def random_model(
    subject: Subject, x: Tensor, target: Tensor, attributions: Attributions, context: Context
) -> dict[str, NDArray[numpy.float64]]:
    """Records are rank correlations of magnitudes with those of the random model."""
    explain = Setting.of(context).explain_random
    if explain is None:
        raise PgigError("randomization explains a random model: give a Setting with explain_random")
    before, after = pixel_maps(attributions), pixel_maps(explain(x))
    return {
        name: numpy.array([[spearman(a.abs(), b.abs())] for a, b in zip(maps, after[name], strict=True)])
        for name, maps in before.items()
    }
