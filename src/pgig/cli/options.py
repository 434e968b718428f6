"""Options that several commands have, in groups."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgig.cli.terminal import errors
from pgig.errors import PgigError
from pgig.vision.names import DEFAULT_MODEL, MODEL_NAMES

if TYPE_CHECKING:  # what needs torch is imported where it is used: help is quick
    from collections.abc import Callable

    from torch import nn

    from pgig.degradation.protocol import Protocol
    from pgig.vision.preprocess import Preprocess

Model = Annotated[
    str,
    typer.Option(
        help=f"One of {', '.join(MODEL_NAMES)}; or `timm:NAME`, `hf:NAME`; or `module:factory`, your own callable."
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        help="A safetensors or .pth file, a URL, `default` (published ones, downloaded or of a package; of a package "
        "without being asked), `random`, or the published VGG-16 as .npz, which also sets its preprocessing."
    ),
]
Images = Annotated[
    str,
    typer.Option(
        help="Folder of images, flat or one level per class; a zip or tar file, or a folder of such; or an address of "
        "one, such as `s3://bucket/photos`."
    ),
]
Size = Annotated[int | None, typer.Option(help="Side of the centre crop; without, the model's own, mostly 224.")]
Threads = Annotated[
    int | None, typer.Option(help="Of torch; without, its own choice.", callback=lambda value: set_threads(value))
]
PatternsOption = Annotated[
    str,
    typer.Option(
        help="A file (safetensors); `auto`: the newest of these weights that `pgig patterns` kept, or those that come "
        "with pgig; `auto:REGIME`, of a regime; `none`."
    ),
]
_MOST_THREADS = 512  # far more end torch itself


def check_apart(out: Path, images: str) -> None:
    if "://" not in images and out.resolve() == Path(images).resolve():
        raise PgigError("--out is the folder of the images: give another")


def set_threads(number: int | None) -> int | None:
    if number is not None:
        if not 1 <= number <= _MOST_THREADS:
            raise PgigError(f"threads must be from 1 to {_MOST_THREADS}, got {number}")
        import torch

        torch.set_num_threads(number)
    return number


def patterns_file(patterns: str, load_model: "Callable[[], nn.Module]") -> Path | None:
    """Which file holds the patterns that an option stands for; and a word on it where it was found, not given."""
    word, _, regime = patterns.partition(":")
    if word == "none":
        return None
    if word != "auto":
        return Path(patterns)
    from pgig.patterns.kept import find_file

    found = find_file(load_model(), regime or None)
    if found is not None:
        errors.print(f"patterns: {found.source}", highlight=False, soft_wrap=True)
    elif regime:
        raise PgigError(f"no patterns of these weights with the regime {regime!r} are kept on this machine")
    return None if found is None else found.path


@dataclass(frozen=True)
class ModelOptions:
    model: Model = DEFAULT_MODEL
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
    max_pixels: Annotated[
        int | None,
        typer.Option(help="Images of more pixels are refused, for the sake of memory; without, 150 million."),
    ] = None

    def preprocess(self, model: str, weights: str | None) -> "Preprocess":
        """What is not given is as the model and its weights have it."""
        from pgig.vision.models import default_preprocess
        from pgig.vision.preprocess import Preprocess

        default = default_preprocess(model, weights)
        return Preprocess(
            size=default.size if self.size is None else self.size,
            resize=default.resize if self.resize is None else self.resize,
            mean=default.mean if self.mean is None else _three(self.mean, "mean"),
            std=default.std if self.std is None else _three(self.std, "std"),
            channels=default.channels if self.channels is None else self.channels,  # type: ignore[arg-type]
            max_pixels=default.max_pixels if self.max_pixels is None else self.max_pixels,
        )


@dataclass(frozen=True)
class MethodOptions:
    """Who explains what."""

    methods: Annotated[
        str,
        typer.Option(
            help="Names, comma between (`pgig methods`); `all`: the paper's ten and random; `quick`: five that tell "
            "much and take little; variants such as `pgig+start=one`, and `module:name` for your own."
        ),
    ] = "all"
    patterns: PatternsOption = "auto"
    force: Annotated[bool, typer.Option("--force", help="Use patterns of other weights all the same.")] = False
    references: Annotated[
        Path | None, typer.Option(help="Images for expected_gradients; without, the other images.")
    ] = None
    score: Annotated[str, typer.Option(help="`probability` or `logit`.")] = "probability"
    seed: Annotated[int, typer.Option(help="Of all random draws.")] = 0


@dataclass(frozen=True)
class ProtocolOptions:
    """How patches are ranked and replaced."""

    patch: Annotated[int, typer.Option(help="Side of a patch, in pixels.")] = 9
    steps: Annotated[int, typer.Option(help="Scores to take, each after more patches are replaced.")] = 100
    patches_per_step: Annotated[int, typer.Option(help="Patches to replace between two scores.")] = 1
    order: Annotated[str, typer.Option(help="`descending`, `ascending` or `random`.")] = "descending"
    fill: Annotated[str, typer.Option(help="`mean` (of the patch), `image_mean`, `blur`, `road`, or a number.")] = (
        "mean"
    )
    protocol: Annotated[
        str,
        typer.Option(
            help="`paper`; or the released code's way: `released`, or half of it, `skip_top` or `positive_channels`."
        ),
    ] = "paper"

    def as_protocol(self) -> "Protocol":
        from pgig.degradation.protocol import Protocol

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
