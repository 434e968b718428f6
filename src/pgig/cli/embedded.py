"""What the commands on generated images share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from pgig.errors import PgigError

if TYPE_CHECKING:
    from pgig.synthetic.networks import Variant

Out = Annotated[Path, typer.Option(help="Folder to write to.")]
EmbeddedModel = Annotated[str, typer.Option("--model", help="The embedded network: `plain`, or `bn` with batch norm.")]


def variant_of(model: str) -> "Variant":
    from pgig.synthetic.networks import Variant

    for variant in get_args(Variant):
        if model == variant:
            return variant  # type: ignore[no-any-return]
    raise PgigError(f"unknown embedded network {model!r}; choose one of: {', '.join(get_args(Variant))}")
