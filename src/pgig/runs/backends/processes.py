"""Several processes of this machine, each with a worker of its own and a pipe to this one."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from pgig.records.parts import Part
from pgig.runs.backends.events import Done, Event, Lost, Worker, events_of, sendable

_SPAWN = multiprocessing.get_context("spawn")  # a forked torch can hang


@dataclass
class _Hand:
    """A process, our end of its pipe, and the part it has."""

    process: Any
    pipe: Connection
    part: Part | None = None

    def give(self, part: Part | None) -> None:
        self.part = part
        with suppress(OSError):  # it is gone, which shows when it is waited for
            self.pipe.send(part)

    def end(self) -> None:
        if self.part is None:  # it was told that there is no more, and ends by itself
            self.process.join(5)
        self.process.terminate()
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.pipe.close()


@dataclass(frozen=True)
class Processes:
    count: int

    def map(self, make_worker: Callable[[], Worker], parts: Sequence[Part]) -> Generator[Event, None, None]:
        waiting = list(parts)
        hands: list[_Hand] = []
        try:
            for number in range(min(self.count, len(waiting))):
                hands.append(_begun(make_worker, number))
                hands[-1].give(waiting.pop(0))
            while any(hand.part is not None for hand in hands):
                yield from _heard([hand for hand in hands if hand.part is not None], waiting)
            for part in waiting:
                yield Lost(part, "no process is left")
        finally:  # what is in work is not waited for: a part is made anew
            for hand in hands:
                hand.end()


def _begun(make_worker: Callable[[], Worker], number: int) -> _Hand:
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_work, args=(make_worker, theirs, number))
    process.start()
    theirs.close()  # so that the end of the process is the end of the pipe
    return _Hand(process, ours)


def _heard(busy: list[_Hand], waiting: list[Part]) -> Iterator[Event]:
    """What the busy ones say next; whoever is done gets another part."""
    pipes = {hand.pipe: hand for hand in busy}
    for pipe in wait(list(pipes)):
        hand = pipes[pipe]  # type: ignore[index]
        assert hand.part is not None
        try:
            said: Event | BaseException = hand.pipe.recv()
        except (EOFError, OSError):
            hand.process.join(5)
            yield Lost(hand.part, f"its process ended with code {hand.process.exitcode}")
            hand.part = None
            continue
        if isinstance(said, BaseException):
            raise said
        yield said
        if isinstance(said, Done):
            hand.give(waiting.pop(0) if waiting else None)


def _work(make_worker: Callable[[], Worker], pipe: Connection, number: int) -> None:
    """In the process: take parts until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is for the parent, which ends this one
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    try:
        worker = make_worker()
        while (part := pipe.recv()) is not None:
            for event in events_of(worker, part, number):
                pipe.send(event)
    except (EOFError, BrokenPipeError):
        return
    except Exception as error:  # whatever it is, it is the parent's to tell
        pipe.send(sendable(error))


def _end_with(parent: multiprocessing.process.BaseProcess) -> None:
    """A worker whose parent was killed ends too."""
    parent.join()
    os._exit(1)
