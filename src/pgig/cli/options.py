"""Options that several commands have, and reading them."""

from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from pgig.errors import PgigError
from pgig.patterns.patterns import Patterns
from pgig.vision import MODELS, Preprocess
from pgig.vision.decoding import MAX_PIXELS
from pgig.vision.published import PUBLISHED_PREPROCESS

Model = Annotated[
    str, typer.Option(help=f"One of {', '.join(MODELS)}; or `module:factory`, your own callable that returns a module.")
]
Weights = Annotated[
    str | None,
    typer.Option(
        help="A safetensors or .pth file, a URL, `default` (torchvision's, downloaded), `random`, or the published "
        "VGG-16 as .npz, which also sets its preprocessing."
    ),
]
Size = Annotated[int, typer.Option(help="Side of the centre crop.")]
Resize = Annotated[int, typer.Option(help="Short side before the crop.")]
Mean = Annotated[str | None, typer.Option(help="Three numbers for values in 0..1, comma between; without, ImageNet's.")]
Std = Annotated[str | None, typer.Option(help="Likewise.")]
MaxPixels = Annotated[int, typer.Option(help="Images of more pixels are refused, for the sake of memory.")]
Threads = Annotated[
    int | None, typer.Option(help="Of torch; without, its own choice.", callback=lambda value: set_threads(value))
]
Channels = Annotated[str | None, typer.Option(help="`RGB` (without) or `BGR`.")]


_MOST_THREADS = 512  # far more end torch itself


def set_threads(number: int | None) -> int | None:
    if number is not None:
        if not 1 <= number <= _MOST_THREADS:
            raise PgigError(f"threads must be from 1 to {_MOST_THREADS}, got {number}")
        torch.set_num_threads(number)
    return number


def preprocess_of(
    weights: str | None, size: int, resize: int, mean: str | None, std: str | None, channels: str | None,
    max_pixels: int = MAX_PIXELS,
) -> Preprocess:  # fmt: skip
    default = PUBLISHED_PREPROCESS if weights and weights.endswith(".npz") else Preprocess()
    return Preprocess(
        size, resize,
        default.mean if mean is None else _three(mean, "mean"),
        default.std if std is None else _three(std, "std"),
        default.channels if channels is None else channels,  # type: ignore[arg-type]
        max_pixels,
    )  # fmt: skip


def regime_of(text: str) -> Any:
    if "=" not in text:
        return text
    pairs = [part.split("=") for part in text.split(",")]
    if any(len(pair) != 2 for pair in pairs):
        raise PgigError(f"--regime needs one name, or layer=regime with commas between, got {text!r}")
    return {layer.strip(): name.strip() for layer, name in pairs}


def patterns_of(path: Path, force: bool) -> Any:
    found = Patterns.load(path)
    return dict(found) if force else found


def _three(text: str, what: str) -> tuple[float, float, float]:
    try:
        one, two, three = (float(number) for number in text.split(","))
    except ValueError:
        raise PgigError(f"--{what} needs three numbers with commas between, got {text!r}") from None
    return one, two, three
