"""pgig degrade: `pgig bench` with one measure, as the paper has it."""

from pathlib import Path
from typing import Annotated

import typer

from pgig.cli.backend_options import BackendOptions
from pgig.cli.command import app
from pgig.cli.config_file import options_from_file
from pgig.cli.groups import grouped
from pgig.cli.options import (
    ExecutionOptions,
    MethodOptions,
    ModelOptions,
    PreprocessOptions,
    ProtocolOptions,
)
from pgig.cli.running import Measures, Options, RunOptions, carry_out


@app.command()
@grouped
def degrade(
    context: typer.Context,
    network: ModelOptions,
    run: RunOptions,
    asked: MethodOptions,
    protocol_options: ProtocolOptions,
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
    """Measure which method's ranking of patches makes the model's score fall fastest: `pgig bench` with one measure.

    A run is a folder. It can be stopped at any moment; the same command goes on where it stopped.

    Examples:
    `pgig degrade --model vgg16 --weights default --patterns vgg16.safetensors --images imagenet/val --out runs/vgg16`

    `pgig degrade --model mynet:make --images photos/ --methods integrated_gradients,mine:explain --out runs/mine`

    `pgig degrade --config runs/vgg16/config.toml --attributions-from runs/vgg16 --fill blur --out runs/vgg16-blur`
    """
    options = Options(context, config, network, run, asked, execution, place, image)
    carry_out(options.request(protocol_options.as_protocol(), Measures()))
