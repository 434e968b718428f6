"""Where the page may be, and where what serves it may leave something."""

import ipaddress
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

_TELLS_NOBODY = {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_OFFLINE": "1"}


def is_loopback(host: str) -> bool:
    """Can nobody but this machine reach it?"""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@contextmanager
def private_folder() -> Iterator[None]:
    """Gradio's folder is removed at the end; it has it from when it is imported on, so this comes first."""
    with tempfile.TemporaryDirectory(prefix="pgig-app-") as folder:
        wanted = {"GRADIO_TEMP_DIR": folder, **_TELLS_NOBODY}
        before = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
