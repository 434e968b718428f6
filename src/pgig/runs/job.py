"""The work of a degradation run on one part: read images, explain them, replace patches, score."""

import copy
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from pgig.degradation import DenseEvaluator, Evaluator, PatchGrid, Protocol, degrade, scored_by
from pgig.errors import PgigError
from pgig.explainers import Explainer, explain_all, explainers
from pgig.files import written
from pgig.methods import Method
from pgig.patterns import Patterns, model_digest
from pgig.randomness import draws
from pgig.runs.parts import Part, read_sums, write_curves, write_sums
from pgig.vision.folders import DAMAGED, ImageFolder
from pgig.vision.models import load_model, output_for
from pgig.vision.preprocess import Preprocess

HEAT_MAPS = 6  # images whose heat maps are kept
_POOL = 64  # images that expected_gradients draws its references from


@dataclass(frozen=True)
class Job:
    """All that a process needs to work on parts; plain values, so that it can be sent to others."""

    model: str
    weights: str | None
    images: Path
    names: tuple[str, ...]
    labels: Mapping[str, int]
    preprocess: Preprocess
    methods: tuple[str, ...]
    protocol: Protocol
    out: Path
    patterns: Path | None = None
    force: bool = False
    references: Path | None = None
    score: str = "probability"
    by_label: bool = False
    seed: int = 0
    evaluator: str = "dense"
    batch_size: int = 16
    threads: int | None = None
    save_attributions: bool = False
    attributions_from: Path | None = None
    labels_file: str | None = None
    digest: str | None = None  # of the model: every process must have the same


