"""A network of the app: one for all visitors."""

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pgig.degradation.dense import Evaluator
from pgig.degradation.protocol import Protocol
from pgig.errors import PgigError
from pgig.explainers.registry import explainers, known_explainers
from pgig.explainers.together import needing_patterns, needing_references
from pgig.measures.evaluators import Wish, choose
from pgig.patterns.kept import read_patterns
from pgig.patterns.patterns import Patterns
from pgig.runs.explain import predictions
from pgig.subject.subject import Subject
from pgig.vision.classes import default_classes, name_of
from pgig.vision.models import classes_of, load_model, output_for
from pgig.vision.names import MODEL_NAMES
from pgig.vision.pictures import Picture, read_classes
from pgig.vision.preprocess import Preprocess, example

LIKELIEST = 5  # classes that are shown
_ACROSS = 14  # patches along the shorter side, when parts are removed
_SMALLEST = 4  # pixels
_SHARE = 0.5  # of the patches that can be removed
# while torch traces a model, in one thread, no model may run in another
_TRACING = threading.Lock()


@dataclass
class Network:
    """A model with its patterns, as the command line names them. `working` lets one computation in at a time."""

    model: str
    weights: str | None
    subject: Subject
    preprocess: Preprocess
    names: Sequence[str]
    patterns: Patterns | None
    classes: int
    given: str | None = None  # the file of patterns that was named, if one was
    forced: bool = False  # are its patterns of other weights?
    name: str = ""  # where several networks would have the same label
    working: threading.Lock = field(default_factory=threading.Lock)
    _evaluator: Evaluator | None = None

    @property
    def label(self) -> str:
        return self.name or (f"{self.model} ({Path(self.weights).name})" if self.weights else self.model)

    @property
    def methods(self) -> list[str]:
        """Those that can be asked here: all but what needs patterns or references that there are not."""
        return known_methods(self.patterns is not None)

    def picture(self, data: bytes, name: str, file: str | None = None) -> Picture:
        """An image file that a visitor gave; file: its name in full, for errors."""
        if not data:
            raise PgigError(f"{file or name} is empty")
        pixels = self.preprocess.pixels(BytesIO(data), file or name)
        return Picture(name, pixels, self.preprocess.normalise(pixels)[None])

    def likeliest(self, picture: Picture) -> list[tuple[int, float]]:
        with _TRACING:
            found = predictions(self.subject.module, picture, LIKELIEST)
        if not all(math.isfinite(share) for _, share in found):
            raise PgigError(f"{self.label} says NaN of this picture: there is nothing to explain")
        return found

    def output(self, x: Tensor) -> Tensor:  # [n, ...] -> [n, classes]
        with _TRACING:
            return output_for(self.subject.module, x)

    def shares(self, x: Tensor) -> Tensor:
        return self.output(x).double().softmax(1)

    def name_of(self, index: int) -> str:
        return name_of(index, self.names)

    @property
    def protocol(self) -> Protocol:
        """How parts are removed: patch by patch, up to half of the picture."""
        size = self.preprocess.size
        patch = max(size // _ACROSS, min(_SMALLEST, size))
        return Protocol(patch=patch, steps=max(1, int(_SHARE * (size // patch) ** 2)))

    def evaluator(self) -> Evaluator:
        """Exact incremental inference where it pays, found out once."""
        with _TRACING:
            if self._evaluator is None:
                x = self.preprocess.normalise(example(self.preprocess.size))
                self._evaluator = choose(Wish(pairs=3), self.subject, x, self.protocol).evaluator
            return self._evaluator


def known_methods(patterns: bool) -> list[str]:
    """Those that need no references, and no patterns where there are none."""
    table = {name: one for name, one in known_explainers().items() if _is_known(name)}
    out = set(needing_references(table)) | (set() if patterns else set(needing_patterns(table)))
    return [name for name in table if name not in out]


def _is_known(name: str) -> bool:
    """Can a command find it by its name alone?"""
    try:
        explainers([name])
    except PgigError:
        return False
    return True


def load_network(
    model: str,
    weights: str | None,
    preprocess: Preprocess,
    patterns: Path | None,
    classes: Path | None = None,
    force: bool = False,
    given: str | None = None,
) -> Network:
    """Refuses what does not fit together. force: take patterns of other weights."""
    module = load_model(model, weights)
    count = classes_of(module, preprocess.size)
    names = read_classes(classes) if classes else default_classes(model, weights, module, count)
    if classes and len(names) != count:
        raise PgigError(f"{classes} has {len(names)} names, and the model {count} classes")
    found = None if patterns is None else read_patterns(patterns, module, force)
    subject = Subject(module, dict(found) if force and found is not None else found)
    if not force:
        subject.check_patterns()
    return Network(model, weights, subject, preprocess, names, found, count, given, force)


def untrained(network: Network) -> Network | None:
    """The same architecture with random weights, where it has a name: what it shows, no explanation should."""
    if network.model not in MODEL_NAMES or network.weights == "random":
        return None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = load_model(network.model, "random")
    return Network(network.model, "random", Subject(module), network.preprocess, network.names, None, network.classes)


def told_apart(networks: Sequence[Network]) -> Sequence[Network]:
    """The same with labels that differ: a file's name alone may be that of several."""
    labels = [network.label for network in networks]
    for number, network in enumerate(networks):
        if labels.count(labels[number]) > 1:
            network.name = f"{number + 1}: {network.model} ({network.weights or 'default'})"
    return networks


def facts_of(network: Network, **more: Any) -> dict[str, Any]:
    """For the pages that are saved."""
    patterns = "none" if network.patterns is None else network.patterns.content_digest()
    return {"weights": network.weights or "default", "patterns": patterns, **more}
