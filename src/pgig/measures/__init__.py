"""Measures: each judges attributions of a batch, and leaves records that reports read."""

from pgig.measures.degradation import Degradation
from pgig.measures.judges import JUDGES, Judge, judge, register

__all__ = ["JUDGES", "Degradation", "Judge", "judge", "register"]
