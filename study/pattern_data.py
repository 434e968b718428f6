"""How many images do patterns need, and what if they are of other data? PGIG with patterns of each kind, on the few."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from published import DIGITS
from settings import evenly
from torch import Tensor, nn

from pgig.degradation import Evaluator, Protocol
from pgig.explaining.attribute import attribute
from pgig.measures import Setting, judge
from pgig.measures.evaluators import Wish, choose
from pgig.measures.similarity import spearman
from pgig.patterns.estimation import estimate_patterns
from pgig.patterns.patterns import Patterns
from pgig.patterns.quality import signal_quality
from pgig.records.tables import write_csv
from pgig.synthetic.images import SETTINGS, samples
from pgig.vision.models import default_preprocess, load_model
from pgig.vision.preprocess import Preprocess

COUNTS = 10, 25, 50, 100, 250
FOREIGN = "noise", "shapes", "animals", "others"  # generated, generated, classes below 398, classes from there on
GENERATED = 250
LAST_ANIMAL = 397  # of ImageNet's classes
HELD_OUT = 50
OWN = "250 photographs"
HEAD = "patterns", "photograph", "animal", "method", "morf", "correlation"
VERDICTS = "patterns", "images", "layers", "doubtful", "doubtful by rho too", "verdict"


def run_pattern_data(
    network: str, weights: Path | None, photographs: Mapping[str, Sequence[Path]], tables: Path
) -> None:
    """If it is not published yet. photographs: of the uses `patterns`, `many` and `few`."""
    if (tables / f"{network}.csv").is_file():
        return
    file = None if weights is None else str(weights)
    model, preprocess = load_model(network, file), default_preprocess(network, file)
    few, further = photographs["few"], [path for path in photographs["many"] if path not in photographs["few"]]
    x = torch.cat(list(batches(few, preprocess)))
    with torch.no_grad():
        target = torch.cat([model(each).argmax(1) for each in x.split(1)])
    evaluator = choose(Wish(), model, x[:1], Protocol()).evaluator
    held_out = list(batches(evenly(further, HELD_OUT), preprocess))
    found: dict[str, Tensor] = {}
    verdicts: list[list[object]] = []
    for name, images, data in sources(photographs["patterns"], preprocess):
        print(f"{network}: patterns of {name}", flush=True)
        patterns = estimate_patterns(model, data)
        verdicts.append([name, images, *verdict(model, patterns, held_out)])
        ids = [path.name for path in few]
        found[name] = torch.cat(
            [attribute("pgig", model, x[n : n + 1], target[n : n + 1], patterns=patterns, ids=[ids[n]])
             for n in range(len(x))]
        )  # fmt: skip
    rows = [row for name, of in found.items() for row in _rows(name, of, found[OWN], model, x, target, few, evaluator)]
    write_csv(tables / f"{network}-verdicts.csv", VERDICTS, verdicts)
    write_csv(tables / f"{network}.csv", HEAD, rows)


def sources(photographs: Sequence[Path], preprocess: Preprocess) -> Iterator[tuple[str, int, Iterator[Tensor]]]:
    """Names, numbers of images and batches."""
    for count in COUNTS:
        yield f"{count} photographs", count, batches(evenly(photographs, count), preprocess)
    size, rng = preprocess.size, torch.Generator().manual_seed(0)
    yield "noise", GENERATED, (torch.randn(10, 3, size, size, generator=rng) for _ in range(GENERATED // 10))
    each = -(-GENERATED // len(SETTINGS))
    drawn = (samples(s, 1, first=n, size=size, purpose="patterns").x for n in range(each) for s in SETTINGS)
    yield "shapes", each * len(SETTINGS), drawn
    for name in ("animals", "others"):
        some = [path for path in photographs if is_animal(path) == (name == "animals")]
        yield name, len(some), batches(some, preprocess)


def is_animal(path: Path) -> bool:
    """The photographs' names begin with their class."""
    return int(path.name.split("_")[0]) <= LAST_ANIMAL


def batches(photographs: Sequence[Path], preprocess: Preprocess) -> Iterator[Tensor]:
    for path in photographs:
        yield preprocess.normalise(preprocess.pixels(path))[None]


def verdict(model: nn.Module, patterns: Patterns, held_out: Sequence[Tensor]) -> list[object]:
    """Layers, those that are doubtful without and with held-out images, and the last verdict in words."""
    judged = patterns.with_quality(signal_quality(model, patterns, held_out))
    layers = len(patterns.health().layers)
    return [layers, patterns.health().doubtful, judged.health().doubtful, judged.health().verdict]


def _rows(
    name: str, attribution: Tensor, own: Tensor, model: nn.Module, x: Tensor, target: Tensor, few: Sequence[Path],
    evaluator: Evaluator,
) -> Iterator[list[object]]:  # fmt: skip
    views = {"pgig": (attribution, own), "pgig+absolute": (attribution.abs(), own.abs())}
    setting = Setting(ids=[path.name for path in few], evaluator=evaluator)
    areas = judge("morf", model, x, target, {method: of for method, (of, _) in views.items()}, setting)
    for method, (of, by_own) in views.items():
        for place, path in enumerate(few):
            alike = spearman(of[place].sum(0), by_own[place].sum(0))
            area = float(areas[method]["AUC"][place])
            yield [name, path.name, is_animal(path), method, f"{area:.{DIGITS}g}", f"{alike:.4f}"]
