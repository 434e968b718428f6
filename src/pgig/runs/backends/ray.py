"""Ray: actors of a cluster, each with a worker of its own. For trusted networks: whoever reaches it runs code on it."""

import math
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pgig.errors import PgigError
from pgig.records.parts import Part
from pgig.runs.backends.events import Done, Event, Progress, Retried, SetAside, Worker
from pgig.runs.backends.handing import Handing
from pgig.runs.backends.ray_actor import Actor, Raised
from pgig.runs.backends.ray_cluster import connected

_PATIENCE = 300  # seconds until a worker must have begun somewhere
_LISTENING = 1.0  # seconds, at most, until it is looked at what else there is to do


@dataclass(frozen=True, kw_only=True)
class Ray:
    """Workers are made as there is room for them, and made anew when they or their nodes die.

    address: of a cluster, or `auto`; without, a Ray of our own on this machine, for as long as the work takes.
    workers: as many, at most; without, as many as the cluster has room for.
    shared_folder: workers write their files themselves, into a folder that all machines share.
    """

    workers: int | None = None
    cpus_per_worker: int = 1
    gpus_per_worker: float = 0
    address: str | None = None
    shared_folder: bool = False
    log: Path | None = None  # what Ray itself says

    is_far = True

    def __post_init__(self) -> None:
        if self.cpus_per_worker < 1 or self.gpus_per_worker < 0 or (self.workers is not None and self.workers < 1):
            raise PgigError(
                "a worker needs at least one CPU and no fewer than zero GPUs, and a run at least one worker"
            )

    def map(self, make_worker: Callable[[], Worker], parts: Sequence[Part]) -> Generator[Event, None, None]:
        if not parts:
            return
        own = self.workers or 2
        cpus, gpus = own * self.cpus_per_worker, math.ceil(own * self.gpus_per_worker)
        with connected(self.address, cpus, gpus, self.log) as (ray, folder):
            crew = _Crew(
                ray, self, make_worker, Handing(parts), self._count(ray), None if folder is None else str(folder)
            )
            try:
                yield from crew.events()
            finally:
                crew.end()

    def _count(self, ray: Any) -> int:
        """How many workers to have at once."""
        room = sum(self._room(node["Resources"]) for node in ray.nodes() if node["Alive"])
        if room < 1 and self.workers is None:  # a cluster that grows may have room for so many later
            total = ray.cluster_resources()
            raise PgigError(
                f"no node of the Ray cluster has {self.cpus_per_worker} CPUs and {self.gpus_per_worker:g} GPUs for a "
                f"worker: all together have {total.get('CPU', 0):g} CPUs and {total.get('GPU', 0):g} GPUs"
            )
        return room if self.workers is None else self.workers

    def _room(self, resources: dict[str, float]) -> int:
        room = resources.get("CPU", 0) // self.cpus_per_worker
        return int(min(room, resources.get("GPU", 0) // self.gpus_per_worker if self.gpus_per_worker else room))


@dataclass
class _Hand:
    """An actor, and what is awaited of it."""

    actor: Any
    number: int
    awaited: Any  # a reference while it starts and loads, a generator of references while it works
    stage: Literal["starting", "loading", "idle", "working"] = "starting"
    node: str = ""
    part: Part | None = None
    told: float = 0  # images of the part
    is_counted: bool = True  # of two that have a part, one is


@dataclass
class _Crew:
    ray: Any
    wanted: Ray
    make_worker: Callable[[], Worker]
    handing: Handing
    count: int
    scratch: str | None  # where actors may leave what they did not finish
    _hands: dict[int, _Hand] = field(default_factory=dict)
    _made: Any = None  # the reference to make_worker: sent to a node once
    _next: int = 0
    _stillborn: int = 0  # workers that died while they loaded, since one did not
    _heard: float = field(default_factory=time.monotonic)

    def events(self) -> Iterator[Event]:
        self._made = self.ray.put(self.make_worker)
        while not self.handing.is_over:
            self._staff()
            self._hand_out()
            for hand in self._speaking():
                yield from self._listen(hand)

    def end(self) -> None:
        """Whoever still works on a copy, or loads, is not waited for."""
        for hand in self._hands.values():
            self.ray.kill(hand.actor, no_restart=True)

    def _staff(self) -> None:
        """As many as are wanted, and as there is work for."""
        options = {
            "num_cpus": self.wanted.cpus_per_worker, "num_gpus": self.wanted.gpus_per_worker, "max_restarts": 0,
            "max_task_retries": 0, "scheduling_strategy": "SPREAD",
        }  # fmt: skip
        while len(self._hands) < min(self.count, self.handing.left):
            actor = self.ray.remote(Actor).options(**options)
            made = actor.remote(self._next, str(Path.cwd()), sys.path, self.scratch)
            self._hands[self._next] = _Hand(made, self._next, made.place.remote())
            self._next += 1

    def _hand_out(self) -> None:
        for hand in self._hands.values():
            if hand.stage == "idle" and (part := self.handing.next_for(hand.number)) is not None:
                hand.is_counted = all(other.part != part for other in self._hands.values())
                hand.stage, hand.part, hand.told = "working", part, 0
                hand.awaited = hand.actor.work.options(num_returns="streaming").remote(part)

    def _speaking(self) -> list[_Hand]:
        awaited = {hand.awaited: hand for hand in self._hands.values() if hand.stage != "idle"}
        ready, _ = self.ray.wait(list(awaited), num_returns=1, timeout=_LISTENING, fetch_local=False)
        if ready or not all(hand.stage == "starting" for hand in self._hands.values()):
            self._heard = time.monotonic()
        elif time.monotonic() - self._heard > _PATIENCE:
            raise PgigError(
                f"no worker could begin within {_PATIENCE} seconds: the Ray cluster has "
                f"{self.ray.available_resources().get('CPU', 0):g} CPUs free"
            )
        return [awaited[each] for each in ready]

    def _listen(self, hand: _Hand) -> Iterator[Event]:
        try:
            said = self.ray.get(next(hand.awaited) if hand.stage == "working" else hand.awaited)
        except self.ray.exceptions.RayTaskError as error:  # not of a worker, whose errors come as values
            reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            raise PgigError(f"a worker on Ray failed: {reason}") from error
        except (self.ray.exceptions.RayError, StopIteration) as error:
            yield from self._bury(hand, error)
            return
        if isinstance(said, Raised):
            raise said.error
        if hand.stage == "starting":
            hand.node, hand.stage, hand.awaited = said, "loading", hand.actor.load.remote(self._made)
        elif hand.stage == "loading":
            hand.stage, self._stillborn = "idle", 0
        elif isinstance(said, Progress):
            hand.told += said.images
            if hand.is_counted:
                yield said
        else:
            yield from self._finish(hand, said)

    def _finish(self, hand: _Hand, done: Done) -> Iterator[Event]:
        other = self._other_with(hand)
        hand.stage, hand.part = "idle", None
        if not self.handing.finished(hand.number, done.part):
            return  # another was first
        if other is not None:  # it is not waited for
            yield from self._counted_in_place(hand, other)
            self._let_go(other)
        yield done

    def _let_go(self, hand: _Hand) -> None:
        del self._hands[hand.number]
        self.ray.kill(hand.actor, no_restart=True)

    def _other_with(self, hand: _Hand) -> _Hand | None:
        """Who else has the part that this one has."""
        return next((each for each in self._hands.values() if each is not hand and each.part == hand.part), None)

    def _counted_in_place(self, hand: _Hand, other: _Hand) -> Iterator[Event]:
        """Images of a part that two have are counted once."""
        if other.is_counted:
            yield Progress(-other.told, other.number)
            yield Progress(hand.told, hand.number)
        hand.is_counted, other.is_counted = True, False

    def _bury(self, hand: _Hand, error: BaseException) -> Iterator[Event]:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        part, told = hand.part, hand.told if hand.is_counted else 0
        other = self._other_with(hand) if part is not None else None
        self._let_go(hand)
        if part is None:
            self._without_one_more(reason)
            return
        fate = self.handing.died(hand.number, part, not self._node_is_gone(hand, reason))
        if fate == "elsewhere" and other is not None:
            yield from self._counted_in_place(other, hand)
            return
        yield Retried(part, reason, told, hand.number) if fate == "again" else Progress(-told, hand.number)
        if fate == "aside":
            yield SetAside(part, reason)

    def _without_one_more(self, reason: str) -> None:
        """Workers that die while they load are tried again a few times; then there are fewer, or none."""
        self._stillborn += 1
        if self._stillborn <= self.handing.tries:
            return
        self._stillborn, self.count = 0, self.count - 1
        if not any(hand.stage in ("idle", "working") for hand in self._hands.values()) or self.count < 1:
            raise PgigError(f"workers die while they load the model, perhaps of memory: {reason}")

    def _node_is_gone(self, hand: _Hand, reason: str) -> bool:
        alive = {node["NodeID"] for node in self.ray.nodes() if node["Alive"]}
        return hand.node not in alive or "node has died" in reason
