"""Options that several commands have, in groups."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import torch
import typer

from pgig.degradation import Protocol
from pgig.degradation.protocol import Departure, Order
from pgig.errors import PgigError
from pgig.patterns.patterns import Patterns
from pgig.vision import MODELS, Preprocess
from pgig.vision.decoding import MAX_PIXELS
from pgig.vision.models import default_preprocess

Model = Annotated[
    str,
    typer.Option(
        help=f"One of {', '.join(MODELS)}; or `timm:NAME`, `hf:NAME`; or `module:factory`, your own callable."
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        help="A safetensors or .pth file, a URL, `default` (published ones, downloaded or of a package), `random`, or "
        "the published VGG-16 as .npz, which also sets its preprocessing."
    ),
]
Size = Annotated[int | None, typer.Option(help="Side of the centre crop; without, the model's own, mostly 224.")]
Threads = Annotated[
    int | None, typer.Option(help="Of torch; without, its own choice.", callback=lambda value: set_threads(value))
]
_MOST_THREADS = 512  # far more end torch itself


def set_threads(number: int | None) -> int | None:
    if number is not None:
        if not 1 <= number <= _MOST_THREADS:
            raise PgigError(f"threads must be from 1 to {_MOST_THREADS}, got {number}")
        torch.set_num_threads(number)
    return number


@dataclass(frozen=True)
class ModelOptions:
    model: Model
    weights: Weights = None


@dataclass(frozen=True)
class PreprocessOptions:
    """How image files become what the model takes."""

    size: Size = None
    resize: Annotated[
        int | None, typer.Option(help="Short side before the crop; without, the model's own, mostly 256.")
    ] = None
    mean: Annotated[
        str | None, typer.Option(help="Three numbers for values in 0..1, comma between; without, the model's own.")
    ] = None
    std: Annotated[str | None, typer.Option(help="Likewise.")] = None
    channels: Annotated[str | None, typer.Option(help="`RGB` (without) or `BGR`.")] = None
    max_pixels: Annotated[int, typer.Option(help="Images of more pixels are refused, for the sake of memory.")] = (
        MAX_PIXELS
    )

    def preprocess(self, model: str, weights: str | None) -> Preprocess:
        """What is not given is as the model and its weights have it."""
        default = default_preprocess(model, weights)
        return Preprocess(
            size=default.size if self.size is None else self.size,
            resize=default.resize if self.resize is None else self.resize,
            mean=default.mean if self.mean is None else _three(self.mean, "mean"),
            std=default.std if self.std is None else _three(self.std, "std"),
            channels=default.channels if self.channels is None else self.channels,  # type: ignore[arg-type]
            max_pixels=self.max_pixels,
        )


@dataclass(frozen=True)
class MethodOptions:
    """Who explains what."""

    methods: Annotated[
        str,
        typer.Option(
            help="Names, comma between (`pgig methods`); `all`: the paper's ten and random; also `occlusion`, variants "
            "such as `pgig+start=one`, and `module:name` for your own."
        ),
    ] = "all"
    patterns: Annotated[Path | None, typer.Option(help="Patterns of this model (safetensors).")] = None
    force: Annotated[bool, typer.Option("--force", help="Use patterns of other weights all the same.")] = False
    references: Annotated[
        Path | None, typer.Option(help="Images for expected_gradients; without, the other images.")
    ] = None
    score: Annotated[str, typer.Option(help="`probability` or `logit`.")] = "probability"
    seed: Annotated[int, typer.Option(help="Of all random draws.")] = 0

    def read_patterns(self) -> Any:
        """A plain dict where they are to be used for other weights too."""
        if self.patterns is None:
            return None
        found = Patterns.load(self.patterns)
        return dict(found) if self.force else found


@dataclass(frozen=True)
class ProtocolOptions:
    """How patches are ranked and replaced."""

    patch: Annotated[int, typer.Option(help="Side of a patch, in pixels.")] = 9
    steps: Annotated[int, typer.Option(help="Scores to take, each after more patches are replaced.")] = 100
    patches_per_step: Annotated[int, typer.Option(help="Patches to replace between two scores.")] = 1
    order: Annotated[str, typer.Option(help=", ".join(f"`{name}`" for name in get_args(Order)))] = "descending"
    fill: Annotated[str, typer.Option(help="`mean` (of the patch), `image_mean`, `blur`, `road`, or a number.")] = (
        "mean"
    )
    protocol: Annotated[
        str, typer.Option(help=f"{', '.join(f'`{name}`' for name in get_args(Departure))}: the released code's way.")
    ] = "paper"

    def as_protocol(self) -> Protocol:
        return Protocol(
            patch=self.patch,
            steps=self.steps,
            patches_per_step=self.patches_per_step,
            order=self.order,  # type: ignore[arg-type]
            fill=self.fill,
            departure=self.protocol,  # type: ignore[arg-type]
        )


@dataclass(frozen=True)
class ExecutionOptions:
    """Where and how a run is worked on; none of it changes the result, to rounding."""

    evaluator: Annotated[
        str, typer.Option(help="`dense`: whole forward passes; `incremental`: only what a patch reaches; or `auto`.")
    ] = "auto"
    workers: Annotated[int, typer.Option(help="Processes; torch's threads are divided among them.")] = 1
    batch_size: Annotated[
        int | None, typer.Option(help="Images, or pairs of image and method, at once; without, what memory allows.")
    ] = None
    memory: Annotated[
        float | None, typer.Option(help="GB for kept activations; without, a quarter of what is free.")
    ] = None
    threads: Threads = None


def regime_of(text: str) -> Any:
    if "=" not in text:
        return text
    pairs = [part.split("=") for part in text.split(",")]
    if any(len(pair) != 2 for pair in pairs):
        raise PgigError(f"--regime needs one name, or layer=regime with commas between, got {text!r}")
    return {layer.strip(): name.strip() for layer, name in pairs}


def _three(text: str, what: str) -> tuple[float, float, float]:
    try:
        one, two, three = (float(number) for number in text.split(","))
    except ValueError:
        raise PgigError(f"--{what} needs three numbers with commas between, got {text!r}") from None
    return one, two, three
