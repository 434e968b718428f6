"""The work of a run on one part: read images, explain them, judge what was said, write."""

import errno
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import numpy
import torch
from torch import Tensor

from pgig.degradation import Evaluator
from pgig.digests import digest_of, digest_of_file
from pgig.errors import DiskFullError, PgigError
from pgig.explainers.protocol import Explainer
from pgig.explainers.registry import explainers
from pgig.explainers.together import explain_group, sharing
from pgig.files import written
from pgig.patterns.patterns import Patterns
from pgig.records.part_files import write_records, write_sums
from pgig.records.parts import Finished, Part
from pgig.runs.examples import write_examples
from pgig.runs.job import Job
from pgig.runs.judging import Explained, Judging
from pgig.runs.masks import Masks
from pgig.runs.references import draws_references, reference_pool
from pgig.runs.saved import Saved
from pgig.subject.context import Context
from pgig.subject.subject import Subject
from pgig.vision.image_folder import DAMAGED, ImageFolder
from pgig.vision.models import output_for

HEAT_MAPS = 6  # images whose heat maps are kept
_NOT_FINITE = "the model's scores are not finite once patches are replaced"
# what is wrong with the machine or the network drive, not with the image: the run stops, and can go on
_PASSING = errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN


@dataclass
class _PartSoFar:
    done: list[Explained] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)  # with reasons
    digests: dict[str, str | None] = field(default_factory=dict)


