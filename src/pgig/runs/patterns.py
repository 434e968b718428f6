"""Patterns from a folder of images: checkpointed, resumable."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

from torch import nn

from pgig.errors import PgigError
from pgig.patterns.estimator import Estimator
from pgig.patterns.moments import Moments
from pgig.patterns.regimes import Joins, Regimes
from pgig.subject.subject import Subject
from pgig.vision.image_folder import DAMAGED, ImageFolder
from pgig.vision.preprocess import Preprocess

CHECKPOINT_SECONDS = 60
SETTLED = 256  # images after which sums are settled, wherever a run began: only then there are checkpoints


def estimate_from_folder(
    model: nn.Module,
    folder: ImageFolder,
    preprocess: Preprocess,
    checkpoint: Path,
    *,
    regime: Regimes = "auto",
    joins: Joins = "summed",
    batch_size: int = 8,
    resume: bool = False,
    progress: Callable[[int, int], object] = lambda done, total: None,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[Moments, dict[str, str]]:
    """Moments, and the images that were skipped with the reasons.

    The moments so far go to `checkpoint` about every minute, at the end, and when `stop`, asked between batches, says
    so; `resume` goes on from there. What was killed and resumed gives the same patterns, bit for bit, as what was not;
    what was stopped in between, to rounding.
    """
    if batch_size < 1:
        raise PgigError(f"batch size must be at least 1, got {batch_size}")
    estimator = Estimator(model, regime, preprocessing=preprocess.facts, joins=joins)
    before = _resumed(checkpoint, folder, (regime, joins), preprocess, model) if resume else None
    if before is not None and before.layers:
        estimator.go_on_from(before)
    done: int = before.notes["done"] if before else 0
    seen = Seen(folder, before.notes.get("contents", "") if before else "")
    skipped: dict[str, str] = dict(before.notes["skipped"]) if before else {}

    def so_far() -> Moments:
        if before is None and not estimator.samples:
            name, reason = next(iter(skipped.items()))
            raise PgigError(f"none of the {len(folder.names)} images could be read; {name}: {reason}")
        notes = {"folder": folder.digest, "regime": regime, "joins": joins, "done": done, "skipped": skipped,
                 "contents": seen.digest}  # fmt: skip
        return replace(estimator.moments(), notes=notes)

    saved = time.monotonic()
    for now_done, batch in seen.folder.batches(preprocess, batch_size, done, skipped):
        estimator.update(batch)
        settled = now_done // SETTLED != done // SETTLED
        done = now_done
        if settled:
            estimator.settle()
        progress(done, len(folder.names))
        if stop() or (settled and time.monotonic() - saved > CHECKPOINT_SECONDS):
            so_far().save(checkpoint)
            saved = time.monotonic()
        if stop():
            raise KeyboardInterrupt
    done = len(folder.names)
    moments = so_far()
    moments.save(checkpoint)
    return moments, skipped


def _resumed(
    checkpoint: Path, folder: ImageFolder, asked: tuple[Regimes, Joins], preprocess: Preprocess, model: nn.Module
) -> Moments | None:
    if not checkpoint.exists():
        return None
    before = Moments.load(checkpoint)
    for what, found, expected in (
        ("images", before.notes.get("folder"), folder.digest),
        ("regime", before.notes.get("regime"), asked[0]),
        ("joins", before.notes.get("joins", "summed"), asked[1]),
        ("preprocessing", plain(before.preprocessing), plain(preprocess.facts)),
        ("weights", before.digest, Subject.of(model).digest),
    ):
        if found != expected:
            raise PgigError(f"cannot resume from {checkpoint}: it was made with other {what}. Delete it to begin anew")
    again = Seen(folder, "")
    for name in folder.names[: before.notes["done"]] if before.notes.get("contents") else ():
        with suppress(PgigError, *DAMAGED):  # it was skipped then too, or the digest differs
            again.folder.read(name)
    if again.digest and again.digest != before.notes["contents"]:
        raise PgigError(
            f"cannot resume from {checkpoint}: an image file is another than when it was read. Delete it to begin anew"
        )
    return before


class Seen:
    """A folder that keeps a digest of all the files that were read from it, in order."""

    def __init__(self, folder: ImageFolder, digest: str) -> None:
        self._read, self.digest = folder.read, digest
        self.folder = ImageFolder(folder.names, self._noted)

    def _noted(self, name: str) -> bytes:
        content = self._read(name)
        self.digest = blake2b(self.digest.encode() + content, digest_size=16).hexdigest()
        return content


def plain(values: object) -> str:
    """Tuples come back from a file as lists."""
    return repr(values).replace("(", "[").replace(")", "]")
