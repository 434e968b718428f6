"""Visitors: what each was shown, within bounds, apart from one another, and gone when they leave."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import numpy

from pgig.vision.pictures import Picture

MOST_VISITORS = 64
MOST_BYTES = 48 * 2**20  # that are kept for one
_IDLE = 3600.0  # seconds after which a visitor who did not say goodbye is taken for gone


class Stopped(Exception):  # noqa: N818 (it is no error)
    """A visitor has pressed stop, asked something else, or left. No error of pgig's, which explainers would catch."""


class Visitor:
    """What was computed for one visitor: the newest, as far as there is room."""

    def __init__(self) -> None:
        self.seen = time.monotonic()
        self.picture: Picture | None = None
        self.file = ""  # its name, as the visitor knows it
        self.other: Picture | None = None  # to compare with
        self.likeliest: list[tuple[int, float]] = []  # classes of the picture
        self.asked: tuple[int, ...] = ()  # one class, or two for the difference
        self.due = False  # is there something to explain?
        self.saved = 0  # files
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}
        self._turn = 0
        self._latest: dict[str, float] = {}
        self._lock = threading.Lock()

    def begin(self) -> None:
        """What is in work for this visitor ends: something else is asked, or nothing any more."""
        self._turn += 1

    def wanted(self) -> Callable[[], None]:
        """What raises `Stopped` once what is wanted now is not wanted any more: to be called often."""
        turn = self._turn

        def check() -> None:
            if self._turn != turn:
                raise Stopped

        return check

    def is_latest(self, event: str, turn: Any) -> bool:
        """Was nothing of the kind sent later? What a page sends can arrive in another order."""
        when = float(turn) if isinstance(turn, int | float) else 0.0
        with self._lock:
            latest = self._latest[event] = max(when, self._latest.get(event, 0.0))
        return when >= latest

    def keep(self, key: Hashable, made: Any, size: int) -> None:
        with self._lock:
            self._kept[key], self._sizes[key] = made, size
            self._kept.move_to_end(key)
            while len(self._kept) > 1 and sum(self._sizes.values()) > MOST_BYTES:
                oldest, _ = self._kept.popitem(last=False)
                del self._sizes[oldest]

    def find(self, key: Hashable) -> Any:
        """None where nothing is kept under this key."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    @property
    def bytes(self) -> int:
        return sum(self._sizes.values())

    def __len__(self) -> int:
        return len(self._kept)


class Visitors:
    """By the session of their page: no visitor has another's."""

    def __init__(self) -> None:
        self._all: OrderedDict[str, Visitor] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, session: str | None) -> Visitor:
        """A new one where there is none; the one unseen for longest goes when there are too many."""
        with self._lock:
            name = session or ""
            visitor = self._all.setdefault(name, Visitor())
            self._all.move_to_end(name)
            visitor.seen = time.monotonic()
            oldest = next(iter(self._all))
            while len(self._all) > MOST_VISITORS or visitor.seen - self._all[oldest].seen > _IDLE:
                self._all.pop(oldest).begin()
                oldest = next(iter(self._all))
            return visitor

    def leave(self, session: str | None) -> None:
        with self._lock:
            gone = self._all.pop(session or "", None)
        if gone is not None:
            gone.begin()

    def close(self) -> None:
        """All leave."""
        for session in list(self._all):
            self.leave(session)

    def __len__(self) -> int:
        return len(self._all)


def bytes_of(*arrays: Any) -> int:
    return sum(numpy.asarray(array).nbytes for array in arrays)
