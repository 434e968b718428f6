"""The embedded default: a small VGG-style classifier of the generated images, trained, inside the package."""

from importlib.resources import as_file, files
from typing import Literal, get_args

from safetensors.torch import load_file
from torch import Tensor, nn

from pgig.errors import PgigError
from pgig.synthetic.images import CLASSES

Variant = Literal["plain", "bn"]
_WIDTHS = 24, 32, 48, 64


class SmallVGG(nn.Module):
    """Convolutions with ReLU and pooling between, and two linear layers, as VGG has them; 64 x 64 images.

    variant: "plain", or "bn" with batch norm. Another raises PgigError.

    >>> pgig.synthetic.SmallVGG("bn").eval()(torch.rand(2, 3, 64, 64)).shape  # without weights: `embedded` has them
    torch.Size([2, 5])
    """

    def __init__(self, variant: Variant = "plain") -> None:
        super().__init__()
        if variant not in get_args(Variant):
            raise PgigError(f"unknown variant {variant!r}; choose 'plain' or 'bn'")
        layers: list[nn.Module] = []
        for before, width in zip((3, *_WIDTHS), _WIDTHS, strict=False):
            layers.append(nn.Conv2d(before, width, 3, padding=1))
            layers += [nn.BatchNorm2d(width)] if variant == "bn" else []
            layers += [nn.ReLU(inplace=True), nn.MaxPool2d(2)]
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Linear(_WIDTHS[-1] * 16, 64), nn.ReLU(inplace=True), nn.Linear(64, len(CLASSES))
        )

    def forward(self, x: Tensor) -> Tensor:  # [n, 3, 64, 64] -> [n, classes]
        scores: Tensor = self.classifier(self.features(x))
        return scores


def embedded(variant: Variant = "plain") -> SmallVGG:
    """The trained classifier, in eval mode.

    variant: "plain", or "bn" with batch norm. Another raises PgigError.

    >>> pgig.synthetic.embedded("bn")(torch.zeros(1, 3, 64, 64)).shape
    torch.Size([1, 5])
    """
    model = SmallVGG(variant)
    with as_file(files("pgig.synthetic") / f"{variant}.safetensors") as path:
        model.load_state_dict(load_file(path))
    return model.eval()
