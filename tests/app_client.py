"""A visitor of the app without a browser: what a page sends, and what comes back."""

import base64
import json
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any


class Page:
    """One open page: it has a session, and a heartbeat by which the server knows that it is there."""

    def __init__(self, port: int) -> None:
        self.port, self.session = port, uuid.uuid4().hex[:11]
        self.config = json.loads(self._get("/config")[1])
        self._heart: HTTPConnection | None = None

    def open(self) -> "Page":
        self._heart = HTTPConnection("127.0.0.1", self.port)
        self._heart.request("GET", f"/gradio_api/heartbeat/{self.session}")
        self._heart.getresponse()
        return self

    def leave(self) -> None:
        if self._heart is not None:
            self._heart.close()
            self._heart = None

    def picked(self, data: bytes, name: str, methods: list[str]) -> list[Any]:
        sent = {"name": name, "data": base64.b64encode(data).decode()}
        return self._chain("picker", "picked", sent, methods)

    def asked(self, classes: list[int], methods: list[str]) -> list[Any]:
        return self._chain("classes", "asked", {"classes": classes}, methods)

    def _chain(self, element: str, event: str, data: dict[str, Any], methods: list[str]) -> list[Any]:
        first = next(d for d in self.config["dependencies"] if self._is(d, element, event))
        then = next(d for d in self.config["dependencies"] if d["trigger_after"] == first["id"])
        return [self._call(first["id"], data, (methods,)), self._call(then["id"], None, ())]

    def _is(self, dependency: dict[str, Any], element: str, event: str) -> bool:
        return [self._id(element), event] in [list(target) for target in dependency["targets"]]

    def call(self, element: str, event: str, data: dict[str, Any] | None = None, *inputs: Any) -> Any:
        return self._call(
            next(d["id"] for d in self.config["dependencies"] if self._is(d, element, event)), data, inputs
        )

    def _id(self, element: str) -> int:
        return int(next(c["id"] for c in self.config["components"] if c["props"].get("elem_id") == element))

    def _call(self, number: int, data: dict[str, Any] | None, inputs: tuple[Any, ...]) -> Any:
        body = {
            "data": list(inputs),
            "event_data": data and {"turn": time.monotonic(), **data},
            "fn_index": number,
            "session_hash": self.session,
        }
        dependency = next(d for d in self.config["dependencies"] if d["id"] == number)
        if dependency["queue"] is False:
            status, text = self._post("/gradio_api/run/predict", body)
            return json.loads(text)["data"] if status == 200 else (status, text)
        status, text = self._post("/gradio_api/queue/join", body)
        if status == 503:
            return "busy"
        assert status == 200, text
        return self._follow(json.loads(text)["event_id"])

    def _follow(self, event: str) -> Any:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("GET", f"/gradio_api/queue/data?session_hash={self.session}")
        last: Any = None
        for line in connection.getresponse():
            if not line.startswith(b"data:"):
                continue
            message = json.loads(line[5:])
            if message.get("event_id") not in (None, event):
                continue
            if message["msg"] in ("process_generating", "process_completed") and message.get("output", {}).get("data"):
                last = message["output"]["data"]
            if message["msg"] == "process_completed":
                connection.close()
                return last if message["success"] else ("failed", message["output"])
        return last

    def _get(self, path: str) -> tuple[int, str]:
        return self.request("GET", path)

    def _post(self, path: str, body: Any) -> tuple[int, str]:
        return self.request("POST", path, json.dumps(body), {"content-type": "application/json"})

    def request(
        self, method: str, path: str, body: str | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        text = response.read().decode("utf-8", "replace")
        connection.close()
        return response.status, text


class Server:
    """The app on the embedded network, in a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.port = int(self._line().rstrip("/").rpartition(":")[2])

    @property
    def visitors(self) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return int(self._line())

    @property
    def resident(self) -> int:
        """Bytes of memory."""
        return int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]) * 4096

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line, "the server ended"
        return line


@contextmanager
def served() -> Iterator[Server]:
    """Until the end of the context; then nothing of it is left."""
    script = Path(__file__).with_name("app_server.py")
    with subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:  # fmt: skip
        try:
            yield Server(process)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)
