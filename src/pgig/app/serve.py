"""The server: on loopback unless asked otherwise, without a trace on the disk once it has ended."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any

import gradio
import uvicorn
from fastapi import FastAPI

from pgig.app.assets import asset
from pgig.app.desk import Desk
from pgig.app.guard import Guard
from pgig.app.page import forget, page_of, theme
from pgig.app.where import is_loopback, private_folder
from pgig.errors import PgigError

_NAMES = "127.0.0.1", "localhost", "[::1]"  # by which this machine is asked for
_FIRST, _TRIED = 7860, 100  # ports
_SWEEP = 30  # seconds


def serve(
    desk: Desk,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    auth: tuple[str, str] | None = None,
    ready: Callable[[str], object] = lambda address: None,
) -> None:
    """Until it is stopped. port: without, the first free one from 7860 on; ready: told the address."""
    if not is_loopback(host) and auth is None:
        raise PgigError(f"on {host} others can reach it: that needs a user and a password", lacks="a user")
    with private_folder(), _bound(host, port) as bound, closing_soon(desk):
        address = f"http://{f'[{host}]' if ':' in host else host}:{bound.getsockname()[1]}/"
        config = uvicorn.Config(
            application(desk, host, auth), log_level="critical", access_log=False, lifespan="on",
            timeout_graceful_shutdown=1,
        )  # fmt: skip
        server = _Server(config, desk, lambda: ready(address))
        with suppress(KeyboardInterrupt):  # that is how it is stopped
            server.run(sockets=[bound])


def application(desk: Desk, host: str = "127.0.0.1", auth: tuple[str, str] | None = None) -> Guard:
    """The page behind its guard."""
    plain: dict[str, Any] = {"docs_url": None, "redoc_url": None, "openapi_url": None}
    page = page_of(desk)
    app = FastAPI(lifespan=partial(_swept, page, desk), **plain)
    mounted = gradio.mount_gradio_app(
        app, page, path="/", auth=auth, theme=theme(), css=asset("app.css"), footer_links=["settings"],
        show_error=False, ssr_mode=False, pwa=False, mcp_server=False, enable_monitoring=False, max_file_size=1,
        run_history=False, app_kwargs=plain,
    )  # fmt: skip
    names = {*_NAMES, host} if is_loopback(host) else set()  # elsewhere it may have any name
    return Guard(mounted, names)


@asynccontextmanager
async def _swept(page: gradio.Blocks, desk: Desk, _: FastAPI) -> AsyncIterator[None]:
    """Who has left without a word is forgotten, now and then."""

    async def sweep() -> None:
        while True:
            await asyncio.sleep(_SWEEP)
            desk.visitors.sweep()
            forget(page, desk)

    task = asyncio.create_task(sweep())
    yield
    task.cancel()


class _Server(uvicorn.Server):
    """Says when it listens, and ends all work before it ends."""

    def __init__(self, config: uvicorn.Config, desk: Desk, listening: Callable[[], object]) -> None:
        super().__init__(config)
        self._desk, self._listening = desk, listening

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._listening()

    async def shutdown(self, sockets: Any = None) -> None:
        self._desk.visitors.close()
        await super().shutdown(sockets)


@contextmanager
def _bound(host: str, port: int | None) -> Iterator[socket.socket]:
    """A socket that listens; the same port is told to the page."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in [port] if port is not None else range(_FIRST, _FIRST + _TRIED):
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((host, number))
            made.listen(128)
        except OSError as error:
            made.close()
            if port is None:
                continue
            raise PgigError(f"cannot listen on {host}, port {number}: {error.strerror or error}") from None
        with made:
            yield made
        return
    raise PgigError(f"no free port on {host} from {_FIRST} to {_FIRST + _TRIED - 1}")


@contextmanager
def closing_soon(desk: Desk) -> Iterator[None]:
    """What takes a moment is found out while people look for a picture; work that is left ends with the server."""
    desk.long.submit(_warm, desk)
    try:
        yield
    finally:
        desk.visitors.close()
        for threads in (desk.long, desk.quick):
            threads.shutdown(wait=True, cancel_futures=True)


def _warm(desk: Desk) -> None:
    with suppress(Exception), desk.network.working:  # who asks is told what is wrong
        desk.network.evaluator()
