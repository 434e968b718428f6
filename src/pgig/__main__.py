"""The `pgig` command; also `python -m pgig`."""

import sys


def main() -> None:
    try:
        from pgig.cli import main as command

        command()
    except ModuleNotFoundError as error:
        print(f"pgig: the command needs {error.name}: pip install 'pgig[cli]'", file=sys.stderr)  # noqa: T201
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