class Worker:
    """A job with its model loaded."""

    def __init__(self, job: Job, subject: Subject, patterns: Patterns | None, evaluator: Evaluator) -> None:
        self._job, self._asked = job, job.asked
        if job.threads is not None:
            torch.set_num_threads(job.threads)
        if digest_of(subject.digest) != job.digest:
            raise PgigError(f"{job.asked.model} is another model each time it is made: give it weights, or seed it")
        self._subject = subject.with_patterns(dict(patterns) if patterns is not None and job.asked.force else patterns)
        self._table = explainers(job.asked.methods)
        self._folder = ImageFolder.open(job.asked.images)
        self._pool = self._references() if draws_references(job.asked, self._table) else {}
        self._judging = Judging(job, self._subject, evaluator, self._explain_again)
        self._masks = Masks.open(job.asked.masks) if job.asked.masks is not None and job.asked.needs_masks else None

    def _references(self) -> dict[str, Tensor]:
        pool, contents = reference_pool(self._asked, self._job.names, self._folder)
        if contents != self._job.references_contents:
            raise PgigError("the images that references are drawn from have changed since the run began")
        return pool

    def run(self, part: Part) -> Generator[float, None, list[dict[str, Any]]]:
        """Finish a part: its rows, written by rename. Tells of images, in fractions: explained, and by each measure."""
        out, configuration = self._asked.out, self._job.configuration
        so_far = yield from self._explained(part)
        for one in so_far.done:
            if one.maps:
                self._write_maps(one)
        if self._asked.save_attributions:
            sums = Finished(_sums_rows(so_far.done), dict(so_far.skipped), so_far.digests, True)
            write_sums(out, part, sums, configuration)
        rows: list[dict[str, Any]] = []
        step, told = self._step, self._step * len(part.images)
        for found in self._judging.rows(so_far.done) if so_far.done else ():
            rows += found
            now = min(float(len(part.images)), told + step * len(part.images))
            yield now - told
            told = now
        yield len(part.images) - told
        lost = {
            row["image"]: f"no finite {row['measure']}" if self._asked.measures else _NOT_FINITE
            for row in rows
            if not numpy.isfinite(row["values"]).all()
        }
        lost |= self._judging.refused
        rows = [row for row in rows if row["image"] not in lost]
        if part.number == 0 and lost and not rows:  # the others will fail too
            raise PgigError("{}: {}".format(*next(iter(lost.items()))))
        skipped = so_far.skipped | {name: _reason(PgigError(why), name) for name, why in lost.items()}
        shown = self._job.names[:HEAT_MAPS]
        write_examples(self._job, [one for one in so_far.done if one.name in shown and one.name not in lost], rows)
        write_records(out, part, Finished(rows, skipped, so_far.digests, True), configuration)
        shown_label = next(iter(self._asked.judged_by))
        return [row for row in rows if row["measure"] == shown_label]  # what a run tells of while it goes on

    @property
    def _step(self) -> float:
        """What explaining an image counts, and judging it by a measure; where one measure is all, explaining is."""
        return 1 / (1 + len(self._asked.judged_by)) if self._asked.measures else 1.0

    def _explained(self, part: Part) -> Generator[float, None, _PartSoFar]:
        """What could be read and explained, why the rest could not, and digests of all image files.

        An error where the first part fails wholly.
        """
        source = self._asked.attributions_from
        kept = Saved.read(source, part) if source else None
        found = _PartSoFar(digests=dict.fromkeys(part.images))
        failed: str | None = None
        for name in part.images:
            x = self._read(name, found)
            if x is not None:
                if kept is not None:
                    kept.check_image(name, found.digests[name])
                try:
                    one = self._explain(name, str(found.digests[name]), x, kept)
                    if self._masks is not None:
                        one.mask = self._masks.mask(name, self._folder.read(name), self._asked.preprocess)
                    found.done.append(one)
                except DiskFullError:
                    raise
                except PgigError as error:
                    failed = name
                    found.skipped[name] = _reason(error, name)
                except Exception as error:  # whatever a user's model raises
                    raise PgigError(
                        f"the model failed while {name} was explained: {_first_line(error)}; the same command goes on"
                    ) from error
            yield self._step
        if failed is not None and not found.done and part.number == 0:
            raise PgigError(f"{failed}: {found.skipped[failed]}")
        if kept is not None:
            kept.check({one.name: one.target for one in found.done})
        return found

    def _read(self, name: str, found: _PartSoFar) -> Tensor | None:
        preprocess = self._asked.preprocess
        try:
            content = self._folder.read(name)
            found.digests[name] = digest_of_file(content)
            return preprocess.normalise(preprocess.pixels(BytesIO(content), name))
        except (PgigError, *DAMAGED) as error:
            if isinstance(error, OSError) and error.errno in _PASSING:
                raise PgigError(f"cannot read {name}: {error.strerror}; the same command goes on") from error
            found.skipped[name] = _reason(error, name)
            return None

    def _explain(self, name: str, digest: str, x: Tensor, kept: Saved | None) -> Explained:
        output = output_for(self._subject.module, x[None])
        if not output.isfinite().all():
            raise PgigError("the model's scores are not finite")
        predicted = int(output[0].argmax())
        target = self._job.labels[name] if self._asked.by_label else predicted
        if kept is not None:
            return Explained(name, digest, x, predicted, target, *kept.of(name, self._asked.methods))
        grid = self._asked.protocol.grid(x[None])
        found: dict[str, Tensor] = {}
        seconds: dict[str, float] = {}
        for group in sharing(self._table):
            begun = time.perf_counter()
            found |= self._attributions(group, name, x[None], torch.tensor([target]))
            # what is shared is shared out evenly
            seconds |= dict.fromkeys(group, (time.perf_counter() - begun) / len(group))
        shown = found if name in self._job.names[:HEAT_MAPS] else {}
        maps = {method: numpy.asarray(a[0].sum(0), dtype=numpy.float32) for method, a in shown.items()}
        sums = {method: grid.sums(found[method])[0] for method in self._table}
        return Explained(
            name, digest, x, predicted, target, sums, seconds, maps,
            {m: a[0] for m, a in found.items()} if self._asked.needs_pixels else {},
        )  # fmt: skip

    def _explain_again(self, subject: Subject, one: Explained, x: Tensor) -> dict[str, Tensor]:
        """The same methods on the same class, with the same draws."""
        return self._attributions(self._table, one.name, x[None], torch.tensor([one.target]), subject)

    def _attributions(
        self, group: Mapping[str, Explainer], name: str, x: Tensor, target: Tensor, subject: Subject | None = None
    ) -> dict[str, Tensor]:
        others = [image for other, image in self._pool.items() if other != name]
        context = Context(
            score=self._asked.score,
            seed=self._asked.seed,
            ids=[name],
            references=torch.stack(others) if others else None,
            black=self._asked.preprocess.black,
        )
        return explain_group(group, subject or self._subject, x, target, context)

    def _write_maps(self, one: Explained) -> None:
        pixels = self._asked.preprocess.pixels(BytesIO(self._folder.read(one.name)), one.name)
        image = numpy.asarray((pixels * 255).round(), dtype=numpy.uint8)
        number = self._job.names.index(one.name)
        file_name = f"{number}-{one.name.rpartition('/')[2][-40:]}.npz"  # longer may be too long
        with written(self._asked.out / "heatmaps" / file_name) as path, path.open("wb") as file:
            numpy.savez_compressed(file, **one.maps, image=image)  # type: ignore[arg-type]


def _sums_rows(done: list[Explained]) -> list[dict[str, Any]]:
    return [
        {
            "image": one.name, "method": method, "target": one.target, "sums": sums.tolist(),
            "seconds": one.seconds[method], "image_digest": one.digest,
        }
        for one in done
        for method, sums in one.sums.items()
    ]  # fmt: skip


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _reason(error: Exception, name: str) -> str:
    prefix = " ".join(f"cannot read the image {name}:".split())
    return " ".join(str(error).split()).removeprefix(prefix).strip()
