"""Images in a folder, flat or one level per class, or in a zip or tar file; sorted by name."""

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import IO, Any

import torch
from PIL import Image
from torch import Tensor

from pgig.errors import PgigError
from pgig.vision.decoding import LARGEST_FILE, too_large
from pgig.vision.preprocess import Preprocess

# what reading a damaged or locked archive can raise
DAMAGED = (
    OSError, EOFError, KeyError, ValueError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError,
    RuntimeError, MemoryError,
)  # fmt: skip
_BLOCK, _PADDING = 2**20, 64 * 2**20  # bytes: a tar file may end in zeros


@dataclass(frozen=True)
class ImageFolder:
    names: tuple[str, ...]  # relative, sorted
    read: Callable[[str], bytes]

    @staticmethod
    def open(path: Path) -> "ImageFolder":
        if path.is_dir():
            found = [p for p in [*path.glob("*"), *path.glob("*/*")] if p.is_file() or _leads_nowhere(p)]
            names = [p.relative_to(path).as_posix() for p in found]
            return _sorted(names, lambda name: _file_bytes(path / name), path)
        if path.is_file() and zipfile.is_zipfile(path):
            try:
                archive = zipfile.ZipFile(path)
            except DAMAGED as error:
                raise PgigError(f"the archive {path} is damaged: {error}") from error
            names = [name for name in archive.namelist() if name[-1:] != "/"]
            return _sorted(names, lambda name: _zip_bytes(archive, name), path)
        if path.is_file() and (opened := _tar(path)) is not None:
            tar, members = opened, _members(path, opened)
            return _sorted(list(members), lambda name: _tar_bytes(tar, members[name]), path)
        if path.is_file() and _is_cut_zip(path):
            raise PgigError(f"the archive {path} is damaged: it begins as a zip file and does not end as one")
        raise PgigError(f"no images at {path}: expected a folder, a zip or a tar file")

    def first(self, limit: int | None) -> "ImageFolder":
        return self if limit is None else ImageFolder(self.names[:limit], self.read)

    def split(self, last: int) -> tuple["ImageFolder", "ImageFolder"]:
        """All but the last few, and those."""
        if last >= len(self.names):
            raise PgigError(f"{last} of {len(self.names)} images cannot be held out: some must remain")
        cut = len(self.names) - last
        return ImageFolder(self.names[:cut], self.read), ImageFolder(self.names[cut:], self.read)

    @property
    def digest(self) -> str:
        """Of the names."""
        return blake2b("\n".join(self.names).encode(), digest_size=8).hexdigest()

    def batches(
        self, preprocess: Preprocess, size: int, start: int, skipped: dict[str, str]
    ) -> Iterator[tuple[int, Tensor]]:
        """From the image number `start` on, pairs of (images read or skipped so far, batch for the model).

        Unreadable images are noted in `skipped` with the reason.
        """
        for begin in range(start, len(self.names), size):
            names = self.names[begin : begin + size]
            found = []
            for name in names:
                try:
                    found.append(preprocess.normalise(preprocess.pixels(BytesIO(self.read(name)), name)))
                except (PgigError, *DAMAGED) as error:
                    skipped[name] = str(error).removeprefix(f"cannot read the image {name}: ")
            if found:
                yield begin + len(names), torch.stack(found)


def _sorted(names: list[str], read: Callable[[str], bytes], path: Path) -> ImageFolder:
    endings = Image.registered_extensions()
    images = sorted(n for n in set(names) if PurePosixPath(n).suffix.lower() in endings and not _is_hidden(n))
    if not images:
        raise PgigError(f"no images in {path} or its folders")
    for name in images:
        if not _is_text(name):
            shown = name.encode("utf-8", "backslashreplace").decode()
            raise PgigError(f"the name of {shown} in {path} is not UTF-8: rename it")
    return ImageFolder(tuple(images), read)


def _leads_nowhere(path: Path) -> bool:
    """A link to a file that is gone: better skipped with a reason than not seen."""
    return path.is_symlink() and not path.exists()


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # bytes that are no text stand in a name as lone surrogates
        return False
    return True


def _is_hidden(name: str) -> bool:
    """macOS leaves such files beside the real ones."""
    return "__MACOSX" in name or PurePosixPath(name).name.startswith("._")


def _is_cut_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


_PACKED = {b"\x1f\x8b": "r:gz", b"BZh": "r:bz2", b"\xfd7zXZ\x00": "r:xz"}  # by the first bytes


def _tar(path: Path) -> tarfile.TarFile | None:
    """By its first bytes: to try all ways of unpacking would read some files to their ends."""
    try:
        with path.open("rb") as file:
            head = file.read(8)
        mode: Any = next((way for mark, way in _PACKED.items() if head.startswith(mark)), "r:")
        return tarfile.open(path, mode) if any(head) else None
    except DAMAGED:
        return None


def _members(path: Path, tar: tarfile.TarFile) -> dict[str, tarfile.TarInfo]:
    """The files in a tar file, read to its end: where it is damaged, what comes behind would be missing silently."""
    try:
        packed = isinstance(tar.fileobj, gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile)
        members = {}
        for member in tar:
            if packed and member.size > LARGEST_FILE:  # to pass over it would be to unpack it
                raise PgigError(f"{path} holds {member.name}, {too_large(member.size)}: unpack the archive")
            if member.isfile():
                members[member.name] = member
        if packed and tar.fileobj is not None:
            _check_end(tar.fileobj)
    except PgigError:
        raise
    except DAMAGED as error:
        raise PgigError(f"the archive {path} is damaged: {error or type(error).__name__}") from error
    return members


def _check_end(file: Any) -> None:
    """What is packed has its checksum at the end."""
    for _ in range(_PADDING // _BLOCK):
        if not file.read(_BLOCK):
            return
    raise tarfile.TarError(f"more than {_PADDING / 2**20:.0f} MB behind its last file")


def _file_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return _bounded(file, path.stat().st_size)


def _zip_bytes(archive: zipfile.ZipFile, name: str) -> bytes:
    with archive.open(name) as file:
        return _bounded(file, archive.getinfo(name).file_size)


def _tar_bytes(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    return b"" if file is None else _bounded(file, member.size)


def _bounded(file: IO[bytes], size: int) -> bytes:
    """All of a file; its stated size need not be true."""
    content = file.read(LARGEST_FILE + 1) if size <= LARGEST_FILE else b""
    if size > LARGEST_FILE or len(content) > LARGEST_FILE:
        raise PgigError(too_large(max(size, len(content))))
    return content
