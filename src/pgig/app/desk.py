"""What all tabs share: the networks, the visitors, and how work is followed and errors are told."""

import base64
import binascii
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

import gradio

from pgig.app.answers import question_of
from pgig.app.network import Network
from pgig.app.visitors import Stopped, Visitor, Visitors
from pgig.errors import PgigError
from pgig.runs.questions import Question
from pgig.vision.pictures import Picture

# how the page's events are treated: at once; or in one queue, one at a time, since two at once would only be slower
_COMMON: dict[str, Any] = {"show_progress": "hidden", "trigger_mode": "multiple", "api_visibility": "private"}
QUICK: dict[str, Any] = {"queue": False, **_COMMON}
SLOW: dict[str, Any] = {"concurrency_id": "work", "concurrency_limit": 1, **_COMMON}
MOST_WAITING = 24
_TICK = 0.2  # seconds between two words on where the work stands
_PATIENCE = 30.0  # seconds

T = TypeVar("T")


@dataclass(frozen=True)
class Desk:
    networks: Sequence[Network]  # the first is asked, the others are for comparison
    examples: Sequence[Path] = ()
    how_to_compare: str = "Only one network was given."
    visitors: Visitors = field(default_factory=Visitors)
    # torch works in these two threads alone, since each that it has worked in keeps memory: long work, one at a time;
    # and what is quick: reading pictures, which can be large, and single passes
    long: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "long work"))
    quick: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "quick work"))

    @property
    def network(self) -> Network:
        return self.networks[0]

    def visitor(self, request: gradio.Request | None) -> Visitor:
        return self.visitors.of(None if request is None else request.session_hash)

    def read(self, event: gradio.EventData) -> tuple[Picture, str]:
        """The picture that was dropped, pasted or chosen, and its file."""
        sent: dict[str, Any] = event._data or {}
        if "example" in sent:
            number = sent["example"]
            if not isinstance(number, int) or not 0 <= number < len(self.examples):
                raise PgigError("there is no such example")
            path = self.examples[number]
            data, file, name = path.read_bytes(), str(path), path.stem
        else:
            file = str(sent.get("name", "picture"))[:200]
            name = Path(file).stem or "picture"
            try:
                data = base64.b64decode(sent.get("data", ""), validate=True)
            except (binascii.Error, TypeError, ValueError):
                raise PgigError(f"{file} did not arrive whole: try again") from None
        return self.network.picture(data, name, Path(file).name), file

    def quickly(self, work: Callable[[], T]) -> T:
        """In its turn, which comes soon."""
        waiting = self.quick.submit(work)
        try:
            return waiting.result(_PATIENCE)
        except TimeoutError:
            waiting.cancel()
            raise PgigError("busy: try again in a minute") from None

    def question(self, visitor: Visitor) -> Question:
        return question_of(self.network, visitor.asked)


@dataclass(frozen=True)
class Tick:
    """Work goes on: what is in work, and how far all is."""

    text: str
    share: float


@dataclass(frozen=True)
class Step(Generic[T]):
    made: T


def followed(desk: Desk, work: Callable[[Callable[[str, float], object]], Iterator[T]]) -> Iterator[Step[T] | Tick]:
    """What `work(say)` yields, and between, where it stands."""
    queue: SimpleQueue[Step[T] | BaseException | None] = SimpleQueue()
    now = [Tick("getting ready", 0.0)]

    def run() -> None:
        try:
            for made in work(lambda text, share: now.__setitem__(0, Tick(text, share))):
                queue.put(Step(made))
            queue.put(None)
        except BaseException as error:
            queue.put(error)

    desk.long.submit(run)
    told: Tick | None = None
    while True:
        try:
            found = queue.get(timeout=_TICK)
        except Empty:
            if now[0] != told:
                told = now[0]
                yield told
            continue
        if found is None:
            return
        if isinstance(found, BaseException):
            raise found
        yield found


def sentence(error: Exception) -> dict[str, Any]:
    """For the status: one sentence, whatever failed."""
    if isinstance(error, Stopped):
        return {"text": "stopped"}
    if isinstance(error, PgigError):
        return {"text": " ".join(str(error).split()), "error": True}
    reason = str(error).splitlines()[0] if str(error) else "no reason given"
    return {"text": f"that failed ({type(error).__name__}: {reason[:300]})", "error": True}
