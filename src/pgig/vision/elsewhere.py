"""Models of other packages by name, `timm:NAME` and `hf:NAME`, with their preprocessing; imported when asked for."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from torch import nn

from pgig.errors import PgigError
from pgig.vision.preprocess import Preprocess
from pgig.vision.weights import load_weights, read_weights

T = TypeVar("T")


def load_elsewhere(model: str, weights: str | None) -> nn.Module:
    """weights: `default`, what the package publishes; `random`; or a file of the package's own names."""
    source, _, name = model.partition(":")
    if weights is None:
        weights = "default" if source == "hf" else None
    if weights is None:
        raise PgigError(f"{model} needs weights: give a file, 'default' for those that timm publishes, or 'random'")
    made = _timm_model(name, weights) if source == "timm" else _hf_model(name, weights)
    if weights not in ("default", "random"):
        load_weights(made, read_weights(weights))
    return made


def preprocess_elsewhere(model: str) -> Preprocess:
    """As the model's configuration says; what it does not say is ImageNet's."""
    source, _, name = model.partition(":")
    return _timm_preprocess(name) if source == "timm" else _hf_preprocess(name)


def _package(name: str, extra: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise PgigError(f"this model needs the package {name}: pip install 'pgig[{extra}]'") from error
    except (ImportError, RuntimeError) as error:  # a torchvision that does not fit torch ends its import
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise PgigError(f"{name} cannot be imported: {reason}") from error


def _timm_model(name: str, weights: str) -> nn.Module:
    timm: Any = _package("timm", "timm")
    if name not in timm.list_models() and not timm.is_model(name.split(".")[0]):
        near = ", ".join(timm.list_models(f"*{name.split('_')[0]}*")[:4])
        raise PgigError(f"timm has no model {name!r}" + (f"; there are {near}, ..." if near else ""))
    made: nn.Module = _made(lambda: timm.create_model(name, pretrained=weights == "default"), f"timm:{name}")
    return made


def _timm_preprocess(name: str) -> Preprocess:
    timm = _package("timm", "timm")
    config: Any = _made(lambda: timm.get_pretrained_cfg(name), f"timm:{name}")
    if config is None:
        return Preprocess()
    size = int(config.input_size[-1])
    known: dict[str, Any] = {key: tuple(map(float, getattr(config, key))) for key in ("mean", "std")}
    ways = {"bicubic": "bicubic", "nearest": "nearest"}
    known["interpolation"] = ways.get(str(config.interpolation), "bilinear")
    return Preprocess(size=size, resize=max(size, int(size / (config.crop_pct or 1))), **known)


def _hf_model(name: str, weights: str) -> nn.Module:
    transformers = _package("transformers", "hf")
    kind = transformers.AutoModelForImageClassification
    made: nn.Module
    if weights == "default":
        _check_image_classifier(transformers, name)
        made, report = _made(
            lambda: kind.from_pretrained(
                name, use_safetensors=True, trust_remote_code=False, output_loading_info=True
            ),
            f"hf:{name}",
        )  # fmt: skip
        lacking = [*report.get("missing_keys", ()), *(str(key) for key in report.get("mismatched_keys", ()))]
        if lacking:
            raise PgigError(
                f"the weights of hf:{name} are not those of its configuration: {len(lacking)} are missing or have "
                f"another shape, such as {lacking[0]!r}; they would be random"
            )
        return made
    config = _made(lambda: transformers.AutoConfig.from_pretrained(name, trust_remote_code=False), f"hf:{name}")
    made = _made(lambda: kind.from_config(config, trust_remote_code=False), f"hf:{name}")
    return made


def _check_image_classifier(transformers: Any, name: str) -> None:
    config = _made(lambda: transformers.AutoConfig.from_pretrained(name, trust_remote_code=False), f"hf:{name}")
    if type(config) not in transformers.AutoModelForImageClassification._model_mapping:
        raise PgigError(
            f"hf:{name} is a {config.model_type}, which is no image classifier: commands explain images; in Python, "
            "pgig.explain_tokens explains texts"
        )


def _hf_preprocess(name: str) -> Preprocess:
    transformers = _package("transformers", "hf")
    try:
        about, _ = transformers.ImageProcessingMixin.get_image_processor_dict(name)
    except (OSError, ValueError):  # it has none
        return Preprocess()
    try:
        return _read_preprocess(about)
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise PgigError(f"cannot read the preprocessing of hf:{name}: {error}") from error


def _read_preprocess(about: dict[str, Any]) -> Preprocess:
    if not about.get("do_rescale", True):
        raise ValueError("its values are not in 0..1")
    side = _side(about.get("size"))
    size = _side(about.get("crop_size")) if about.get("do_center_crop") else side
    size = size or side or Preprocess().size
    share = about.get("crop_pct") or 1
    # some have no mean at all: values stay in 0..1
    normalises = about.get("do_normalize", about.get("image_mean") is not None)
    default: dict[str, Any] = {"mean": Preprocess().mean, "std": Preprocess().std}
    known = {key: tuple(map(float, about.get(f"image_{key}") or values)) for key, values in default.items()}
    known = known if normalises else {"mean": (0.0,) * 3, "std": (1.0,) * 3}
    resize = max(size, side or size, round(size / float(share)))
    order: Any = "BGR" if about.get("do_flip_channel_order") else "RGB"
    ways: dict[Any, Any] = {0: "nearest", 2: "bilinear", 3: "bicubic"}  # Pillow's numbers
    sized = about.get("size")
    squashed = isinstance(sized, dict) and "height" in sized and not about.get("do_center_crop") and share == 1
    return Preprocess(
        size=size, resize=resize, channels=order, interpolation=ways.get(about.get("resample"), "bilinear"),
        fit="squash" if squashed else "crop", **known,  # type: ignore[arg-type]
    )  # fmt: skip


def _side(size: Any) -> int | None:
    if isinstance(size, dict):
        size = size.get("height", size.get("shortest_edge"))
    return int(size) if isinstance(size, int) else None


def _made(make: Callable[[], T], name: str) -> T:
    try:
        return make()
    except Exception as error:  # packages fail in their own ways: no network, no such file, no safetensors in it
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        missing = "" if Path(name.partition(":")[2]).exists() else " (a folder of this name does not exist)"
        raise PgigError(f"cannot make {name}: {reason}{missing if name.startswith('hf:') else ''}") from error
