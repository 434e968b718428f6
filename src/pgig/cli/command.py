"""The command itself: what all its parts share, what becomes of errors, and that nothing stays changed."""

import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer

from pgig import __version__
from pgig.cli.hints import hinted
from pgig.cli.terminal import console, visible
from pgig.errors import PgigError
from pgig.plugins import forgotten_afterwards

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Explain neural networks with Pattern-Guided Integrated Gradients and its peers.",
)


def run(argv: Sequence[str]) -> int:
    """Every error that a user can mend is one line on standard error, and exit code 2.

    With PGIG_TRACEBACK=1 in the environment, the traceback behind it comes first.
    """
    try:
        with _as_before_afterwards():
            app(args=list(argv), prog_name="pgig")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except PgigError as error:
        return _refused(hinted(error, argv[0] if argv else ""))
    except BrokenPipeError:  # `pgig ... | head` is no error; what is left must not be flushed into the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        return _refused(f"{error.strerror or error}{where}")
    except KeyboardInterrupt:
        _say("stopped")
        return 130
    except Exception as error:
        if (
            type(error).__name__ != "SafetensorError"
        ):  # a full disk, as its writer says it; known by name: help is quick
            raise
        return _refused(str(error))
    return 0


@contextmanager
def _as_before_afterwards() -> Iterator[None]:
    """Owns all that a command sets in its process: how warnings are shown, signals, torch's threads, own modules."""
    with warnings.catch_warnings(), forgotten_afterwards(), _threads_kept():
        warnings.showwarning = lambda message, *_: _say(str(message))
        if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
            yield
            return
        before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that half-written files are removed
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _threads_kept() -> Iterator[None]:
    before = sys.modules["torch"].get_num_threads() if "torch" in sys.modules else None
    try:
        yield
    finally:
        if before is not None and sys.modules["torch"].get_num_threads() != before:
            sys.modules["torch"].set_num_threads(before)


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
