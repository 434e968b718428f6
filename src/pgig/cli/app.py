"""The command itself: what all its parts share, and what becomes of errors."""

import os
import signal
import sys
import traceback
import warnings
from typing import Annotated

import typer
from safetensors import SafetensorError

from pgig import __version__
from pgig.cli.terminal import console, visible
from pgig.errors import PgigError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Explain neural networks with Pattern-Guided Integrated Gradients and its peers.",
)


def run() -> None:
    """Every error that a user can mend is one line on standard error, and exit code 2.

    With PGIG_TRACEBACK=1 in the environment, the traceback behind it comes first.
    """
    warnings.showwarning = lambda message, *_: _say(str(message))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that half-written files are removed
    try:
        app()
    except PgigError as error:
        sys.exit(_refused(str(error)))
    except BrokenPipeError:  # `pgig ... | head` is no error; what is left must not be flushed into the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        sys.exit(_refused(f"{error.strerror or error}{where}"))
    except SafetensorError as error:  # a full disk, as its writer says it
        sys.exit(_refused(str(error)))
    except KeyboardInterrupt:
        _say("stopped")
        sys.exit(130)


def _refused(reason: str) -> int:
    if os.environ.get("PGIG_TRACEBACK") == "1":
        traceback.print_exc()
    _say(reason)
    return 2


def _say(text: str) -> None:
    """On one line, whatever names it holds."""
    print("pgig:", visible(" ".join(text.split())), file=sys.stderr)  # noqa: T201


def _version(wanted: bool) -> None:
    if wanted:
        console.print(__version__)
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Explain neural networks with Pattern-Guided Integrated Gradients and its peers."""
