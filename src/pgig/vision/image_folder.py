"""Images in a folder, flat or one level per class, or in a zip or tar file; sorted by name."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from io import BytesIO
from pathlib import Path

import torch
from torch import Tensor

from pgig.errors import PgigError
from pgig.vision.archives import DAMAGED, Archive, bounded, is_archive, open_archive, together
from pgig.vision.decoding import is_image
from pgig.vision.image_address import is_address, opened_address
from pgig.vision.preprocess import Preprocess

__all__ = ["DAMAGED", "ImageFolder"]


@dataclass(frozen=True)
class ImageFolder:
    names: tuple[str, ...]  # relative, sorted
    read: Callable[[str], bytes]

    @staticmethod
    def open(place: Path | str) -> "ImageFolder":
        """A folder, a zip or tar file, a folder of such files; here, or at an address such as s3://bucket/folder."""
        if is_address(str(place)):
            return _sorted(*opened_address(str(place)), str(place))
        path = Path(place)
        if path.is_dir():
            found = [p for p in [*path.glob("*"), *path.glob("*/*")] if p.is_file() or _leads_nowhere(p)]
            names = [p.relative_to(path).as_posix() for p in found]
            if not any(map(is_image, names)) and (shards := sorted(name for name in names if is_archive(name))):
                return _sorted(*together({name: _opened(path / name) for name in shards}), str(path))
            return _sorted(names, lambda name: _file_bytes(path / name), str(path))
        if path.is_file():
            return _sorted(*_opened(path), str(path))
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


def _opened(path: Path) -> Archive:
    archive = open_archive(path.open("rb"), str(path))
    if archive is None:
        raise PgigError(f"no images at {path}: expected a folder, a zip or a tar file")
    return archive


def _file_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return bounded(file, path.stat().st_size)


def _sorted(names: list[str], read: Callable[[str], bytes], path: str) -> ImageFolder:
    images = sorted(filter(is_image, set(names)))
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
