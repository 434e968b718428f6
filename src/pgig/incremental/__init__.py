"""Exact incremental inference: after a few pixels change, only what they can reach is computed anew."""

from pgig.incremental.evaluator import IncrementalEvaluator
from pgig.incremental.export import TracingError
from pgig.incremental.plan import Plan
from pgig.incremental.planner import plan_of

__all__ = ["IncrementalEvaluator", "Plan", "TracingError", "plan_of"]
