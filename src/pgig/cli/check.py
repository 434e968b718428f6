"""pgig check"""

from typing import TYPE_CHECKING

import typer

from pgig.cli.command import app
from pgig.cli.options import Model, Size, Threads, Weights
from pgig.cli.terminal import visible
from pgig.errors import PgigError
from pgig.vision.names import DEFAULT_MODEL, is_factory

if TYPE_CHECKING:
    from torch import Tensor, nn


@app.command()
def check(
    model: Model = DEFAULT_MODEL,
    weights: Weights = "random",
    size: Size = None,
    threads: Threads = None,
) -> None:
    """Look at a model before you rely on it: how every operation is treated, and a self-test of the rules.

    Also which evaluator a degradation run would use on it, and why.

    Exit code 0 if pattern methods can be trusted on it, 2 if not.

    Examples:
    `pgig check --model resnet50`

    `pgig check --model mynet:make --size 64`

    `pgig check --model timm:mobilenetv3_small_100`
    """
    from pgig.explaining.check import check as preflight
    from pgig.vision.models import check_image, default_preprocess, load_model
    from pgig.vision.preprocess import example

    network = load_model(model, None if is_factory(model) and weights == "random" else weights)
    size = default_preprocess(model, weights).size if size is None else size
    check_image(network, size)
    image = example(size)
    report = preflight(network, image)
    print(visible(str(report), lines=True))  # noqa: T201 (a wide table: no wrapping)
    print(f"degradation: {_evaluator(network, image, size)}")  # noqa: T201
    if not report.ok:
        raise typer.Exit(2)


def _evaluator(network: "nn.Module", image: "Tensor", size: int) -> str:
    """Which one a degradation run would use, or why there can be none."""
    from pgig.degradation import Protocol
    from pgig.measures.evaluators import Wish, choose
    from pgig.vision.models import classes_of

    try:
        classes_of(network, size)
    except PgigError as error:
        return f"not possible: {error}"
    return choose(Wish(), network, image, Protocol(patch=min(9, size), steps=1)).note
