"""What all tabs share: the networks, the visitors, and how work is followed and errors are told."""

import base64
import binascii
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

import gradio

from pgig.app.answers import question_of
from pgig.app.network import Network
from pgig.app.truths import embedded_network
from pgig.app.visitors import Look, Stopped, Visitor, Visitors
from pgig.errors import PgigError
from pgig.runs.questions import Question
from pgig.vision.pictures import Picture
from pgig.vision.preprocess import Preprocess

# how the page's events are treated: at once; or in one queue, one at a time, since two at once would only be slower
_COMMON: dict[str, Any] = {"show_progress": "hidden", "trigger_mode": "multiple", "api_visibility": "private"}
QUICK: dict[str, Any] = {"queue": False, **_COMMON}
SLOW: dict[str, Any] = {"concurrency_id": "work", "concurrency_limit": 1, **_COMMON}
MOST_WAITING = 48
_TICK = 0.2  # seconds between two words on where the work stands
_PATIENCE = 30.0  # seconds
_MOST_QUICK = 16  # that wait at once

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
    room: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(_MOST_QUICK))

    @property
    def network(self) -> Network:
        return self.networks[0]

    @cached_property
    def small(self) -> Network:
        """The embedded network, for images with known truth."""
        return embedded_network()

    def visitor(self, request: gradio.Request) -> Visitor:
        if not request.session_hash:
            raise gradio.Error("open the page in a browser", print_exception=False)
        return self.visitors.of(request.session_hash)

    def read(self, sent: Mapping[str, Any]) -> Look:
        """What was dropped, pasted or chosen: the picture as each network takes it, and its likeliest class."""
        if "example" in sent:
            number = sent["example"]
            if type(number) is not int or not 0 <= number < len(self.examples):
                raise PgigError("there is no such example")
            path = self.examples[number]
            data, file, code = path.read_bytes(), path.name, f"photographs()[{number}]"
        else:
            file = _readable(str(sent.get("name", "picture")))
            code = repr(file)
            try:
                data = base64.b64decode(sent.get("data", ""), validate=True)
            except (binascii.Error, TypeError, ValueError):
                raise PgigError(f"{file} did not arrive whole: try again") from None
        made: dict[Preprocess, Picture] = {}
        for network in self.networks:
            if network.preprocess not in made:
                made[network.preprocess] = network.picture(data, Path(file).stem or "picture", file)
        pictures = [made[network.preprocess] for network in self.networks]
        likeliest = self.network.likeliest(pictures[0])
        return Look(pictures, code, likeliest, (likeliest[0][0],))

    def quickly(self, work: Callable[[], T]) -> T:
        """In its turn, which comes soon; refused where many wait."""
        if not self.room.acquire(blocking=False):
            raise PgigError("busy: try again in a minute")
        try:
            return self.quick.submit(work).result(_PATIENCE)
        except TimeoutError:
            raise PgigError("busy: try again in a minute") from None
        finally:
            self.room.release()

    def question(self, look: Look) -> Question:
        return question_of(self.network, look.asked)


def _readable(name: str) -> str:
    """The last part of a name, whatever letters it has."""
    whole = name.encode("utf-8", "replace").decode("utf-8").replace("\\", "/").rpartition("/")[2][:200]
    return "".join(letter if letter.isprintable() else "_" for letter in whole) or "picture"


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


WAITING = {"text": "waiting for its turn", "waits": True}
STOPPED = {"text": "stopped"}
BUSY = {"text": "busy: others are waiting already; try again in a minute", "error": True}


def stop(desk: Desk, status: gradio.HTML, **options: Any) -> gradio.Button:
    """A button that ends what the visitor has asked for, whether it is in work or waits."""
    button = gradio.Button("Stop", elem_classes="pg-stop", **options)

    def halt(request: gradio.Request) -> dict[str, Any]:
        desk.visitor(request).stop()
        return STOPPED

    button.click(halt, None, status, **QUICK)
    return button


def sentence(error: Exception) -> dict[str, Any]:
    """For the status: one sentence, whatever failed."""
    if isinstance(error, Stopped):
        return {"text": "stopped"}
    if isinstance(error, PgigError):
        return {"text": " ".join(str(error).split()), "error": True}
    reason = str(error).splitlines()[0] if str(error) else "no reason given"
    return {"text": f"that failed ({type(error).__name__}: {reason[:300]})", "error": True}
