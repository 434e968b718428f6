"""What the command shows while it works: consoles, progress, and stopping politely."""

import signal
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text


def visible(text: str, lines: bool = False) -> str:
    """The same without control characters, which a file's name may have, and a terminal would obey.

    lines: the text has lines of its own.
    """
    shown = "\n" if lines else ""
    return "".join(c if c in shown or unicodedata.category(c) not in _CONTROL else ascii(c)[1:-1] for c in text)


_CONTROL = "Cc", "Cf", "Cs", "Zl", "Zp"  # also what turns the direction of writing, or ends a line


class _Safe(Console):
    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(visible(each) if isinstance(each, str) else each for each in objects), **options)


# names of classes and files are not markup
console = _Safe(markup=False, width=None if sys.stdout.isatty() else 160)
errors = _Safe(stderr=True, markup=False)


@contextmanager
def stoppable(checkpoint: Path) -> Iterator[Callable[[], bool]]:
    """ctrl-C and a polite kill wait for the batch in work; a second ctrl-C does not."""
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield lambda: False
        return
    asked: list[int] = []

    def ask(number: int, _: object) -> None:
        asked.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    except KeyboardInterrupt:
        kept = f"what was done is in {checkpoint}: the same command with --resume goes on"
        line = f"stopped; {kept if checkpoint.exists() else 'nothing was done yet'}"
        errors.print(line, highlight=False, soft_wrap=True)
        sys.exit(143 if asked[:1] == [signal.SIGTERM] else 130)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def goes_on(folder: Path, how: str = "the same command") -> Iterator[None]:
    """Say, when a run is stopped, what becomes of it."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as stop:
        begun = any((folder / "parts").glob("part-*")) or any((folder / "stages").glob("*"))
        line = (
            f"what is finished is in {folder}: {how} goes on"
            if begun
            else f"nothing was finished yet: {how} begins anew"
        )
        errors.print(f"stopped; {line}", highlight=False, soft_wrap=True)
        sys.exit(130 if isinstance(stop, KeyboardInterrupt) else stop.code)


@contextmanager
def progress_of(what: str, unit: str = "points") -> Iterator[Callable[[int, int], object]]:
    """A bar on a terminal; elsewhere a line a minute."""
    if not errors.is_terminal:
        yield _minutely(what, unit)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} " + unit),
        _Speed(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=errors, transient=True) as bar:
        task = bar.add_task(visible(what), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


class Standing(Protocol):
    """Where work stands."""

    @property
    def summary(self) -> str: ...


@contextmanager
def standing_of(what: str) -> Iterator[Callable[[Standing], object]]:
    """Images done, images per second, by which worker, time left, what was tried again; and results so far."""
    known: list[Standing] = []

    def line() -> str:
        return visible(f"{what}: {known[0].summary if known else 'getting ready'}")

    if errors.is_terminal:
        with Live(get_renderable=lambda: Text(line()), console=errors, transient=True, refresh_per_second=2):
            yield known.append
        return
    ended = threading.Event()

    def every_minute() -> None:
        while not ended.wait(60):
            errors.print(line(), highlight=False, soft_wrap=True)

    thread = threading.Thread(target=every_minute, daemon=True)
    thread.start()
    try:
        yield known.append
    finally:
        ended.set()
        thread.join()


def shortened(name: str, most: int = 26) -> str:
    """The end of a long name tells more than its beginning."""
    name = visible(name)
    return name if len(name) <= most else f"…{name[1 - most :]}"


def _minutely(what: str, unit: str) -> Callable[[int, int], object]:
    begun = said = time.monotonic()
    first: int | None = None  # what a resumed run had done before

    def say(done: int, total: int) -> None:
        nonlocal said, first
        now = time.monotonic()
        first = done if first is None else first
        if now - said >= 60:
            said = now
            speed = (done - first) / (now - begun)
            left = (total - done) / speed / 60 if speed else 0
            line = f"{what}: {done}/{total} {unit}, {speed:.1f}/s, {left:.0f} minutes left"
            errors.print(line, highlight=False, soft_wrap=True)

    return say


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.1f}/s" if task.speed else "")
