"""pgig bench"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from pgig.cli.backend_options import BackendOptions
from pgig.cli.command import app
from pgig.cli.config_file import options_from_file
from pgig.cli.groups import grouped
from pgig.cli.options import ExecutionOptions, MethodOptions, ModelOptions, PreprocessOptions
from pgig.cli.running import Measures, Options, RunOptions, carry_out
from pgig.errors import PgigError


@dataclass(frozen=True)
class MeasureOptions:
    """What is measured."""

    measures: Annotated[
        str,
        typer.Option(
            help="Names, comma between (`pgig measures`); `all`; `core`: those that need no explaining anew. Constants "
            "after a plus: `morf+fill=blur`, `insertion+unit=superpixel`."
        ),
    ] = "core"
    masks: Annotated[
        Path | None,
        typer.Option(help="For localization: a folder of mask images, or a CSV of file,left,top,right,bottom."),
    ] = None
    patch: Annotated[int, typer.Option(help="Side of a patch, in pixels, of all measures of patches.")] = 9
    steps: Annotated[int, typer.Option(help="Patches that degradation replaces, one by one.")] = 100


@app.command()
@grouped
def bench(
    context: typer.Context,
    network: ModelOptions,
    run: RunOptions,
    asked: MethodOptions,
    wanted: MeasureOptions,
    execution: ExecutionOptions,
    place: BackendOptions,
    image: PreprocessOptions,
    config: Annotated[
        Path | None,
        typer.Option(
            help="Options from a TOML file, such as a run's config.toml.", callback=options_from_file, is_eager=True
        ),
    ] = None,
) -> None:
    """Measure attributions in many ways: all methods explain every image once, and every measure judges what they say.

    A run is a folder. It can be stopped at any moment; the same command goes on where it stopped.

    Examples:
    `pgig bench --images photos/ --methods quick --out runs/photos`

    `pgig bench --model vgg16 --weights default --images imagenet/val --measures all --out runs/vgg16`

    `pgig bench --images photos/ --measures morf,morf+fill=blur,insertion+unit=pixel,road --out runs/protocols`

    `pgig bench --images /shared/imagenet/val --methods all --backend ray --address auto --out /shared/run`

    `pgig bench --images dogs/ --measures core,localization --masks boxes.csv --out runs/dogs`
    """
    from pgig.degradation.protocol import Protocol
    from pgig.records.measures import asked_measures

    options = Options(context, config, network, run, asked, execution, place, image)
    constants = (("patch", wanted.patch), ("steps", wanted.steps))
    found = asked_measures(wanted.measures, dict(constants), masks=wanted.masks is not None)
    if wanted.masks is not None and not any(one.needs == "masks" for one in found.values()):
        raise PgigError("masks are for localization, which is not among --measures")
    carry_out(options.request(Protocol(patch=wanted.patch, steps=1), Measures(tuple(found), constants, wanted.masks)))
