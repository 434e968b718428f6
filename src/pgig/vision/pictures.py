"""Pictures: image files of a user's, found, named and read."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath

from torch import Tensor

from pgig.errors import PgigError
from pgig.files import read_text
from pgig.vision.image_folder import ImageFolder
from pgig.vision.preprocess import Preprocess

_ARCHIVES = ".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz"


@dataclass(frozen=True)
class Picture:
    """An image file, read and preprocessed."""

    name: str  # unique among the pictures of a run
    pixels: Tensor  # [3, size, size], 0..1
    x: Tensor  # [1, 3, size, size], what the model takes


@dataclass(frozen=True)
class Source:
    """Where a picture comes from: a file that was named, which must be one, or one of a folder, which need not."""

    name: str  # of the picture, unique
    shown: str  # as the user knows it
    read: Callable[[], bytes | Path]
    in_folder: bool = False

    def picture(self, preprocess: Preprocess) -> Picture:
        found = self.read()
        pixels = preprocess.pixels(BytesIO(found) if isinstance(found, bytes) else found, self.shown)
        return Picture(self.name, pixels, preprocess.normalise(pixels)[None])


def find_sources(paths: Sequence[Path]) -> list[Source]:
    """The files, and the images of the folders, zip and tar files among them."""
    sources: list[Source] = []
    taken = {"index.html", "results.json"}  # what stands beside the pictures' folders

    def add(stem: str, shown: str, read: Callable[[], bytes | Path], in_folder: bool) -> None:
        plain = "".join(c if c.isprintable() else "_" for c in stem)  # a folder is named so
        name = next(n for n in _numbered(plain.strip(".") or "image") if n not in taken)
        taken.add(name)
        sources.append(Source(name, shown, read, in_folder))

    for path in paths:
        if path.is_dir() or path.suffix.lower() in _ARCHIVES:
            folder = ImageFolder.open(path)
            for image in folder.names:
                stem = PurePosixPath(image).with_suffix("").as_posix().replace("/", "-")
                add(stem, f"{path}/{image}", lambda folder=folder, image=image: folder.read(image), True)  # type: ignore[misc]
        else:
            add(path.stem, str(path), lambda path=path: path, False)  # type: ignore[misc]
    return sources


def read_references(folder: Path, preprocess: Preprocess) -> list[Tensor]:
    """The images of a folder; what is not an image is passed over."""
    if not folder.is_dir():
        raise PgigError(f"no folder of references at {folder}")
    batches = ImageFolder.open(folder).batches(preprocess, 1, 0, {})
    return [batch for _, batch in batches]


def read_classes(path: Path) -> list[str]:
    """Class names, one per line, line = class index."""
    if not path.is_file():
        raise PgigError(f"no class names at {path}")
    try:
        return read_text(path).removeprefix("\ufeff").splitlines()
    except UnicodeDecodeError as error:
        raise PgigError(f"class names in {path} are not UTF-8 text: {error}") from error


def _numbered(stem: str) -> Iterator[str]:
    yield stem
    number = 2
    while True:
        yield f"{stem}-{number}"
        number += 1
