"""Image degradation: how fast does a score fall when patches are replaced in the order of an attribution?"""

from pgig.degradation.dense import DenseEvaluator, Evaluator, scored_by
from pgig.degradation.fills import FILLS, Fill
from pgig.degradation.grid import PatchGrid
from pgig.degradation.protocol import Protocol, degrade, ranking
from pgig.statistics import aopc, auc

__all__ = [
    "FILLS", "DenseEvaluator", "Evaluator", "Fill", "PatchGrid", "Protocol", "aopc", "auc", "degrade", "ranking",
    "scored_by",
]  # fmt: skip
