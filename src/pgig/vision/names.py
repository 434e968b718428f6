"""The names of models, without what they stand for: quick to look up."""

VGGS = tuple(f"vgg{depth}{norm}" for norm in ("", "_bn") for depth in (11, 13, 16, 19))
SQUEEZENETS = "squeezenet1_0", "squeezenet1_1"
RESNETS = "resnet18", "resnet34", "resnet50"
EFFICIENTNET_LITES = tuple(f"efficientnet_lite{number}" for number in range(5))
MODEL_NAMES = *VGGS, *SQUEEZENETS, *RESNETS, *EFFICIENTNET_LITES
PACKAGED = EFFICIENTNET_LITES[:3]  # those whose ImageNet weights are a package of their own
DEFAULT_MODEL = "efficientnet_lite0"


def is_elsewhere(model: str) -> bool:
    """Is it another package's?"""
    return model.startswith(("timm:", "hf:"))


def is_factory(model: str) -> bool:
    """Does a model's name say which code of the caller's makes it?"""
    return ":" in model and not is_elsewhere(model)
