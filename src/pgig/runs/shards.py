"""How a list of images is cut for patterns: into shards that the list alone fixes, with sums added in a fixed tree.

So the result is the same, bit by bit, for any number of workers and any order in which they are done. A branch of the
tree is what a worker takes: it adds up its own shards, so that only the sums of branches travel.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from pgig.records.parts import Part

MOST = 64
LEAST_IMAGES = 256  # of a shard, about: fewer are not worth sums of their own
T = TypeVar("T")


@dataclass(frozen=True, order=True)
class Branch:
    """The shards from `first` up to, not with, `end`."""

    first: int
    end: int

    @property
    def halves(self) -> "tuple[Branch, Branch] | None":
        if self.end - self.first == 1:
            return None
        middle = (self.first + self.end + 1) // 2
        return Branch(self.first, middle), Branch(middle, self.end)

    @property
    def name(self) -> str:
        return f"shards-{self.first:02d}-{self.end:02d}.safetensors"

    def folded(self, of: "Callable[[Branch], T | None]", add: Callable[[T, T], T]) -> T:
        """What `of` knows of this branch; or else, of its halves, added in their order."""
        found = of(self)
        if found is not None:
            return found
        halves = self.halves
        assert halves is not None, f"nothing is known of {self.name}"
        return add(halves[0].folded(of, add), halves[1].folded(of, add))


def shard_count(images: int) -> int:
    return max(1, min(MOST, -(-images // LEAST_IMAGES)))


def shards_of(names: Sequence[str], count: int) -> list[tuple[str, ...]]:
    """As many, of the same size but for one image."""
    ends = [round(len(names) * number / count) for number in range(count + 1)]
    return [tuple(names[a:b]) for a, b in pairwise(ends)]


def branches(count: int, wanted: int, finished: Sequence[Branch] = ()) -> list[Branch]:
    """At least so many branches that hold all shards but the finished ones; fewer only where there are no more."""
    found = list(_beside(Branch(0, count), frozenset(finished)))
    while len(found) < wanted:
        largest = max(found, key=lambda branch: (branch.end - branch.first, -branch.first), default=None)
        if largest is None or largest.halves is None:
            break
        found.remove(largest)
        found += largest.halves
    return sorted(found)


def _beside(branch: Branch, finished: frozenset[Branch]) -> Iterator[Branch]:
    """The largest branches below this one that hold nothing that is finished."""
    if branch in finished:
        return
    if not any(branch.first <= one.first < branch.end for one in finished):
        yield branch
        return
    for half in branch.halves or ():
        yield from _beside(half, finished)


def part_of(branch: Branch, shards: Sequence[tuple[str, ...]]) -> Part:
    images = tuple(name for shard in shards[branch.first : branch.end] for name in shard)
    return Part(branch.first * (MOST + 1) + branch.end, images)


def branch_of(part: Part) -> Branch:
    return Branch(*divmod(part.number, MOST + 1))
