"""The `pgig` command; also `python -m pgig`."""

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command, and give its exit code."""
    try:
        from pgig.cli import main as command

        return command(argv)
    except ModuleNotFoundError as error:
        print(f"pgig: the command needs {error.name}: pip install 'pgig[cli]'", file=sys.stderr)  # noqa: T201
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
