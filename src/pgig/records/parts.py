"""Parts: the pieces of a run, what they hold, and what every one of them must hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgig.errors import PgigError
from pgig.records.config import config_digest, number_of, read_config
from pgig.records.recorded_measures import measures_of

PART = 8  # images: parts are fixed by the image list alone


@dataclass(frozen=True)
class Part:
    number: int
    images: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"part-{self.number:06d}.parquet"


@dataclass(frozen=True)
class Finished:
    """What a part holds."""

    rows: list[dict[str, Any]]  # one per image, method and measure
    skipped: Mapping[str, str]  # images that could not be used, with reasons
    digests: Mapping[str, str | None]  # of the bytes of every image; None where they could not be read
    is_sealed: bool  # parts of earlier versions are not

    @property
    def images(self) -> set[str]:
        return {row["image"] for row in self.rows} | set(self.skipped)


@dataclass(frozen=True)
class Expected:
    """What every part of a run must hold, by its configuration."""

    count: int  # images
    methods: tuple[str, ...]
    lengths: Mapping[str, int | None]  # measure -> values of a record; None: any
    patches: int
    configuration: str  # its digest

    @staticmethod
    def of(folder: Path) -> "Expected":
        config = read_config(folder / "config.toml")
        methods = config["attributions"].get("methods")
        if not isinstance(methods, list) or not all(isinstance(method, str) for method in methods):
            raise PgigError(f"the configuration in {folder} is damaged: [attributions] has no list methods")
        count, size = number_of(config, folder, "images", "count"), number_of(config, folder, "images", "size")
        patch = number_of(config, folder, "attributions", "patch")
        lengths = {label: asked.length(size) for label, asked in measures_of(config, folder).items()}
        return Expected(count, tuple(methods), lengths, (size // patch) ** 2, config_digest(config))


def parts_of(images: Sequence[str]) -> list[Part]:
    return [Part(n, tuple(images[first : first + PART])) for n, first in enumerate(range(0, len(images), PART))]
