"""Models by name, or from the caller's own factory."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from pgig.errors import PgigError
from pgig.network.checks import check_finite, check_usable
from pgig.network.outputs import answer_of
from pgig.plugins import imported
from pgig.vision.architectures.efficientnet_lite import SCALES, efficientnet_lite
from pgig.vision.architectures.resnet import resnet
from pgig.vision.architectures.squeezenet import squeezenet
from pgig.vision.architectures.vgg import vgg
from pgig.vision.efficientnet_files import packaged_weights, preprocess_of, renamed
from pgig.vision.elsewhere import load_elsewhere, preprocess_elsewhere
from pgig.vision.names import EFFICIENTNET_LITES, PACKAGED, RESNETS, SQUEEZENETS, VGGS, is_elsewhere, is_factory
from pgig.vision.preprocess import Preprocess, example
from pgig.vision.published import PUBLISHED_PREPROCESS
from pgig.vision.weights import load_weights, read_weights

MODELS: Mapping[str, Callable[[str, int], nn.Module]] = {
    **dict.fromkeys(VGGS, vgg),
    **dict.fromkeys(SQUEEZENETS, squeezenet),
    **dict.fromkeys(RESNETS, resnet),
    **dict.fromkeys(EFFICIENTNET_LITES, efficientnet_lite),
}
_LAST_LAYER = {"vgg": "classifier.6.weight", "squeezenet": "classifier.1.weight", "resnet": "fc.weight",
               "efficientnet": "classifier.weight"}  # fmt: skip


def load_model(model: str, weights: str | None = None) -> nn.Module:
    """A model in eval mode.

    model: a name out of `MODELS`, `timm:NAME`, `hf:NAME` (a name or a folder), or `module:factory`, a callable without
        arguments that returns a module. Only ever take the latter from the person at the keyboard: it runs code.
    weights: a file, a URL, `default` (torchvision's, by torch.hub; a package's, also without being asked) or, for a
        named model, `random`.

    Raises PgigError for a name that there is not, and for weights that cannot be read or do not fit.

    >>> pgig.vision.load_model("squeezenet1_0", "random").training
    False
    """
    if is_elsewhere(model):
        return _checked(load_elsewhere(model, weights).eval())
    if is_factory(model):
        module = _from_factory(model)
        if weights not in (None, "random"):
            load_weights(module, read_weights(weights))
        return _checked(module.eval())
    if model not in MODELS:
        raise PgigError(
            f"unknown model {model!r}; known: {', '.join(MODELS)}, timm:NAME, hf:NAME, or module:factory for your own"
        )
    if weights is None and model in PACKAGED:
        weights = "default"
    if weights is None:
        raise PgigError(f"{model} needs weights: give a file or a URL, 'default' for the published ones, or 'random'")
    if weights == "random":
        return MODELS[model](model, 1000).eval()
    if model in SCALES:
        state = renamed(model, read_weights(str(packaged_weights(model)) if weights == "default" else weights))
    else:
        state = read_weights(weights, model)
    module = MODELS[model](model, _classes(model, state))
    load_weights(module, state)
    return _checked(module.eval())


def model_with(model: str, state: Mapping[str, Tensor]) -> nn.Module:
    """A model of this name, as `load_model` makes it, with weights that are there already."""
    if is_elsewhere(model):
        module = load_elsewhere(model, "random")
    elif is_factory(model):
        module = _from_factory(model)
    else:
        module = MODELS[model](model, _classes(model, state))
    load_weights(module, state)
    return _checked(module.eval())


def default_preprocess(model: str, weights: str | None) -> Preprocess:
    """As a model, or its weights, want images.

    model, weights: as for `load_model`. A name that is not known gets ImageNet's usual; of `timm:` and `hf:`, one that
    there is not raises PgigError.

    >>> pgig.vision.default_preprocess("squeezenet1_0", None).size
    224
    """
    if weights and weights.endswith(".npz"):
        return PUBLISHED_PREPROCESS
    if is_elsewhere(model):
        return preprocess_elsewhere(model)
    return preprocess_of(model) if model in SCALES else Preprocess()


def _checked(model: nn.Module) -> nn.Module:
    check_usable(model)
    check_finite(model)
    return model


def _classes(model: str, state: Mapping[str, Tensor]) -> int:
    last = next(name for family, name in _LAST_LAYER.items() if model.startswith(family))
    return len(state[last]) if last in state and state[last].dim() > 0 else 1000


def check_image(model: nn.Module, size: int) -> None:
    """Refuse a model that cannot take images of this size."""
    if size < 1:
        raise PgigError(f"size must be at least 1, got {size}")
    _returned(model, example(size))


def output_for(model: nn.Module, x: Tensor) -> Tensor:
    return answer_of(_returned(model, x))


def _returned(model: nn.Module, x: Tensor) -> Any:
    try:
        with torch.no_grad():
            return model(x.clone())  # it may write to what it is given
    except Exception as error:
        reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        raise PgigError(f"the model failed on an image of shape {tuple(x.shape)}: {reason}") from error


def classes_of(model: nn.Module, size: int) -> int:
    """How many classes a model tells apart."""
    output = output_for(model, example(size))
    if output.dim() != 2 or len(output) != 1:
        raise PgigError("the model does not return one row of class scores per image")
    return output.shape[1]


def _from_factory(path: str) -> nn.Module:
    factory = imported(path, "a model")
    try:
        model = factory()
    except (Exception, SystemExit) as error:
        raise PgigError(f"cannot make a model with {path!r}: {type(error).__name__}: {error}") from error
    if not isinstance(model, nn.Module):
        raise PgigError(f"{path!r} returned a {type(model).__name__}, expected a torch.nn.Module")
    return model
