"""The command line: parses, calls, prints."""

import sys
from importlib import import_module

from pgig.cli.app import run

# where each command lives, in the order of `pgig --help`
_HOMES = {
    "methods": "explain",
    "explain": "explain",
    "patterns": "patterns",
    "check": "patterns",
    "degrade": "degrade",
    "report": "report",
    "randomize": "randomize",
    "stress": "synthetic",
    "truth": "synthetic",
    "demo": "synthetic",
}


def main() -> None:
    """Load what the command needs, and no more: a report needs no torch, and most need no matplotlib."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    for home in [_HOMES[wanted]] if wanted in _HOMES else dict.fromkeys(_HOMES.values()):
        import_module(f"pgig.cli.{home}")
    run()
