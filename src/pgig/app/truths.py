"""Images with known truth, one at a time: which method finds what carries the class?"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from pgig.app.answers import answers, in_order
from pgig.app.network import Network
from pgig.app.shown import shown_map
from pgig.app.visitors import Visitor
from pgig.drawing.encoded import mask_address
from pgig.errors import PgigError
from pgig.runs.explain import photo
from pgig.runs.questions import why
from pgig.subject.subject import Subject
from pgig.synthetic.images import CLASSES, samples
from pgig.synthetic.images import pixels as as_colours
from pgig.synthetic.metrics import chance, truth_scores
from pgig.synthetic.networks import embedded
from pgig.synthetic.truth import embedded_patterns
from pgig.vision.pictures import Picture
from pgig.vision.preprocess import Preprocess

_COLUMN = "precision, |a|"
_SIZE = 64
_TRIED = 200  # draws until the class wanted comes


def embedded_network() -> Network:
    """The small classifier of the package, with patterns from generated images."""
    module = embedded()
    patterns = embedded_patterns(module)
    preprocess = Preprocess(size=_SIZE, resize=_SIZE, mean=(0.5, 0.5, 0.5), std=(0.125, 0.125, 0.125))
    return Network("embedded", None, Subject(module, patterns), preprocess, CLASSES, patterns, len(CLASSES))


def drawn(setting: str, wanted: str, seed: int) -> tuple[Picture, int, Tensor]:
    """A picture, its class and its mask [1, height, width]; the first of its class in the seed's stream."""
    if wanted not in ("any", *CLASSES):
        raise PgigError(f"unknown class {wanted!r}; choose one of: {', '.join(CLASSES)}, any")
    for number in range(_TRIED):
        found = samples(setting, 1, seed=seed, first=number)
        label = int(found.label)
        if wanted in ("any", CLASSES[label]):
            name = f"{setting}-{CLASSES[label]}-{seed}"
            return Picture(name, as_colours(found.x[0]), found.x), label, found.mask
    raise PgigError(f"none of {_TRIED} images drawn with the seed {seed} shows a {wanted}")


def truths(
    network: Network, visitor: Visitor, setting: str, wanted: str, seed: int, methods: Sequence[str],
    say: Callable[[str, float], object] = lambda method, share: None, check: Callable[[], None] | None = None,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """For the view of maps, as methods get ready: each with how much of its top lies on the truth."""
    picture, label, mask = drawn(setting, wanted, seed)
    says = int(network.shares(picture.x).argmax())
    least = float(chance(mask)[_COLUMN][0])
    told = f"The class is {CLASSES[label]}, outlined. The network says {CLASSES[says]}."
    if says != label:
        told += " It is wrong: what is explained is not the truth."
    for found in answers(network, visitor, picture, why(label, CLASSES), methods, say, check):
        cards = []
        for one in in_order(found, methods).values():
            share = float(truth_scores(_tensor(one.attribution), mask)[_COLUMN][0])
            cards.append((share, shown_map(one, picture, note=f"{share:.0%} on the truth (chance {least:.0%})")))
        yield {
            "title": f"Who finds the {CLASSES[label]}?", "told": told, "photo": photo(picture),
            "outline": mask_address(_edge(mask[0].numpy())),
            "maps": [card for _, card in sorted(cards, key=lambda pair: -pair[0])],
            "waiting": found.waiting, "left_out": found.left_out,
        }  # fmt: skip


def _tensor(array: Any) -> Tensor:
    return torch.from_numpy(numpy.ascontiguousarray(array))


def _edge(mask: NDArray[numpy.bool_]) -> NDArray[numpy.bool_]:
    """The pixels of a mask that have a neighbour outside."""
    padded = numpy.pad(mask, 1)
    inside = padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
    return mask & ~inside
