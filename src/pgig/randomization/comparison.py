"""Weight randomisation (Adebayo et al. 2018): do attributions change when layers forget what they learnt?"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from pgig.draws import draws
from pgig.errors import PgigError
from pgig.explainers.protocol import Explainer
from pgig.explainers.together import explain_group, needing_patterns, needing_references
from pgig.measures.similarity import spearman, ssim
from pgig.network.trace import trace
from pgig.patterns.patterns import Patterns
from pgig.subject.context import Context
from pgig.subject.scores import Score
from pgig.subject.subject import Subject

Mode = Literal["cascading", "independent"]
# what becomes of the patterns of a model whose weights change: a question each
PatternsOf = Literal["frozen", "anew", ""]
Key = tuple[str, str, PatternsOf]  # image, method, patterns


@dataclass(frozen=True)
class Stage:
    """A model with some layers randomised."""

    mode: Mode
    number: int  # from the top, beginning with 1
    layer: str  # the one that was reached
    layers: tuple[str, ...]  # those that are randomised

    @property
    def name(self) -> str:
        return f"{self.mode}-{self.number:03d}"


@dataclass(frozen=True)
class Row:
    """How alike an image's attributions by the model and by the randomised model are."""

    image: str
    method: str
    patterns: PatternsOf
    spearman: float  # of attributions, summed over channels
    spearman_absolute: float  # of their magnitudes
    ssim: float


def layers_from_the_top(model: nn.Module, x: Tensor) -> list[str]:
    """The layers with weights in the order of their calls, the last first."""
    found = list(trace(model, x).layers)
    if not found:
        raise PgigError("the model has no convolution or linear layer to randomise")
    return found[::-1]


def stages_of(layers: Sequence[str], modes: Sequence[Mode], most: int | None = None) -> list[Stage]:
    """Every layer, or `most` of them evenly spread, the first and the last among them."""
    if not modes:
        raise PgigError(f"no mode given; choose one of: {', '.join(get_args(Mode))}")
    if unknown := set(modes) - set(get_args(Mode)):
        raise PgigError(f"unknown mode {sorted(unknown)[0]!r}; choose one of: {', '.join(get_args(Mode))}")
    if most is not None and most < 1:
        raise PgigError(f"at least one layer must be randomised, got {most}")
    count = len(layers) if most is None else min(most, len(layers))
    places = [round(n * (len(layers) - 1) / max(1, count - 1)) for n in range(count)]
    return [
        Stage(mode, place + 1, layers[place], tuple(layers[: place + 1] if mode == "cascading" else [layers[place]]))
        for mode in modes
        for place in places
    ]


def randomised(model: nn.Module, layers: Sequence[str], seed: int = 0) -> nn.Module:
    """A copy whose named layers have new weights and biases: normal, with the standard deviation of the old."""
    copied = copy.deepcopy(model)
    for name in layers:
        for parameter in _parameters(copied, name):
            spread = float(parameter.detach().std()) if parameter.numel() > 1 else float(parameter.detach().abs())
            generator = draws(seed, f"{name} {tuple(parameter.shape)}", "randomised weights")(0)
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            with torch.no_grad():
                parameter.copy_(spread * noise)
    return copied


@dataclass(frozen=True)
class Asked:
    """Which methods explain which images, and where pattern methods have their patterns from."""

    table: Mapping[str, Explainer]
    images: Mapping[str, Tensor]  # name -> [1, channels, height, width]
    targets: Mapping[str, int]  # the classes that the model itself predicts
    patterns: Patterns | None = None  # of the model itself
    estimate: Callable[[nn.Module], Mapping[str, Tensor]] | None = None
    seed: int = 0
    score: Score = "probability"
    black: Tensor | None = None  # what a black pixel is to the model

    def maps(self, model: nn.Module) -> Iterator[tuple[Key, Tensor]]:
        """Attributions summed over channels, [height, width], image by image.

        Pattern methods are asked twice: with the patterns frozen, and with patterns estimated anew for the weights
        that `model` has, where `estimate` says how.
        """
        with_patterns = {name: self.table[name] for name in needing_patterns(self.table)}
        without = {name: e for name, e in self.table.items() if name not in with_patterns}
        groups: list[tuple[PatternsOf, Mapping[str, Explainer], Mapping[str, Tensor] | None]] = []
        if without:
            groups.append(("", without, None))
        if with_patterns and self.patterns is not None:
            groups.append(("frozen", with_patterns, dict(self.patterns)))
        if with_patterns and self.estimate is not None:
            groups.append(("anew", with_patterns, self.estimate(model)))
        for image in self.images:
            for kind, methods, given in groups:
                for method, attribution in self._explained(model, image, methods, given).items():
                    yield (image, method, kind), attribution[0].sum(0)

    def _explained(
        self, model: nn.Module, image: str, table: Mapping[str, Explainer], patterns: Mapping[str, Tensor] | None
    ) -> dict[str, Tensor]:
        """References are the other images."""
        others = [x for other, x in self.images.items() if other != image]
        references = torch.cat(others) if others and needing_references(table) else None
        context = Context(score=self.score, seed=self.seed, ids=[image], references=references, black=self.black)
        target = torch.tensor([self.targets[image]])
        return explain_group(table, Subject(model, patterns), self.images[image], target, context)


def compare_randomised(asked: Asked, model: nn.Module, stage: Stage, originals: Mapping[Key, Tensor]) -> Iterator[Row]:
    """Rows for every image and method; originals are the maps of the model itself, each by the same kind of patterns,
    so that patterns estimated anew are compared with patterns of the same images.
    """
    for key, now in asked.maps(randomised(model, stage.layers, asked.seed)):
        before = originals[key]
        yield Row(*key, spearman(before, now), spearman(before.abs(), now.abs()), ssim(before, now))


def _parameters(model: nn.Module, layer: str) -> list[nn.Parameter]:
    """The weight of a layer by its name, and its bias."""
    known = dict(model.named_parameters(remove_duplicate=False))
    found = [known[name] for name in (f"{layer}.weight", layer, f"{layer}.bias") if name in known]
    if not found:
        raise PgigError(f"the layer {layer} has no parameter of its own to randomise")
    return found
