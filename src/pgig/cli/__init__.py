"""The command line: parses, calls, prints. One file a command."""

import sys
from collections.abc import Sequence
from importlib import import_module

from pgig.cli.command import run

# in the order of `pgig --help`
COMMANDS = (
    "methods", "explain", "app", "patterns", "check", "bench", "measures", "degrade", "report", "rank",
    "randomize", "stress", "truth", "demo",
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and give its exit code. What it sets in this process, such as threads, is as before at the end.

    Loads what the command needs, and no more: a report needs no torch, and most need no matplotlib.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    for name in [given[0]] if given and given[0] in COMMANDS else COMMANDS:
        import_module(f"pgig.cli.{name}")
    return run(given)
