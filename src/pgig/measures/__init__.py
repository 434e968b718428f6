"""Measures: each judges attributions of a batch, and leaves records that reports read."""

from pgig.measures.degradation import Degradation
from pgig.measures.judges import JUDGES, Judge, judge, judge_of, register
from pgig.measures.setting import Setting

__all__ = ["JUDGES", "Degradation", "Judge", "Setting", "judge", "judge_of", "register"]
