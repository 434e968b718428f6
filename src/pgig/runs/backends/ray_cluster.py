"""A connection to Ray: to a cluster that is there, or to one of our own that begins and ends with it.

Ray of our own has a folder of its own, no dashboard, and listens on loopback alone; only it is ended. What Ray says
goes to a file, not to the terminal.
"""

import logging
import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from pgig.errors import PgigError

# Ray takes the loopback address for what a node is reached by only where it believes that there can be no cluster;
# with another setting its servers listen on all addresses, whatever address they are told
_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
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
        stack.enter_context(_environment({**_QUIET, **({} if address else _LOOPBACK)}))
        ray = ray_module()
        if ray.is_initialized():  # the caller's own: used, and left alone
            yield ray, None
            return
        stack.enter_context(_signals_kept())
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
            yield ray, None
            return
        folder = Path(tempfile.mkdtemp(prefix="pgig-ray-"))  # short: sockets have short names
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        with _cluster_off(ray):
            ray.init(
                address="local", num_cpus=cpus, num_gpus=gpus, include_dashboard=False,
                _node_ip_address="127.0.0.1", _temp_dir=str(folder), **quiet,
            )  # fmt: skip
        stack.callback(_keep_logs, folder, log)
        stack.callback(ray.shutdown)
        yield ray, folder


def _check_answers(address: str) -> None:
    """Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
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
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Ray adds variables of its own, which would hold for the next Ray of this process."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Ray takes SIGTERM for itself."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
