"""Backends: all parts once, whatever the order; what fails is told; nobody else's processes are touched."""

import multiprocessing
import os
import time
from dataclasses import dataclass

import pytest

from pgig.errors import PgigError
from pgig.records.parts import Part
from pgig.runs.backends.events import Done, Lost, Progress
from pgig.runs.backends.processes import Processes
from pgig.runs.backends.serial import Serial

PARTS = [Part(number, tuple(f"{number}-{image}" for image in range(3))) for number in range(5)]
BACKENDS = {"serial": Serial(), "processes": Processes(2)}


@dataclass(frozen=True)
class Made:
    """Survives being sent to another process."""

    trouble: str = ""

    def __call__(self):
        if self.trouble == "making":
            raise PgigError("no worker", lacks="patterns")
        return self

    def run(self, part):
        for number, image in enumerate(part.images):
            if part.number == 2 and number == 1:
                if self.trouble == "error":
                    raise PgigError(f"{image} is odd")
                if self.trouble == "death":
                    os._exit(9)
                if self.trouble == "long":
                    time.sleep(60)
            yield 1
        return [{"image": image} for image in part.images]


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)
def test_every_part_is_done_once(backend):
    events = list(backend.map(Made(), PARTS))
    done = [event for event in events if isinstance(event, Done)]
    assert sorted(event.part.number for event in done) == [0, 1, 2, 3, 4]
    assert all([row["image"] for row in event.result] == list(event.part.images) for event in done)
    assert sum(event.images for event in events if isinstance(event, Progress)) == 15
    assert list(backend.map(Made(), [])) == []


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)
def test_what_a_worker_raises_is_raised(backend):
    with pytest.raises(PgigError, match="2-1 is odd"):
        list(backend.map(Made("error"), PARTS))
    with pytest.raises(PgigError, match="no worker") as raised:
        list(backend.map(Made("making"), PARTS))
    assert raised.value.lacks == "patterns"


def test_a_process_that_dies_is_a_part_lost():
    events = list(Processes(2).map(Made("death"), PARTS))
    (lost,) = [event for event in events if isinstance(event, Lost)]
    assert lost.part.number == 2
    assert "code 9" in lost.reason
    assert sorted(event.part.number for event in events if isinstance(event, Done)) == [0, 1, 3, 4]


@dataclass(frozen=True)
class Odd:
    """Raises what cannot be sent; or starts a process of its own."""

    child: bool = False

    def __call__(self):
        return self

    def run(self, part):
        yield 1
        if self.child:
            process = multiprocessing.get_context("spawn").Process(target=print)
            process.start()
            process.join()
            return [{"code": process.exitcode}]
        raise UnsendableError(part, lambda: None)


class UnsendableError(Exception):
    def __init__(self, part, function) -> None:
        super().__init__(f"part {part.number} is odd", function)


def test_errors_that_cannot_be_sent_are_told_in_words_and_workers_may_have_children():
    with pytest.raises(PgigError, match=r"UnsendableError: .*part 0 is odd"):
        list(Processes(1).map(Odd(), PARTS[:1]))
    events = Processes(1).map(Odd(child=True), PARTS[:1])
    assert [event.result for event in events if isinstance(event, Done)] == [[{"code": 0}]]


def test_where_no_process_is_left_all_other_parts_are_lost_too():
    events = list(Processes(1).map(Made("death"), PARTS))
    assert [event.part.number for event in events if isinstance(event, Done)] == [0, 1]
    assert [event.part.number for event in events if isinstance(event, Lost)] == [2, 3, 4]


def _idle() -> None:
    time.sleep(60)


def test_whoever_stops_iterating_ends_the_work_and_no_other_process():
    other = multiprocessing.get_context("spawn").Process(target=_idle, daemon=True)
    other.start()
    try:
        before = set(multiprocessing.active_children())
        begun = time.monotonic()
        for event in Processes(2).map(Made("long"), PARTS):
            if isinstance(event, Progress):
                break
        assert time.monotonic() - begun < 50
        assert set(multiprocessing.active_children()) == before == {other}
    finally:
        other.kill()
        other.join()
