"""What stands before the server: who may be asked for, what may come in, and what a browser may fetch."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BYTES = 48 * 2**20  # of a request: a picture of 30 MB as text, and what is around it
# a page of ours takes everything from where it came from; Gradio's components are compiled in the browser
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' data: blob:; worker-src 'self' blob:; "
    "frame-ancestors 'self'; base-uri 'self'; form-action 'self'; object-src 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
]
# what the page asks for; files to the disk, other servers, shared links and the rest of what Gradio can do stay closed
_OPEN = (
    "/assets/",
    "/static/",
    "/svelte/",
    "/theme.css",
    "/favicon.ico",
    "/manifest.json",
    "/login",
    "/logout",
    "/config",
)
_API = (
    "queue/join",
    "queue/data",
    "run/predict",
    "heartbeat/",
    "cancel",
    "login_check",
    "user",
    "startup-events",
    "app_id",
)
_IN_FLIGHT = 128 * 2**20  # bytes of all requests that are being answered


class Guard:
    """Refuses names that are not the server's (which someone may have pointed here), and what is too large."""

    def __init__(self, app: App, names: set[str]) -> None:
        self._app, self._names = app, names
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if self._names and _name(headers.get(b"host", b"").decode("latin-1")) not in self._names:
            await _refuse(send, 421, "this server does not go by that name")
            return
        if not _is_open(scope["path"]):
            await _refuse(send, 404, "there is nothing here")
            return
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > MOST_BYTES or b"transfer-encoding" in headers:
            await _refuse(send, 413, "too large: files up to 30 MB are taken")
            return
        if self._held + int(length) > _IN_FLIGHT:
            await _refuse(send, 503, "busy: try again in a minute")
            return
        self._held += int(length)
        try:
            await self._passed(scope, receive, send)
        finally:
            self._held -= int(length)

    async def _passed(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        await self._app(scope, receive, with_headers)


def _is_open(path: str) -> bool:
    if path.startswith("/gradio_api/"):
        return path.removeprefix("/gradio_api/").startswith(_API)
    return path == "/" or path.startswith(_OPEN)


def _name(host: str) -> str:
    """Without its port."""
    return host.rpartition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]


async def _refuse(send: Send, status: int, reason: str) -> None:
    body = reason.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
