"""Zip and tar files: the names of the files in them, and the bytes of each, within bounds."""

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import IO, Any, NamedTuple
from weakref import finalize

from pgig.errors import PgigError
from pgig.vision.decoding import LARGEST_FILE, too_large

# what reading a damaged or locked archive can raise
DAMAGED = (
    OSError, EOFError, KeyError, ValueError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError,
    RuntimeError, MemoryError,
)  # fmt: skip
ENDINGS = ".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz"
_BLOCK, _PADDING = 2**20, 64 * 2**20  # bytes: a tar file may end in zeros


class Archive(NamedTuple):
    names: list[str]
    read: Callable[[str], bytes]


def open_archive(file: IO[bytes], name: str) -> Archive | None:
    """By its first bytes; None where it is neither a zip nor a tar file. The file is closed with the archive."""
    found = None
    try:
        found = _zip(file, name) if zipfile.is_zipfile(file) else _tar(file, name)
        if found is None and _head(file).startswith(b"PK\x03\x04"):
            raise PgigError(f"the archive {name} is damaged: it begins as a zip file and does not end as one")
    finally:
        if found is None:
            file.close()
    return found


def _zip(file: IO[bytes], name: str) -> Archive:
    try:
        archive = zipfile.ZipFile(file)
    except DAMAGED as error:
        raise PgigError(f"the archive {name} is damaged: {error}") from error
    finalize(archive, file.close)
    return Archive([n for n in archive.namelist() if n[-1:] != "/"], lambda member: _zip_bytes(archive, member))


def together(shards: Mapping[str, Archive]) -> Archive:
    """Several archives as one; names begin with the archive's."""
    places = {f"{shard}/{name}": (shard, name) for shard, archive in shards.items() for name in archive.names}
    return Archive(list(places), lambda name: shards[places[name][0]].read(places[name][1]))


def is_archive(name: str) -> bool:
    """By its ending."""
    return name.lower().endswith(ENDINGS)


def bounded(file: IO[bytes], size: int) -> bytes:
    """All of a file; its stated size need not be true."""
    content = file.read(LARGEST_FILE + 1) if size <= LARGEST_FILE else b""
    if size > LARGEST_FILE or len(content) > LARGEST_FILE:
        raise PgigError(too_large(max(size, len(content))))
    return content


_PACKED = {b"\x1f\x8b": "r:gz", b"BZh": "r:bz2", b"\xfd7zXZ\x00": "r:xz"}  # by the first bytes


def _tar(file: IO[bytes], name: str) -> Archive | None:
    """By its first bytes: to try all ways of unpacking would read some files to their ends."""
    head = _head(file)
    mode: Any = next((way for mark, way in _PACKED.items() if head.startswith(mark)), "r:")
    try:
        tar = tarfile.TarFile.open(fileobj=file, mode=mode) if any(head) else None
    except DAMAGED:
        return None
    if tar is None:
        return None
    members = _members(name, tar)
    finalize(tar, file.close)
    return Archive(list(members), lambda member: _tar_bytes(tar, members[member]))


def _head(file: IO[bytes]) -> bytes:
    file.seek(0)
    head = file.read(8)
    file.seek(0)
    return head


def _members(name: str, tar: tarfile.TarFile) -> dict[str, tarfile.TarInfo]:
    """The files in a tar file, read to its end: where it is damaged, what comes behind would be missing silently."""
    try:
        packed = isinstance(tar.fileobj, gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile)
        members = {}
        for member in tar:
            if packed and member.size > LARGEST_FILE:  # to pass over it would be to unpack it
                raise PgigError(f"{name} holds {member.name}, {too_large(member.size)}: unpack the archive")
            if member.isfile():
                members[member.name] = member
        if packed and tar.fileobj is not None:
            _check_end(tar.fileobj)
    except PgigError:
        raise
    except DAMAGED as error:
        raise PgigError(f"the archive {name} is damaged: {error or type(error).__name__}") from error
    return members


def _check_end(file: Any) -> None:
    """What is packed has its checksum at the end."""
    for _ in range(_PADDING // _BLOCK):
        if not file.read(_BLOCK):
            return
    raise tarfile.TarError(f"more than {_PADDING / 2**20:.0f} MB behind its last file")


def _zip_bytes(archive: zipfile.ZipFile, name: str) -> bytes:
    with archive.open(name) as file:
        return bounded(file, archive.getinfo(name).file_size)


def _tar_bytes(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    return b"" if file is None else bounded(file, member.size)
