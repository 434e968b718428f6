"""Weights from a file or a URL; never unpickled."""

import warnings
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlparse
from urllib.request import url2pathname

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from pgig.errors import PgigError
from pgig.vision.published import read_published_weights

_TORCHVISION = "https://download.pytorch.org/models/"
_DEFAULT_FILES = {  # the eight digits are the beginning of the file's SHA-256
    "vgg11": "vgg11-8a719046.pth",
    "vgg13": "vgg13-19584684.pth",
    "vgg16": "vgg16-397923af.pth",
    "vgg19": "vgg19-dcbb9e9d.pth",
    "vgg11_bn": "vgg11_bn-6002323d.pth",
    "vgg13_bn": "vgg13_bn-abd245e5.pth",
    "vgg16_bn": "vgg16_bn-6c64b313.pth",
    "vgg19_bn": "vgg19_bn-c79401a0.pth",
    "squeezenet1_0": "squeezenet1_0-b66bff10.pth",
    "squeezenet1_1": "squeezenet1_1-b8a52dc0.pth",
    "resnet18": "resnet18-f37072fd.pth",
    "resnet34": "resnet34-b627a593.pth",
    "resnet50": "resnet50-0676ba61.pth",
}


def read_weights(source: str, model: str | None = None) -> dict[str, Tensor]:
    """A state dict from a safetensors or .pth file, a URL, or `default`, torchvision's weights for a named model."""
    if source == "default":
        if model not in _DEFAULT_FILES:
            raise PgigError("'default' weights exist for the named models only: give a file or a URL")
        source = _TORCHVISION + _DEFAULT_FILES[model]
    try:
        scheme = urlparse(source).scheme
    except ValueError as error:
        raise PgigError(f"{source!r} is no address: {error}") from error
    if scheme == "file":
        return _read_file(Path(url2pathname(urlparse(source).path)))
    if scheme in ("http", "https"):
        path = _downloaded(source)
        try:
            return _read_file(path)
        except PgigError:
            path.unlink(missing_ok=True)  # or it would be taken again next time
            raise
    return _read_file(Path(source))


def load_weights(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Copy `state` into `model`; every name and shape must agree.

    Raises PgigError where they do not, which names some of what is missing or too much.

    >>> model = torch.nn.Linear(2, 3)
    >>> pgig.vision.load_weights(model, {"weight": torch.ones(3, 2), "bias": torch.zeros(3)})
    >>> float(model.weight.detach().sum())
    6.0
    """
    own = model.state_dict()
    wanted = {name: tuple(tensor.shape) for name, tensor in own.items()}
    # older files lack this counter, which is not used in eval mode
    wanted = {name: shape for name, shape in wanted.items() if name in state or "num_batches_tracked" not in name}
    found = {name: tuple(tensor.shape) for name, tensor in state.items()}
    if all(name.startswith("module.") for name in found) and found:
        raise PgigError("these weights were saved from DataParallel: take 'module.' off the beginning of their names")
    if wrong := sorted(wanted.keys() ^ found.keys()):
        kind = "are missing" if wrong[0] in wanted else "do not belong to this model"
        raise PgigError(f"these weights are for another model: {len(wrong)} names differ, {wrong[0]!r} ... {kind}")
    for name, shape in wanted.items():
        if found[name] != shape:
            raise PgigError(f"these weights are for another model: {name!r} has shape {found[name]}, expected {shape}")
        _check_dtype(name, state[name].dtype, own[name].dtype)
    model.load_state_dict(dict(state), strict=False)


def _check_dtype(name: str, found: torch.dtype, expected: torch.dtype) -> None:
    """Copying would turn one kind of number into another without a word."""
    if found == expected or {found, expected} <= _FLOATS:
        return
    raise PgigError(f"the weights {name!r} are {found}, and the model's {expected}: these are not plain weights")


_FLOATS = {torch.float16, torch.bfloat16, torch.float32, torch.float64}


def _downloaded(url: str) -> Path:
    folder = Path(torch.hub.get_dir()) / "checkpoints"
    is_default = url.startswith(_TORCHVISION)
    name = Path(urlparse(url).path).name
    # torchvision's names are unique; others get their address into the name
    path = folder / (name if is_default else f"{blake2b(url.encode(), digest_size=6).hexdigest()}-{name}")
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        hash_prefix = path.stem.rpartition("-")[2] if is_default else None
        try:
            torch.hub.download_url_to_file(url, str(path), hash_prefix, progress=True)
        except (URLError, OSError, RuntimeError) as error:
            raise PgigError(f"cannot download {url}: {error}") from error
    return path


def _read_file(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise PgigError(f"no weights file at {path}")
    if path.suffix == ".npz":
        return read_published_weights(path)
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch remarks on odd files; they are refused below
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a broken file can break its reader in any way
        raise PgigError(
            f"cannot read weights from {path}: expected a safetensors file, or a .pth file that holds tensors by name "
            "and nothing else (no pickled objects)"
        ) from error
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict) or not all(_is_entry(name, tensor) for name, tensor in state.items()):
        raise PgigError(f"{path} holds no state dict (parameter name -> dense tensor)")
    return dict(state)


def _is_entry(name: object, tensor: object) -> bool:
    return isinstance(name, str) and isinstance(tensor, Tensor) and tensor.layout == torch.strided
