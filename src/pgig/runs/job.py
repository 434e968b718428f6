"""The work of a degradation run on one part: read images, explain them, replace patches, score."""

import errno
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

import numpy
import torch
from torch import Tensor, nn

from pgig.degradation import Evaluator, PatchGrid, degrade
from pgig.degradation import Protocol as Degradation
from pgig.draws import draws
from pgig.errors import DiskFullError, PgigError
from pgig.explainers.registry import Explainer, explain_all, explainers, method_of, needs_references
from pgig.files import written
from pgig.patterns.patterns import Patterns, model_digest
from pgig.records.parts import Finished, Part, read_sums, write_curves, write_sums
from pgig.vision.image_folder import DAMAGED, ImageFolder
from pgig.vision.models import output_for
from pgig.vision.preprocess import Preprocess

HEAT_MAPS = 6  # images whose heat maps are kept
_NOT_FINITE = "the model's scores are not finite once patches are replaced"
_POOL = 64  # images that expected_gradients draws its references from
# what is wrong with the machine or the network drive, not with the image: the run stops, and can go on
_PASSING = errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN


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
    protocol: Degradation
    out: Path
    patterns: Path | None = None
    force: bool = False
    references: Path | None = None
    score: str = "probability"
    by_label: bool = False
    seed: int = 0
    evaluator: str = "auto"
    batch_size: int | None = None
    memory: float | None = None  # GB for kept activations
    threads: int | None = None
    save_attributions: bool = False
    attributions_from: Path | None = None
    labels_file: str | None = None
    digest: str | None = None  # of the model: every process must have the same
    references_contents: str | None = None  # digest of the images that references are drawn from: likewise
    configuration: str = ""  # digest of the run's configuration, which every part says it was made with


class Tally(Protocol):
    """A number that several processes count up."""

    value: int

    def get_lock(self) -> AbstractContextManager[Any]: ...


@dataclass
class Explained:
    """An image and what the methods say of it."""

    name: str
    digest: str  # of the file's bytes
    x: Tensor  # [channels, height, width]
    predicted: int
    target: int
    sums: dict[str, Tensor]  # method -> [patches]
    seconds: dict[str, float]


