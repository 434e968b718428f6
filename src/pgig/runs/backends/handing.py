"""Which part goes to whom next: every part once, the last ones twice, and again what its worker did not survive."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from pgig.records.parts import Part

TRIES = 3  # workers that a part may be the end of
_LOSSES = 3  # times as many, with those that a part is not to blame for
Fate = Literal["again", "aside", "elsewhere"]  # elsewhere: it is finished, or another has it too


@dataclass
class Handing:
    """Pure bookkeeping: workers are known by numbers, parts by theirs."""

    parts: Sequence[Part]
    tries: int = TRIES
    deaths: dict[int, int] = field(default_factory=dict)  # part -> workers that did not survive it
    _losses: dict[int, int] = field(default_factory=dict)  # the same, with those whose machine was gone
    _waiting: list[Part] = field(default_factory=list)
    _held: dict[int, list[int]] = field(default_factory=dict)  # part -> workers that have it, in the order of handing
    _over: set[int] = field(default_factory=set)  # parts that are done, or set aside

    def __post_init__(self) -> None:
        self._waiting = list(self.parts)

    @property
    def is_over(self) -> bool:
        return len(self._over) == len(self.parts)

    @property
    def left(self) -> int:
        return len(self.parts) - len(self._over)

    def next_for(self, worker: int) -> Part | None:
        """A part that waits; or where none does, a copy of what one other has had for the longest time.

        A part that was the end of a worker is not copied: it could be the end of two more.
        """
        if self._waiting:
            part = self._waiting.pop(0)
        else:
            alone = [number for number, holders in self._held.items() if len(holders) == 1 and worker not in holders]
            copied = next((number for number in alone if number not in self.deaths), None)
            if copied is None:
                return None
            part = next(part for part in self.parts if part.number == copied)
        self._held.setdefault(part.number, []).append(worker)
        return part

    def finished(self, worker: int, part: Part) -> bool:
        """Is this the first result of the part?"""
        self._let_go(worker, part)
        if part.number in self._over:
            return False
        self._over.add(part.number)
        self._held.pop(part.number, None)
        return True

    def died(self, worker: int, part: Part, is_to_blame: bool = True) -> Fate:
        """What becomes of a part whose worker is gone. Not to blame is what was lost with its machine."""
        self._let_go(worker, part)
        if part.number in self._over:
            return "elsewhere"
        self._losses[part.number] = self._losses.get(part.number, 0) + 1
        if is_to_blame:
            self.deaths[part.number] = self.deaths.get(part.number, 0) + 1
        if self._held.get(part.number):
            return "elsewhere"
        if self.deaths.get(part.number, 0) >= self.tries or self._losses[part.number] >= _LOSSES * self.tries:
            self._over.add(part.number)
            return "aside"
        self._waiting.append(part)
        return "again"

    def _let_go(self, worker: int, part: Part) -> None:
        holders = self._held.get(part.number, [])
        if worker in holders:
            holders.remove(worker)
        if not holders:
            self._held.pop(part.number, None)
