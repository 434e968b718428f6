"""A connection to Ray: to a cluster that is there, or to one of our own that begins and ends with it.

Ray of our own has a folder of its own, no dashboard, and listens on loopback alone; only it is ended. What Ray says
goes to a file, not to the terminal.
"""

import logging
import os
import secrets
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from pgig.errors import PgigError

# Ray takes the loopback address for what a node is reached by only where it believes that there can be no cluster;
# with another setting its servers listen on all addresses, whatever address they are told
_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
_TOKEN = secrets.token_hex(32)  # of all Rays of this process, so that other users of the machine are kept out
_ANSWER = 10  # seconds
_MOST_LOG = 2**20  # bytes of a worker's log that are kept


def ray_module() -> Any:
    try:
        import ray
    except ImportError as error:
        raise PgigError(f"the ray backend needs Ray: pip install 'pgig[ray]' ({error})") from error
    return ray


@contextmanager
def connected(address: str | None, cpus: float, gpus: float, log: Path | None) -> Iterator[tuple[Any, Path | None]]:
    """Ray, connected, and its folder where it is our own. cpus, gpus: of such a one. Nothing stays changed here."""
    with ExitStack() as stack:
        own = {} if address else {**_LOOPBACK, "RAY_AUTH_TOKEN": _TOKEN}
        changed = stack.enter_context(_environment({**_QUIET, **own}))
        ray = ray_module()
        if ray.is_initialized():  # the caller's own: used, and left alone
            yield ray, None
            return
        signals = stack.enter_context(_signals_kept())
        stack.enter_context(_said_to(log))
        stack.enter_context(_printed_to_the_log(ray))
        quiet = {"log_to_driver": False, "logging_level": logging.INFO}
        if address is not None:
            _check_answers(address)
            try:
                ray.init(address=address, **quiet)
            except (ConnectionError, RuntimeError, ValueError, OSError) as error:
                reason = " ".join(str(error).split())
                raise PgigError(f"cannot reach Ray at {address!r}: {reason}") from error
            stack.callback(ray.shutdown)
            changed()
            signals()
            yield ray, None
            return
        _forget_token(ray)
        folder = _folder()
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        try:
            with _cluster_off(ray):
                ray.init(
                    address="local", num_cpus=cpus, num_gpus=gpus, include_dashboard=False,
                    _node_ip_address="127.0.0.1", _temp_dir=str(folder), **quiet,
                )  # fmt: skip
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            ray.shutdown()
            raise PgigError(f"a Ray of its own could not be started: {' '.join(str(error).split())}") from error
        stack.callback(_keep_logs, folder, log)
        stack.callback(ray.shutdown)
        changed()
        signals()
        yield ray, folder


def _forget_token(ray: Any) -> None:
    """Ray remembers the first that it was given in a process, perhaps that of a cluster."""
    with suppress(AttributeError):  # of versions that have none
        ray._raylet.AuthenticationTokenLoader.instance().reset_cache()


def _folder() -> Path:
    """Of a Ray of our own, for nobody else to read; its name is short, as sockets have it. Those of killed ones go."""
    above = Path("/tmp") if Path("/tmp").is_dir() else Path(tempfile.gettempdir())
    for path in above.glob("pgig-ray-*-*"):
        process = path.name.split("-")[2]
        if process.isdecimal() and not _is_alive(int(process)):
            shutil.rmtree(path, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"pgig-ray-{os.getpid()}-", dir=above))


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _check_answers(address: str) -> None:
    """Ray itself would try for minutes."""
    if address.startswith("ray://"):
        raise PgigError(
            "addresses of Ray's client, ray://, are not taken: run on a machine of the cluster, and give HOST:PORT"
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        return  # `auto`, or what Ray itself refuses at once
    try:
        socket.create_connection((host, int(port)), _ANSWER).close()
    except OSError as error:
        raise PgigError(f"cannot reach Ray at {address!r}: {error}") from error


def _cluster_off(ray: Any) -> AbstractContextManager[None]:
    """The same for a process that had imported Ray already: the setting is read at import."""
    return _replaced(ray._private.ray_constants, "ENABLE_RAY_CLUSTER", False)


def _printed_to_the_log(ray: Any) -> AbstractContextManager[None]:
    """What a node says of workers that died, which Ray prints."""

    def say(data: dict[str, Any], *_: object, **__: object) -> None:
        logging.getLogger("ray").warning("%s: %s", data.get("pid"), " ".join(map(str, data.get("lines", ()))))

    return _replaced(ray._private.worker, "print_to_stdstream", say)


@contextmanager
def _replaced(module: Any, name: str, value: object) -> Iterator[None]:
    """For the time being, where there is such a name: Ray has no public way to these."""
    before = getattr(module, name, None)
    if before is None:
        yield
        return
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[Callable[[], None]]:
    """Ray adds variables of its own, which would hold for the next Ray of this process.

    Gives what is to be called when Ray has begun: what changed until then is as before at the end, and nothing else.
    """
    before = dict(os.environ)
    os.environ.update(values)
    changed = set(values)

    def note() -> None:
        changed.update(name for name in os.environ if os.environ[name] != before.get(name))

    try:
        yield note
    finally:
        for name in changed:
            if name in before:
                os.environ[name] = before[name]
            else:
                os.environ.pop(name, None)


@contextmanager
def _signals_kept() -> Iterator[Callable[[], None]]:
    """Ray takes SIGTERM for itself, and an interrupt while it starts can be lost: it waits until Ray is there.

    Gives what puts the handlers back, and sends what came meanwhile. A second interrupt does not wait.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    came: list[int] = []

    def note(number: int, _: object) -> None:
        came.append(number)
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)
        while came:
            signal.raise_signal(came.pop())

    try:
        yield restore
    finally:
        restore()


@contextmanager
def _said_to(log: Path | None) -> Iterator[None]:
    """Ray's logger, to a file or to nobody."""
    logger = logging.getLogger("ray")
    before = logger.handlers[:], logger.propagate, logger.level
    handler: logging.Handler = logging.NullHandler()
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(log, encoding="utf-8")
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.handlers, logger.propagate = before[0], before[1]
        logger.setLevel(before[2])
        handler.close()


def _keep_logs(folder: Path, log: Path | None) -> None:
    """What workers printed, behind what the driver said."""
    if log is None:
        return
    with suppress(OSError), log.open("ab") as file:
        for path in sorted(folder.glob("session_2*/logs/worker-*.err")):
            content = path.read_bytes()
            lines = [line for line in content[-_MOST_LOG:].splitlines() if not line.startswith(b":")]
            if lines:
                file.write(b"\n".join([f"-- {path.name}".encode(), *lines, b""]))
