"""The `pgig` command; also `python -m pgig`."""

import sys


def main() -> None:
    try:
        from pgig.cli import run
    except ModuleNotFoundError as error:
        sys.exit(f"pgig: the command needs {error.name}: pip install 'pgig[cli]'")
    run()


if __name__ == "__main__":
    main()