@dataclass
class Worker:
    """A job with its model loaded."""

    job: Job
    _model: nn.Module = field(init=False)
    _table: dict[str, Explainer] = field(init=False)
    _patterns: Mapping[str, Tensor] | None = field(init=False)
    _pool: dict[str, Tensor] = field(init=False)
    _folder: ImageFolder = field(init=False)
    _evaluator: Evaluator = field(init=False)

    def __post_init__(self) -> None:
        job = self.job
        if job.threads is not None:
            torch.set_num_threads(job.threads)
        self._model = load_model(job.model, job.weights)
        if job.digest is not None and digest_of(model_digest(self._model)) != job.digest:
            raise PgigError(f"{job.model} is another model each time it is made: give it weights, or seed it")
        self._table = explainers(job.methods)
        found = Patterns.load(job.patterns) if job.patterns else None
        self._patterns = dict(found) if found is not None and job.force else found
        self._folder = ImageFolder.open(job.images)
        self._pool = self._references() if self._needs_references() else {}
        fast = copy.deepcopy(self._model).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._evaluator = DenseEvaluator(scored_by(fast, job.score), job.batch_size)

    def run(self, part: Part) -> list[dict[str, Any]]:
        """Finish a part: its rows, written by rename."""
        job = self.job
        names, x, skipped = self._read(part.images)
        rows: list[dict[str, Any]] = []
        if names:
            predicted = self._predicted(x)
            targets = self._targets(names, predicted)
            sums, seconds = self._sums(part, names, x, targets)
            begun = time.perf_counter()
            curves = degrade(self._evaluator, x, targets, sums, job.protocol, names, job.seed)
            each = (time.perf_counter() - begun) / (len(names) * len(sums))
            for number, name in enumerate(names):
                rows += [
                    {
                        "image": name, "method": method, "predicted": int(predicted[number]),
                        "label": job.labels.get(name, -1), "target": int(targets[number]),
                        "intact": float(curve[number, 0]), "curve": curve[number].tolist(),
                        "seconds": seconds[method][number] + each,
                    }
                    for method, curve in curves.items()
                ]  # fmt: skip
        write_curves(job.out, part, rows, skipped)
        return rows

    def _read(self, images: tuple[str, ...]) -> tuple[list[str], Tensor, dict[str, str]]:
        names, found, skipped = [], [], {}
        for name in images:
            try:
                found.append(self._image(name))
                names.append(name)
            except (PgigError, *DAMAGED) as error:
                skipped[name] = " ".join(str(error).split()).removeprefix(f"cannot read the image {name}: ")
        return names, torch.stack(found) if found else torch.empty(0), skipped

    def _image(self, name: str) -> Tensor:
        preprocess = self.job.preprocess
        return preprocess.normalise(preprocess.pixels(BytesIO(self._folder.read(name)), name))

    def _predicted(self, x: Tensor) -> Tensor:
        outputs = torch.cat([output_for(self._model, one[None]) for one in x])
        if outputs.dim() != 2 or not outputs.isfinite().all():
            raise PgigError("the model does not return one row of finite class scores per image")
        return outputs.argmax(1)

    def _targets(self, names: list[str], predicted: Tensor) -> Tensor:
        if not self.job.by_label:
            return predicted
        if missing := [name for name in names if name not in self.job.labels]:
            raise PgigError(f"no label for {missing[0]}: give labels for every image, or leave out --target label")
        return torch.tensor([self.job.labels[name] for name in names])

    def _sums(
        self, part: Part, names: list[str], x: Tensor, targets: Tensor
    ) -> tuple[dict[str, Tensor], dict[str, list[float]]]:
        job = self.job
        if job.attributions_from is not None:
            return _reused(read_sums(job.attributions_from, part), names, job.methods, targets)
        grid = job.protocol.grid(x)
        sums: dict[str, list[Tensor]] = {name: [] for name in self._table}
        seconds: dict[str, list[float]] = {name: [] for name in self._table}
        for number, name in enumerate(names):
            found: dict[str, Tensor] = {}
            for group in _sharing(self._table):
                begun = time.perf_counter()
                found |= self._explained(group, name, x[number : number + 1], targets[number : number + 1])
                each = (time.perf_counter() - begun) / len(group)  # what is shared is shared out evenly
                for method in group:
                    seconds[method].append(each)
            for method, attribution in found.items():
                sums[method].append(grid.sums(attribution)[0])
            if name in job.names[:HEAT_MAPS]:
                self._keep(name, x[number], found)
        stacked = {method: torch.stack(sums[method]) for method in self._table}
        if job.save_attributions:
            rows = [
                {
                    "image": name, "method": method, "target": int(targets[number]),
                    "sums": stacked[method][number].tolist(), "seconds": seconds[method][number],
                }
                for number, name in enumerate(names)
                for method in stacked
            ]  # fmt: skip
            write_sums(job.out, part, rows)
        return stacked, seconds

    def _explained(self, group: dict[str, Explainer], name: str, x: Tensor, target: Tensor) -> dict[str, Tensor]:
        others = [image for other, image in self._pool.items() if other != name]
        return explain_all(
            group, self._model, x, target, patterns=self._patterns, references=torch.stack(others) if others else None,
            ids=[name], seed=self.job.seed, score=self.job.score,
        )  # fmt: skip

    def _keep(self, name: str, x: Tensor, found: Mapping[str, Tensor]) -> None:
        arrays = {method: numpy.asarray(a[0].sum(0), dtype=numpy.float32) for method, a in found.items()}
        pixels = self.job.preprocess.pixels(BytesIO(self._folder.read(name)), name)
        arrays["image"] = numpy.asarray((pixels * 255).round(), dtype=numpy.uint8)
        with written(self.job.out / "heatmaps" / f"{name.replace('/', '-')}.npz") as path, path.open("wb") as file:
            numpy.savez_compressed(file, **arrays)  # type: ignore[arg-type]

    def _needs_references(self) -> bool:
        return self.job.attributions_from is None and any(
            isinstance(method, Method) and method.points.needs_references for method in self._table.values()
        )

    def _references(self) -> dict[str, Tensor]:
        """Some images of the reference folder, or of the run, drawn by the seed."""
        job = self.job
        folder = ImageFolder.open(job.references) if job.references else ImageFolder(job.names, self._folder.read)
        order = torch.randperm(len(folder.names), generator=draws(job.seed, "references", "pool")(0)).tolist()
        pool: dict[str, Tensor] = {}
        for index in order:
            name = folder.names[index]
            try:
                pixels = job.preprocess.pixels(BytesIO(folder.read(name)), name)
            except (PgigError, *DAMAGED):
                continue
            same = job.references is None or job.references.resolve() == job.images.resolve()
            # a reference from elsewhere is never the image explained
            pool[name if same else f"{job.references}:{name}"] = job.preprocess.normalise(pixels)
            if len(pool) == _POOL:
                break
        if len(pool) < 2:
            raise PgigError("expected_gradients needs other images to draw from: give --references DIR")
        return pool


def digest_of(content: str | bytes) -> str:
    return blake2b(content.encode() if isinstance(content, str) else content, digest_size=8).hexdigest()


def grid_of(job: Job) -> PatchGrid:
    return job.protocol.grid(torch.empty(1, 3, job.preprocess.size, job.preprocess.size))


def _sharing(table: Mapping[str, Explainer]) -> list[dict[str, Explainer]]:
    """Methods that look at the same points, together."""
    groups: dict[Any, dict[str, Explainer]] = {}
    for name, method in table.items():
        groups.setdefault(method.points if isinstance(method, Method) else name, {})[name] = method
    return list(groups.values())


def _reused(
    rows: list[dict[str, Any]], names: list[str], methods: tuple[str, ...], targets: Tensor
) -> tuple[dict[str, Tensor], dict[str, list[float]]]:
    found = {(row["image"], row["method"]): row for row in rows}
    wanted = dict(zip(names, targets.tolist(), strict=True))
    if other := [row["image"] for row in rows if wanted.get(row["image"], row["target"]) != row["target"]]:
        raise PgigError(f"the saved attributions of {other[0]} explain another class than this run scores")
    for method in methods:
        if missing := [name for name in names if (name, method) not in found]:
            raise PgigError(f"no saved attribution of {missing[0]} by {method}")
    sums = {m: torch.tensor([found[name, m]["sums"] for name in names], dtype=torch.float64) for m in methods}
    return sums, {m: [found[name, m]["seconds"] for name in names] for m in methods}
