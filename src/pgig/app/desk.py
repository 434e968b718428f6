"""What all tabs share: the networks, the visitors, and how work is followed and errors are told."""

import base64
import binascii
import threading
from collections.abc import Callable, Iterator, Sequence
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

WORK = "work"  # what is computed waits in one queue, one at a time: two at once would only be slower
MOST_WAITING = 24
_TICK = 0.2  # seconds between two words on where the work stands
_PATIENCE = 20.0  # seconds, for pictures of others to be read

T = TypeVar("T")


@dataclass(frozen=True)
class Desk:
    networks: Sequence[Network]  # the first is asked, the others are for comparison
    examples: Sequence[Path] = ()
    how_to_compare: str = "Only one network was given."
    visitors: Visitors = field(default_factory=Visitors)
    reading: threading.Lock = field(default_factory=threading.Lock)

    @property
    def network(self) -> Network:
        return self.networks[0]

    def visitor(self, request: gradio.Request | None) -> Visitor:
        return self.visitors.of(None if request is None else request.session_hash)

    def read(self, event: gradio.EventData) -> tuple[Picture, str]:
        """The picture that was dropped, pasted or chosen, and its file. One at a time: they can be large."""
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
        if not self.reading.acquire(timeout=_PATIENCE):
            raise PgigError("busy: pictures of others are being read; try again in a minute")
        try:
            return self.network.picture(data, name, Path(file).name), file
        finally:
            self.reading.release()

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


def followed(work: Callable[[Callable[[str, float], object]], Iterator[T]]) -> Iterator[Step[T] | Tick]:
    """What `work(say)` yields, and between, where it stands: it runs in a thread of its own."""
    queue: SimpleQueue[Step[T] | BaseException | None] = SimpleQueue()
    now = [Tick("getting ready", 0.0)]

    def run() -> None:
        try:
            for made in work(lambda text, share: now.__setitem__(0, Tick(text, share))):
                queue.put(Step(made))
            queue.put(None)
        except BaseException as error:
            queue.put(error)

    threading.Thread(target=run, daemon=True).start()
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
