"""What a run writes into its configuration, and whether another run's attributions fit it."""

from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy
import torch

from pgig import __version__
from pgig.digests import digest_of
from pgig.errors import PgigError
from pgig.patterns.patterns import Patterns
from pgig.records.config import Section, read_config
from pgig.records.part_files import check_sums
from pgig.records.parts import parts_of
from pgig.runs.job import Job, grid_of
from pgig.runs.masks import Masks
from pgig.runs.request import Request
from pgig.runs.where import Where
from pgig.vision.image_folder import ImageFolder


def known_at_once(asked: Request, names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """What can be compared before anything is built."""
    protocol = {} if asked.measures else asdict(asked.protocol)
    protocol.pop("patch", None)
    measures = {label: dict(found.constants) for label, found in asked.judged_by.items()}
    own = {} if asked.attributions_from is not None else {
        "explained_score": asked.score, "seed": asked.seed, "patch": asked.protocol.patch, "target": asked.target,
    }  # fmt: skip
    return {
        "images": {
            "count": len(names), "digest": digest_of("\n".join(names)), **_listed(asked.preprocess.facts),
            "max_pixels": asked.preprocess.max_pixels,
        },
        "model": {"model": asked.model},
        "attributions": {"methods": list(asked.methods), **own},
        "degradation": {**protocol, "score": asked.score, "order_seed": asked.seed, "scored": asked.target},
        **({"measures": measures} if asked.measures else {}),
    }  # fmt: skip


def sections_of(job: Job, where: Where, patterns: Patterns | None) -> dict[str, Section]:
    asked = job.asked
    known = known_at_once(asked, job.names)
    return {
        "images": known["images"],
        "model": {**known["model"], "weights_digest": job.digest},
        "attributions": _attributions(job, patterns, known["attributions"]),
        "degradation": {**known["degradation"], "evaluator": job.evaluator, "labels_digest": _labels_digest(job)},
        **({"measures": known["measures"]} if asked.measures else {}),
        **({"masks": {"masks_digest": Masks.open(asked.masks).digest}} if asked.masks and asked.needs_masks else {}),
        "versions": {
            "pgig": __version__, "torch": str(torch.__version__), "numpy": numpy.__version__,
            "pillow": version("pillow"),
        },
        "files": {
            "images": str(asked.images), "weights": asked.weights, "patterns": _text(asked.patterns),
            "references": _text(asked.references), "labels": _text(asked.labels),
            "masks": _text(asked.masks),
            "attributions_from": _text(asked.attributions_from),
        },
        "execution": {
            "backend": where.backend, "workers": where.workers,
            "batch_size": job.batch_size, "threads": asked.threads, "memory": asked.memory,
        },
    }  # fmt: skip


def check_reusable(job: Job, folder: Path, sections: dict[str, Section]) -> None:
    """Saved attributions are of use for the same images, preprocessing and model."""
    before = read_config(folder / "config.toml")
    for section in ("images", "model"):
        for key, value in sections[section].items():
            if key != "max_pixels" and (found := before[section].get(key)) != value:
                raise PgigError(f"the attributions in {folder} are of another run: {key} was {found!r}, now {value!r}")
    patch, wanted = before["attributions"].get("patch"), grid_of(job.asked).patch
    if patch != wanted:
        raise PgigError(f"the attributions in {folder} are for patches of {patch} pixels, not {wanted}")
    if missing := set(sections["attributions"]["methods"]) - set(before["attributions"].get("methods", [])):
        raise PgigError(f"{folder} has no attributions by {', '.join(sorted(missing))}")
    for part in parts_of(job.names):
        check_sums(folder, part)


def _attributions(job: Job, patterns: Patterns | None, known: Section) -> Section:
    """What the order of patches depends on; for attributions of another run, what that run says."""
    asked = job.asked
    if asked.attributions_from is not None:
        before = read_config(asked.attributions_from / "config.toml")["attributions"]
        return {**before, **known}
    references = digest_of("\n".join(ImageFolder.open(asked.references).names)) if asked.references else None
    return {
        **known,
        "patterns_digest": None if patterns is None else patterns.content_digest(),
        "references_digest": references,
        "references_contents": job.references_contents,
    }


def _labels_digest(job: Job) -> str | None:
    """Of the labels of the run's images, where there are any."""
    return digest_of("\n".join(f"{name} {label}" for name, label in sorted(job.labels.items()))) if job.labels else None


def _listed(values: dict[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
