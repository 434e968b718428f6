"""The command line: parses, calls, prints."""

from pgig.cli import explain, patterns, synthetic
from pgig.cli.app import run

__all__ = ["explain", "patterns", "run", "synthetic"]
