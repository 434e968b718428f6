"""Visitors: what each was shown, within bounds, apart from one another, and gone when they leave."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from pgig.vision.pictures import Picture

MOST_VISITORS = 64
MOST_BYTES = 48 * 2**20  # that are kept for one
_IDLE = 3600.0  # seconds after which a visitor who did not say goodbye is taken for gone


class Stopped(Exception):  # noqa: N818 (it is no error)
    """A visitor has pressed stop, asked something else, or left. No error of pgig's, which explainers would catch."""


@dataclass(frozen=True)
class Look:
    """What a visitor looks at: a picture as each network takes it, and the class or classes asked for."""

    pictures: Sequence[Picture]  # one for each network
    file: str  # as Python names it, for the code
    likeliest: Sequence[tuple[int, float]]
    asked: tuple[int, ...]  # one class, or two for the difference

    @property
    def picture(self) -> Picture:
        return self.pictures[0]


class Visitor:
    """What was computed for one visitor: the newest, as far as there is room."""

    def __init__(self) -> None:
        self.seen = time.monotonic()
        self.look: Look | None = None
        self.painting: Look | None = None  # what the brush has
        self.showing: Look | None = None  # what is compared and taken away
        self.saved = 0  # files
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}
        self.methods: list[str] = []
        self.kind = ""  # of the newest wish
        self._open: Any = None
        self._turn = 0
        self._latest: dict[str, float] = {}
        self._lock = threading.Lock()

    def wish(self, kind: str, what: Any) -> None:
        """Something is asked: what is in work, or waits, ends."""
        with self._lock:
            self._turn += 1
            self.kind, self._open = kind, what

    def stop(self) -> None:
        """Nothing is asked any more."""
        self.wish("", None)

    def take(self, kind: str) -> tuple[Any, Callable[[], None]] | None:
        """The newest wish, if it is of this kind and nobody works on it, and what raises `Stopped` once it is over.

        Who comes to work on an older one finds that it is done, or not wanted any more.
        """
        with self._lock:
            what = self._open if self.kind == kind else None
            if what is None:
                return None
            self._open = None
        return what, self.wanted()

    def wanted(self) -> Callable[[], None]:
        """What raises `Stopped` once something else is asked than now, or nothing: to be called often."""
        mine = self._turn

        def check() -> None:
            if self._turn != mine:
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

    def of(self, session: str) -> Visitor:
        """A new one where there is none; the one unseen for longest goes when there are too many."""
        with self._lock:
            visitor = self._all.setdefault(session, Visitor())
            self._all.move_to_end(session)
            visitor.seen = time.monotonic()
            while len(self._all) > MOST_VISITORS:
                self._all.popitem(last=False)[1].stop()
            return visitor

    def sweep(self) -> None:
        """Who was not seen for long has left."""
        now = time.monotonic()
        for session, visitor in list(self._all.items()):
            if now - visitor.seen > _IDLE:
                self.leave(session)

    def __contains__(self, session: str) -> bool:
        return session in self._all

    def leave(self, session: str) -> None:
        with self._lock:
            gone = self._all.pop(session, None)
        if gone is not None:
            gone.stop()

    def close(self) -> None:
        """All leave."""
        for session in list(self._all):
            self.leave(session)

    def __len__(self) -> int:
        return len(self._all)


def bytes_of(*arrays: Any) -> int:
    return sum(numpy.asarray(array).nbytes for array in arrays)
