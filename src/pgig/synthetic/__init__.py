"""The paper's stress test, images with known truth, and the embedded default network."""

from pgig.synthetic.networks import SmallVGG, embedded
from pgig.synthetic.stress import StressTest, stress_test
from pgig.synthetic.truth import TruthTest, embedded_patterns, truth_test

__all__ = ["SmallVGG", "StressTest", "TruthTest", "embedded", "embedded_patterns", "stress_test", "truth_test"]
