"""References: the images that expected gradients draw their baselines from."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

import torch
from torch import Tensor

from pgig.digests import digest_of, digest_of_file
from pgig.draws import draws
from pgig.errors import PgigError
from pgig.explainers.protocol import Explainer
from pgig.explainers.together import needing_references
from pgig.runs.request import Request
from pgig.vision.image_folder import DAMAGED, ImageFolder

_POOL = 64  # images, at most


def draws_references(asked: Request, table: Mapping[str, Explainer]) -> bool:
    return asked.attributions_from is None and bool(needing_references(table))


def reference_pool(asked: Request, names: Sequence[str], images: ImageFolder) -> tuple[dict[str, Tensor], str]:
    """Some images of the reference folder, or of the run, drawn by the seed; and a digest of their files."""
    folder = ImageFolder.open(asked.references) if asked.references else ImageFolder(tuple(names), images.read)
    order = torch.randperm(len(folder.names), generator=draws(asked.seed, "references", "pool")(0)).tolist()
    pool: dict[str, Tensor] = {}
    contents: list[str] = []
    for index in order:
        name = folder.names[index]
        try:
            content = folder.read(name)
            pixels = asked.preprocess.pixels(BytesIO(content), name)
        except (PgigError, *DAMAGED):
            continue
        contents.append(f"{name} {digest_of_file(content)}")
        same = asked.references is None or asked.references.resolve() == Path(asked.images).resolve()
        # a reference from elsewhere is never the image explained
        pool[name if same else f"{asked.references}:{name}"] = asked.preprocess.normalise(pixels)
        if len(pool) == _POOL:
            break
    if len(pool) < (2 if asked.references is None else 1):
        raise PgigError("expected_gradients needs other images that can be read", lacks="references")
    return pool, digest_of("\n".join(contents))