@dataclass
class Worker:
    """A job with its model loaded."""

    job: Job
    model: nn.Module
    evaluator: Evaluator
    _table: dict[str, Explainer] = field(init=False)
    _patterns: Mapping[str, Tensor] | None = field(init=False)
    _pool: dict[str, Tensor] = field(init=False)
    _folder: ImageFolder = field(init=False)

    def __post_init__(self) -> None:
        job = self.job
        if job.threads is not None:
            torch.set_num_threads(job.threads)
        if job.digest is not None and digest_of(model_digest(self.model)) != job.digest:
            raise PgigError(f"{job.model} is another model each time it is made: give it weights, or seed it")
        self._table = explainers(job.methods)
        found = Patterns.load(job.patterns) if job.patterns else None
        self._patterns = dict(found) if found is not None and job.force else found
        self._folder = ImageFolder.open(job.images)
        self._pool = {}
        if draws_references(job, self._table):
            self._pool, contents = reference_pool(job, self._folder)
            if job.references_contents is not None and contents != job.references_contents:
                raise PgigError("the images that references are drawn from have changed since the run began")

    def run(self, part: Part, tally: Tally) -> list[dict[str, Any]]:
        """Finish a part: its rows, written by rename."""
        job = self.job
        done, skipped, digests = self._explained(part, tally)
        if job.save_attributions:
            write_sums(job.out, part, Finished(_sums_rows(done), dict(skipped), digests, True), job.configuration)
        rows = self._degraded(done) if done else []
        lost = {row["image"] for row in rows if not numpy.isfinite(row["curve"]).all()}
        skipped |= dict.fromkeys(lost, _NOT_FINITE)
        self._check_first(part, rows, lost)
        rows = [row for row in rows if row["image"] not in lost]
        write_curves(job.out, part, Finished(rows, skipped, digests, True), job.configuration)
        return rows

    def _check_first(self, part: Part, rows: list[dict[str, Any]], lost: set[str]) -> None:
        """Where all images of the first part fail, the others will too."""
        if part.number == 0 and lost and all(row["image"] in lost for row in rows):
            raise PgigError(f"{sorted(lost)[0]}: {_NOT_FINITE}")

    def _explained(self, part: Part, tally: Tally) -> tuple[list[Explained], dict[str, str], dict[str, str | None]]:
        """What could be read and explained, why the rest could not, and digests of all image files.

        An error where the first part fails wholly.
        """
        kept = _Saved.read(self.job.attributions_from, part) if self.job.attributions_from else None
        done: list[Explained] = []
        skipped: dict[str, str] = {}
        digests: dict[str, str | None] = dict.fromkeys(part.images)
        failed: str | None = None
        for name in part.images:
            try:
                content = self._folder.read(name)
                digests[name] = digest_of_file(content)
                x = self._image(name, content)
            except (PgigError, *DAMAGED) as error:
                if isinstance(error, OSError) and error.errno in _PASSING:
                    raise PgigError(f"cannot read {name}: {error.strerror}; the same command goes on") from error
                skipped[name] = _reason(error, name)
            else:
                if kept is not None:
                    kept.check_image(name, digests[name])
                try:
                    done.append(self._explain(name, str(digests[name]), x, kept))
                except DiskFullError:
                    raise
                except PgigError as error:
                    failed = name
                    skipped[name] = _reason(error, name)
            with tally.get_lock():
                tally.value += 1
        if failed is not None and not done and part.number == 0:
            raise PgigError(f"{failed}: {skipped[failed]}")
        if kept is not None:
            kept.check(done)
        return done, skipped, digests

    def _image(self, name: str, content: bytes) -> Tensor:
        preprocess = self.job.preprocess
        return preprocess.normalise(preprocess.pixels(BytesIO(content), name))

    def _explain(self, name: str, digest: str, x: Tensor, kept: "_Saved | None") -> Explained:
        output = output_for(self.model, x[None])
        if not output.isfinite().all():
            raise PgigError("the model's scores are not finite")
        predicted = int(output[0].argmax())
        target = self.job.labels[name] if self.job.by_label else predicted
        if kept is not None:
            return Explained(name, digest, x, predicted, target, *kept.of(name, self.job.methods))
        grid = self.job.protocol.grid(x[None])
        found: dict[str, Tensor] = {}
        seconds: dict[str, float] = {}
        for group in _sharing(self._table):
            begun = time.perf_counter()
            found |= self._attributions(group, name, x[None], torch.tensor([target]))
            # what is shared is shared out evenly
            seconds |= dict.fromkeys(group, (time.perf_counter() - begun) / len(group))
        if name in self.job.names[:HEAT_MAPS]:
            self._keep(name, found)
        sums = {method: grid.sums(found[method])[0] for method in self._table}
        return Explained(name, digest, x, predicted, target, sums, seconds)

    def _attributions(self, group: dict[str, Explainer], name: str, x: Tensor, target: Tensor) -> dict[str, Tensor]:
        others = [image for other, image in self._pool.items() if other != name]
        return explain_all(
            group, self.model, x, target, patterns=self._patterns, references=torch.stack(others) if others else None,
            ids=[name], seed=self.job.seed, score=self.job.score, black=self.job.preprocess.black,
        )  # fmt: skip

    def _degraded(self, done: list[Explained]) -> list[dict[str, Any]]:
        job = self.job
        begun = time.perf_counter()
        try:
            curves = degrade(
                self.evaluator, torch.stack([one.x for one in done]), torch.tensor([one.target for one in done]),
                {method: torch.stack([one.sums[method] for one in done]) for method in done[0].sums},
                job.protocol, [one.name for one in done], job.seed,
            )  # fmt: skip
        except (RuntimeError, MemoryError) as error:  # also torch's way of saying that memory is short
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise PgigError(f"the model failed on replaced patches: {reason}; the same command goes on") from error
        each = (time.perf_counter() - begun) / (len(done) * len(curves))
        return [
            {
                "image": one.name, "method": method, "predicted": one.predicted,
                "label": job.labels.get(one.name, -1), "target": one.target,
                "intact": float(curve[number, 0]), "curve": curve[number].tolist(),
                "seconds": one.seconds[method] + each, "image_digest": one.digest,
            }
            for number, one in enumerate(done)
            for method, curve in curves.items()
        ]  # fmt: skip

    def _keep(self, name: str, found: Mapping[str, Tensor]) -> None:
        arrays = {method: numpy.asarray(a[0].sum(0), dtype=numpy.float32) for method, a in found.items()}
        pixels = self.job.preprocess.pixels(BytesIO(self._folder.read(name)), name)
        arrays["image"] = numpy.asarray((pixels * 255).round(), dtype=numpy.uint8)
        file_name = f"{self.job.names.index(name)}-{name.rpartition('/')[2][-40:]}.npz"  # longer may be too long
        with written(self.job.out / "heatmaps" / file_name) as path, path.open("wb") as file:
            numpy.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def draws_references(job: Job, table: Mapping[str, Explainer]) -> bool:
    return job.attributions_from is None and needs_references(table)


