"""The command line: parses, calls, prints."""

from pgig.cli import degrade, explain, patterns, randomize, synthetic
from pgig.cli.app import run

__all__ = ["degrade", "explain", "patterns", "randomize", "run", "synthetic"]
