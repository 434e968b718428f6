"""Explaining pictures: which methods can, what they say, and writing it down."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from safetensors.numpy import save_file
from torch import Tensor, nn

from pgig.drawing.figures import show
from pgig.errors import PgigError
from pgig.explainers.registry import explainers, names_in
from pgig.explainers.together import needing_patterns, needing_references
from pgig.explaining.explain import explain
from pgig.files import written
from pgig.network.trace import trace
from pgig.records.explanation import Explanation
from pgig.subject.subject import Subject
from pgig.vision.models import output_for
from pgig.vision.pictures import Picture


def chosen_methods(names: str, has_patterns: bool, has_references: bool) -> tuple[list[str], dict[str, list[str]]]:
    """The methods that `names` stands for, and those that "all" has to leave out, by what they lack."""
    listed = names_in(names)
    table = explainers(listed)
    lacking = {
        "patterns": [] if has_patterns else needing_patterns(table),
        "references": [] if has_references else needing_references(table),
    }
    for what, needing in lacking.items():
        if needing and names.strip() != "all":
            raise PgigError(f"{needing[0]} needs {what}", lacks=what)
    left_out = {name for needing in lacking.values() for name in needing}
    return [name for name in listed if name not in left_out], {what: found for what, found in lacking.items() if found}


def predictions(model: nn.Module, picture: Picture, most: int = 5) -> list[tuple[int, float]]:
    """The likeliest classes with their probabilities."""
    output = output_for(model, picture.x)
    if output.dim() != 2:
        raise PgigError("the model does not return one row of class scores per image")
    values, indices = output.softmax(1)[0].topk(min(most, output.shape[1]))
    return list(zip(indices.tolist(), values.tolist(), strict=True))


def has_rectifier(model: nn.Module, picture: Picture) -> bool:
    return any(step.treatment == "gate" for step in trace(model, picture.x).steps)


def explain_picture(
    subject: Subject,
    picture: Picture,
    methods: Sequence[str],
    target: int,
    references: Sequence[Tensor] = (),
    *,
    progress: Callable[[int, int], object] | None = None,
    **options: Any,
) -> dict[str, Explanation]:
    """Explanations of one picture. Random draws go by its name: they do not depend on what else is explained."""
    drawn_from = torch.cat(list(references)) if references else None
    return explain(
        subject, picture.x, methods, target, references=drawn_from, ids=[picture.name], progress=progress, **options
    )


def write_explanations(
    explanations: Mapping[str, Explanation], picture: Picture, out: Path, *, save_arrays: bool = False
) -> None:
    """Heat maps, a sheet of all, and arrays if wished, to a folder of the picture's own."""
    folder = out / picture.name
    for name, explanation in explanations.items():
        with written(folder / f"{name}.png") as path:
            Image.fromarray(explanation.heatmap()).save(path)
    arrays = {name: explanation.attribution[0] for name, explanation in explanations.items()}
    with written(folder / "sheet.png") as path:
        show(arrays, picture.pixels, path=path)
    if save_arrays:
        with written(folder / "attributions.safetensors") as path:
            save_file(arrays, path)
