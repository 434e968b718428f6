"""The pictures of a run of `explain`, read one after the other; of folders, those that can be read."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from torch import Tensor

from pgig.errors import PgigError
from pgig.vision.image_folder import DAMAGED
from pgig.vision.pictures import Picture, Source, find_sources
from pgig.vision.preprocess import Preprocess


class PictureQueue:
    """Reads the first two at once; of files that were named all, so that a mistake shows before work begins."""

    def __init__(self, images: Sequence[Path], preprocess: Preprocess) -> None:
        self._sources, self._preprocess = find_sources(images), preprocess
        self.count = len(self._sources)
        self.shown = {source.name: source.shown for source in self._sources}  # as the user knows them
        self.skipped: dict[str, str] = {}  # as the user knows it -> why
        self._known: dict[str, Picture] = {}
        for source in self._sources:
            if len(self._known) < 2 or not source.in_folder:
                picture = self._read(source)
                self._known |= {source.name: picture} if picture is not None else {}
        if not self._known:
            shown, reason = next(iter(self.skipped.items()))
            raise PgigError(f"none of the {self.count} images could be read; {shown}: {reason}")
        self.first = next(iter(self._known.values()))
        self.has_several = len(self._known) > 1

    def __iter__(self) -> Iterator[Picture]:
        for source in self._sources:
            picture = self._known.pop(source.name, None) or self._read(source)
            if picture is not None:
                yield picture

    def pool(self, most: int) -> dict[str, Tensor]:
        """Some pictures by name, to draw references from: of many, the first. What is damaged is said in its turn."""
        found: dict[str, Tensor] = {}
        skipped = dict(self.skipped)
        for source in self._sources:
            picture = self._known.get(source.name) or self._read(source)
            found |= {picture.name: picture.x} if picture is not None else {}
            if len(found) > most:
                break
        self.skipped.clear()
        self.skipped.update(skipped)
        return found

    def _read(self, source: Source) -> Picture | None:
        try:
            return source.picture(self._preprocess)
        except (PgigError, *DAMAGED) as error:
            if not source.in_folder:
                raise
            self.skipped[source.shown] = str(error).removeprefix(f"cannot read the image {source.shown}: ")
            return None
