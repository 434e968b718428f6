"""Images at an address that fsspec knows: s3://bucket/photos, gs://, file:///data/photos.zip, memory://."""

import errno
import time
from typing import Any

from pgig.errors import PgigError
from pgig.vision.archives import DAMAGED, Archive, bounded, is_archive, open_archive, together
from pgig.vision.decoding import is_image

_WAITS = 0.5, 2.0, 0.0  # seconds until the next try


def is_address(place: str) -> bool:
    return "://" in place


def opened_address(address: str) -> Archive:
    """A folder, flat or one level per class, or a zip or tar file."""
    system, path = _system(address)
    try:
        if system.isdir(path):
            files = [name for name in system.find(path, maxdepth=2) if name != path]
            names = {name.removeprefix(path.rstrip("/")).lstrip("/"): name for name in files}
            shards = sorted(filter(is_archive, names))
            if shards and not any(map(is_image, names)):
                return together({name: _archive(system, names[name], f"{address}/{name}") for name in shards})
            return Archive(list(names), lambda name: _read(system, names[name]))
        if not system.isfile(path):
            raise PgigError(f"no images at {address}: expected a folder, a zip or a tar file")
        return _archive(system, path, address)
    except DAMAGED as error:
        if isinstance(error, PgigError):
            raise
        raise PgigError(f"cannot read {address}: {error or type(error).__name__}") from error


def _archive(system: Any, path: str, address: str) -> Archive:
    archive = open_archive(system.open(path, "rb"), address)
    if archive is None:
        raise PgigError(f"no images at {address}: expected a folder, a zip or a tar file")
    return archive


def _read(system: Any, path: str) -> bytes:
    """Tried again where it fails: a network's faults pass, and must not pass for damaged images."""
    for wait in _WAITS:
        try:
            with system.open(path, "rb") as file:
                return bounded(file, int(system.size(path) or 0))
        except (FileNotFoundError, PgigError):
            raise
        except OSError as error:
            failed = error
            time.sleep(wait)
    raise OSError(errno.EIO, f"{failed}", path) from failed


def _system(address: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise PgigError(f"images at {address} need fsspec: pip install fsspec") from error
    try:
        system, path = url_to_fs(address)
        return system, path
    except ImportError as error:  # fsspec names the package that is missing
        raise PgigError(f"cannot read {address}: {' '.join(str(error).split())}") from error
    except (ValueError, OSError) as error:
        raise PgigError(f"cannot read {address}: {error}") from error
