"""Models by name, or from the caller's own factory."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from pgig.errors import PgigError
from pgig.network.checks import check_finite, check_usable
from pgig.network.outputs import answer_of
from pgig.plugins import imported
from pgig.vision.architectures.resnet import resnet
from pgig.vision.architectures.squeezenet import squeezenet
from pgig.vision.architectures.vgg import vgg
from pgig.vision.preprocess import example
from pgig.vision.weights import load_weights, read_weights

_VGG = tuple(f"vgg{depth}{norm}" for norm in ("", "_bn") for depth in (11, 13, 16, 19))
MODELS: Mapping[str, Callable[[str, int], nn.Module]] = {
    **dict.fromkeys(_VGG, vgg),
    **dict.fromkeys(("squeezenet1_0", "squeezenet1_1"), squeezenet),
    **dict.fromkeys(("resnet18", "resnet34", "resnet50"), resnet),
}
_LAST_LAYER = {"vgg": "classifier.6.weight", "squeezenet": "classifier.1.weight", "resnet": "fc.weight"}


def load_model(model: str, weights: str | None = None) -> nn.Module:
    """A model in eval mode.

    model: a name out of `MODELS`, or `module:factory`, a callable without arguments that returns a module. Only ever
        take the latter from the person at the keyboard: it runs code.
    weights: a file, a URL, `default` (torchvision's, by torch.hub) or, for a named model, `random`.
    """
    if ":" in model:
        module = _from_factory(model)
        if weights not in (None, "random"):
            load_weights(module, read_weights(weights))
        return _checked(module.eval())
    if model not in MODELS:
        raise PgigError(f"unknown model {model!r}; known: {', '.join(MODELS)}, or module:factory for your own")
    if weights is None:
        raise PgigError(f"{model} needs weights: give a file or a URL, 'default' for torchvision's, or 'random'")
    if weights == "random":
        return MODELS[model](model, 1000).eval()
    state = read_weights(weights, model)
    module = MODELS[model](model, _classes(model, state))
    load_weights(module, state)
    return _checked(module.eval())


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
    output_for(model, example(size))


def output_for(model: nn.Module, x: Tensor) -> Tensor:
    try:
        with torch.no_grad():
            output = model(x.clone())  # it may write to what it is given
    except Exception as error:
        reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        raise PgigError(f"the model failed on an image of shape {tuple(x.shape)}: {reason}") from error
    return answer_of(output)


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
