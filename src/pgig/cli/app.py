"""pgig app"""

import os
import sys
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgig.cli.command import app as command
from pgig.cli.groups import grouped
from pgig.cli.options import ModelOptions, PatternsOption, PreprocessOptions, Threads, patterns_file
from pgig.cli.terminal import console, errors
from pgig.errors import PgigError

if TYPE_CHECKING:
    from pgig.app.network import Network

PASSWORD = "PGIG_APP_PASSWORD"  # the variable of the environment
_HOW_TO_COMPARE = "Start `pgig app` with `--other-model` or `--other-weights` to compare with another network."


@dataclass(frozen=True)
class OtherOptions:
    """A second network, to compare with."""

    other_model: Annotated[str | None, typer.Option(help="Likewise, of a second network; without, the same.")] = None
    other_weights: Annotated[str | None, typer.Option(help="Its weights; alone: the same network with others.")] = None
    other_patterns: Annotated[str, typer.Option(help="Its patterns.")] = "auto"


@dataclass(frozen=True)
class ServerOptions:
    """Where the page is."""

    host: Annotated[str, typer.Option(help="The address to listen on; another than this machine's needs a user.")] = (
        "127.0.0.1"
    )
    port: Annotated[int | None, typer.Option(help="Without, the first free one from 7860 on.", min=0, max=65535)] = None
    auth: Annotated[
        str | None,
        typer.Option(metavar="USER", help=f"Who may come in; the password is asked for, or ${PASSWORD}."),
    ] = None
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False


@command.command("app")
@grouped
def app(
    network: ModelOptions,
    other: OtherOptions,
    server: ServerOptions,
    image: PreprocessOptions,
    patterns: PatternsOption = "auto",
    classes: Annotated[
        Path | None, typer.Option(help="Class names, one per line, line = class index; a named model brings its own.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Take patterns of other weights all the same.")] = False,
    threads: Threads = None,
) -> None:
    """Ask a network in the browser: drop a picture in, see what mattered, take it away and watch the score fall.

    The page is on this machine alone, and fetches nothing from elsewhere; ctrl-C ends it. Pictures that are dropped in
    stay in memory.

    Examples:
    `pgig app`

    `pgig app --model mynet:make --weights mynet.safetensors --patterns mynet-patterns.safetensors --classes names.txt`

    `pgig app --model squeezenet1_0 --weights one.safetensors --other-weights two.safetensors`

    `pgig app --host 0.0.0.0 --auth ada`
    """
    for package in ("gradio", "uvicorn", "fastapi"):
        if find_spec(package) is None:
            raise PgigError(f"the app needs {package}: pip install 'pgig[app]'")
    auth = _auth(server)
    from pgig.app.where import private_folder

    with private_folder():
        _serve(network, other, server, image, patterns, classes, force, auth)


def _serve(
    network: ModelOptions, other: OtherOptions, server: ServerOptions, image: PreprocessOptions, patterns: str,
    classes: Path | None, force: bool, auth: tuple[str, str] | None,
) -> None:  # fmt: skip
    from pgig.app.desk import Desk
    from pgig.app.network import load_network, told_apart, untrained
    from pgig.app.serve import serve
    from pgig.runs.photographs import photographs

    def load(model: str, weights: str | None, wanted: str, names: Path | None) -> "Network":
        from pgig.vision.models import load_model

        file = patterns_file(wanted, partial(load_model, model, weights))
        given = None if wanted.partition(":")[0] in ("auto", "none") else wanted
        return load_network(model, weights, image.preprocess(model, weights), file, names, force, given)

    networks = [load(network.model, network.weights, patterns, classes)]
    if networks[0].patterns is not None:
        verdict = networks[0].patterns.health().verdict
        errors.print(f"note: the verdict on these patterns: {verdict}", highlight=False, soft_wrap=True)
    if other.other_model is not None or other.other_weights is not None:
        same = other.other_model in (None, network.model)
        second = other.other_model or network.model
        networks.append(load(second, other.other_weights, other.other_patterns, classes if same else None))
    if (random := untrained(networks[0])) is not None:
        networks.append(random)
    desk = Desk(told_apart(networks), photographs(), how_to_compare=_HOW_TO_COMPARE)

    def ready(address: str) -> None:
        console.print(f"the page is {address} (ctrl-C ends it)", highlight=False, soft_wrap=True)
        if server.open_browser:
            typer.launch(address)

    serve(desk, host=server.host, port=server.port, auth=auth, ready=ready)


def _auth(server: ServerOptions) -> tuple[str, str] | None:
    """Refused before anything is loaded."""
    from pgig.app.where import is_loopback

    if server.auth is None:
        if not is_loopback(server.host):
            raise PgigError(f"on {server.host} others can reach it: that needs a user and a password", lacks="a user")
        return None
    if not server.auth.strip():
        raise PgigError("the user of the app needs a name, got nothing")
    if not (password := os.environ.get(PASSWORD, "")):
        if not sys.stdin.isatty():
            raise PgigError(f"the password of {server.auth} is asked for on a terminal: elsewhere, set {PASSWORD}")
        password = typer.prompt(f"password for {server.auth}", hide_input=True)
    return server.auth, password
