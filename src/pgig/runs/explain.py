"""Explaining image files: predictions, heat maps, arrays."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn

from pgig.drawing.figures import show
from pgig.drawing.heatmaps import heatmap
from pgig.errors import PgigError
from pgig.explainers.registry import explain_all, explainers, needs_patterns, needs_references
from pgig.files import read_text, written
from pgig.methods.table import METHODS, PAPER_METHODS
from pgig.network.trace import trace
from pgig.vision.image_folder import ImageFolder
from pgig.vision.models import output_for
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
    taken: set[str] = set()

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
        return read_text(path).splitlines()
    except UnicodeDecodeError as error:
        raise PgigError(f"class names in {path} are not UTF-8 text: {error}") from error


def chosen_methods(names: str, has_patterns: bool, has_references: bool) -> tuple[list[str], list[str]]:
    """The methods that `names` stands for ("a,b", or "all"), and a line for each that "all" had to leave out."""
    if names != "all":
        listed = [name.strip() for name in names.split(",") if name.strip()]
        for name, method in explainers(listed).items() if listed else ():
            if needs_patterns({name: method}) and not has_patterns:
                raise PgigError(f"{name} needs patterns: give --patterns FILE (pgig patterns makes one)")
            if needs_references({name: method}) and not has_references:
                raise PgigError(f"{name} needs references: give --references DIR, or several images")
        if not listed:
            raise PgigError("no method given: see pgig methods")
        return listed, []
    without_patterns = [n for n in PAPER_METHODS if METHODS[n].rule.needs_patterns and not has_patterns]
    left_out = []
    if without_patterns:
        left_out.append(f"left out: {', '.join(without_patterns)} (no --patterns FILE given)")
    if not has_references:
        left_out.append("left out: expected_gradients (give --references DIR, or several images)")
    skipped = {*without_patterns, *(() if has_references else ("expected_gradients",))}
    return [name for name in PAPER_METHODS if name not in skipped], left_out


def predictions(model: nn.Module, picture: Picture, most: int = 5) -> list[tuple[int, float]]:
    """The likeliest classes with their probabilities."""
    output = output_for(model, picture.x)
    if not isinstance(output, Tensor) or output.dim() != 2:
        raise PgigError("the model does not return one row of class scores per image")
    values, indices = output.softmax(1)[0].topk(min(most, output.shape[1]))
    return list(zip(indices.tolist(), values.tolist(), strict=True))


def has_relu(model: nn.Module, picture: Picture) -> bool:
    return any(step.treatment == "ReLU" for step in trace(model, picture.x).steps)


def explain_picture(
    model: nn.Module,
    picture: Picture,
    methods: Sequence[str],
    target: int,
    out: Path,
    references: Sequence[Tensor] = (),
    *,
    save_arrays: bool = False,
    progress: Callable[[int, int], object] | None = None,
    **options: Any,
) -> Mapping[str, Tensor]:
    """Attributions of one picture, written as heat maps, a sheet of all, and arrays if wished, to a folder of its own.

    Random draws go by the picture's name, so that they do not depend on what else is explained.
    """
    options["references"] = torch.cat(list(references)) if references else None
    attributions = explain_all(
        explainers(methods), model, picture.x, torch.tensor([target]), ids=[picture.name], progress=progress, **options
    )
    single = {name: a[0] for name, a in attributions.items()}
    folder = out / picture.name
    for name, attribution in single.items():
        with written(folder / f"{name}.png") as path:
            Image.fromarray(heatmap(attribution)).save(path)
    with written(folder / "sheet.png") as path:
        show(single, picture.pixels, path=path)
    if save_arrays:
        with written(folder / "attributions.safetensors") as path:
            save_file({name: a.contiguous() for name, a in single.items()}, path)
    return single


def _numbered(stem: str) -> Any:
    yield stem
    number = 2
    while True:
        yield f"{stem}-{number}"
        number += 1