def reference_pool(job: Job, images: ImageFolder) -> tuple[dict[str, Tensor], str]:
    """Some images of the reference folder, or of the run, drawn by the seed; and a digest of their files."""
    folder = ImageFolder.open(job.references) if job.references else ImageFolder(job.names, images.read)
    order = torch.randperm(len(folder.names), generator=draws(job.seed, "references", "pool")(0)).tolist()
    pool: dict[str, Tensor] = {}
    contents: list[str] = []
    for index in order:
        name = folder.names[index]
        try:
            content = folder.read(name)
            pixels = job.preprocess.pixels(BytesIO(content), name)
        except (PgigError, *DAMAGED):
            continue
        contents.append(f"{name} {digest_of_file(content)}")
        same = job.references is None or job.references.resolve() == job.images.resolve()
        # a reference from elsewhere is never the image explained
        pool[name if same else f"{job.references}:{name}"] = job.preprocess.normalise(pixels)
        if len(pool) == _POOL:
            break
    if len(pool) < (2 if job.references is None else 1):
        raise PgigError("expected_gradients needs other images that can be read: give --references DIR")
    return pool, digest_of("\n".join(contents))


def digest_of_file(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def digest_of(content: str | bytes) -> str:
    return blake2b(content.encode() if isinstance(content, str) else content, digest_size=8).hexdigest()


def digest_of_patterns(patterns: Patterns) -> str:
    """Of their values: other images give the same model other patterns."""
    return digest_of(" ".join(f"{name}={digest_of(bytes(patterns[name].numpy().data))}" for name in sorted(patterns)))


def grid_of(job: Job) -> PatchGrid:
    return job.protocol.grid(torch.empty(1, 3, job.preprocess.size, job.preprocess.size))


def _sharing(table: Mapping[str, Explainer]) -> list[dict[str, Explainer]]:
    """Methods that look at the same points, together."""
    groups: dict[Any, dict[str, Explainer]] = {}
    for name, method in table.items():
        known = method_of(method)
        groups.setdefault(name if known is None else known.points, {})[name] = method
    return list(groups.values())


def _sums_rows(done: list[Explained]) -> list[dict[str, Any]]:
    return [
        {
            "image": one.name, "method": method, "target": one.target, "sums": sums.tolist(),
            "seconds": one.seconds[method], "image_digest": one.digest,
        }
        for one in done
        for method, sums in one.sums.items()
    ]  # fmt: skip


def _reason(error: Exception, name: str) -> str:
    prefix = " ".join(f"cannot read the image {name}:".split())
    return " ".join(str(error).split()).removeprefix(prefix).strip()


@dataclass(frozen=True)
class _Saved:
    """The attributions of a part that another run saved."""

    folder: Path
    rows: Mapping[tuple[str, str], Mapping[str, Any]]  # (image, method) -> row
    skipped: Mapping[str, str]
    digests: Mapping[str, str | None]

    @staticmethod
    def read(folder: Path, part: Part) -> "_Saved":
        found = read_sums(folder, part)
        return _Saved(
            folder, {(row["image"], row["method"]): row for row in found.rows}, found.skipped, found.digests
        )  # fmt: skip

    def of(self, name: str, methods: tuple[str, ...]) -> tuple[dict[str, Tensor], dict[str, float]]:
        for method in methods:
            if (name, method) not in self.rows:
                raise PgigError(self.skipped.get(name, f"no saved attribution by {method}"))
        sums = {m: torch.tensor(self.rows[name, m]["sums"], dtype=torch.float64) for m in methods}
        return sums, {m: self.rows[name, m]["seconds"] for m in methods}

    def check_image(self, name: str, digest: str | None) -> None:
        before = self.digests.get(name)
        if before is not None and before != digest:
            raise PgigError(f"{name} is another file than the one whose attributions {self.folder} holds")

    def check(self, done: list[Explained]) -> None:
        """Attributions of one class say nothing of another's score."""
        targets = {one.name: one.target for one in done}
        for (name, _), row in self.rows.items():
            if targets.get(name, row["target"]) != row["target"]:
                raise PgigError(f"the saved attributions of {name} explain another class than this run scores")
