"""Masks: where the object is on a run's images, from a folder of mask images or from a table of boxes."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO, StringIO
from pathlib import Path, PurePosixPath

import numpy
from PIL import Image
from torch import Tensor

from pgig.digests import digest_of, digest_of_file
from pgig.errors import PgigError
from pgig.files import read_text
from pgig.records.tables import is_number
from pgig.vision.decoding import read_image
from pgig.vision.image_folder import ImageFolder
from pgig.vision.preprocess import Preprocess

Box = tuple[float, float, float, float]  # left, top, right, bottom, in pixels of the file


@dataclass(frozen=True)
class Masks:
    """By image, boxes or the name of a mask image."""

    digest: str
    boxes: Mapping[str, Sequence[Box]] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)  # without their endings -> mask images
    folder: ImageFolder | None = None

    @staticmethod
    def open(path: Path) -> "Masks":
        if path.is_file() and path.suffix.lower() == ".csv":
            return Masks(digest_of_file(path.read_bytes()), boxes=_read_boxes(path))
        try:
            folder = ImageFolder.open(path)
        except PgigError as error:
            raise PgigError(f"masks: {error}") from error
        contents = (f"{name} {digest_of_file(folder.read(name))}" for name in folder.names)
        return Masks(digest_of("\n".join(contents)), files={_stem(n): n for n in folder.names}, folder=folder)

    def check(self, names: Sequence[str]) -> None:
        known = self.files or self.boxes
        if missing := [name for name in names if _key(name, known, stems=bool(self.files)) is None]:
            raise PgigError(f"no mask for {missing[0]}", lacks="masks")

    def mask(self, name: str, content: bytes, preprocess: Preprocess) -> Tensor:  # [size, size] bool
        """Where the object is on the image that the model sees."""
        if self.folder is not None:
            file = self.files[str(_key(name, self.files, stems=True))]
            source = BytesIO(self.folder.read(file))
        else:
            source = _drawn(self.boxes[str(_key(name, self.boxes, stems=False))], content, name, preprocess)
        shown = replace(preprocess, interpolation="nearest").pixels(source, f"mask of {name}").amax(0)
        mask = shown > shown.max() / 2  # JPEG leaves a little everywhere
        if not bool(mask.any()):
            raise PgigError("no pixel of its mask is on the part of the image that the model sees")
        return mask


def _read_boxes(path: Path) -> dict[str, list[Box]]:
    found: dict[str, list[Box]] = {}
    try:
        rows = [row for row in csv.reader(StringIO(read_text(path).removeprefix("\ufeff"), newline="")) if row]
        for row in rows[0 if rows and is_number(rows[0][1]) else 1 :]:
            left, top, right, bottom = (float(number) for number in row[1:5])
            if not (left < right and top < bottom):
                raise ValueError(f"the box of {row[0]} is empty")
            found.setdefault(row[0].strip(), []).append((left, top, right, bottom))
    except (OSError, ValueError, IndexError, csv.Error) as error:
        raise PgigError(
            f"cannot read boxes from {path}: expected lines of file,left,top,right,bottom ({error})"
        ) from error
    return found


def _drawn(boxes: Sequence[Box], content: bytes, name: str, preprocess: Preprocess) -> BytesIO:
    """A mask image of boxes, as large as the image."""
    width, height = read_image(BytesIO(content), name, preprocess.max_pixels).size
    mask = numpy.zeros((height, width), dtype=numpy.uint8)
    for left, top, right, bottom in boxes:
        mask[max(0, round(top)) : max(0, round(bottom)), max(0, round(left)) : max(0, round(right))] = 255
    buffer = BytesIO()
    Image.fromarray(mask).save(buffer, format="PNG")
    buffer.seek(0)
    return buffer


def _stem(name: str) -> str:
    return PurePosixPath(name).with_suffix("").as_posix()


def _key(name: str, known: Mapping[str, object], *, stems: bool) -> str | None:
    """The whole path counts more than the bare name."""
    whole = _stem(name) if stems else name
    return next((key for key in (whole, whole.rpartition("/")[2]) if key in known), None)
