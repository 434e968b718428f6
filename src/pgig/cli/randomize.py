"""pgig randomize"""

from pathlib import Path
from typing import Annotated, Any

import typer

from pgig.cli.backend_options import BackendOptions
from pgig.cli.command import app
from pgig.cli.groups import grouped
from pgig.cli.options import (
    Images,
    ModelOptions,
    PatternsOption,
    PreprocessOptions,
    Threads,
    check_apart,
    patterns_file,
)
from pgig.cli.terminal import console, errors, goes_on, standing_of
from pgig.errors import PgigError
from pgig.files import check_target


@app.command()
@grouped
def randomize(
    network: ModelOptions,
    images: Images,
    out: Annotated[Path, typer.Option(help="Folder of the run; given again, it goes on.")],
    image: PreprocessOptions,
    place: BackendOptions,
    patterns: PatternsOption = "auto",
    estimate_from: Annotated[
        Path | None,
        typer.Option(help="Images to estimate patterns from anew at every stage; without, only frozen ones."),
    ] = None,
    methods: Annotated[
        str,
        typer.Option(
            help="Names, comma between; `all`: the paper's ten and random; also variants such as `pgig+start=one`, and "
            "`module:name` for your own."
        ),
    ] = "gradient,integrated_gradients,guided_backprop,pattern_attribution,pgig",
    limit: Annotated[int, typer.Option(help="Only the first N images.")] = 20,
    estimate_limit: Annotated[int, typer.Option(help="Only the first N images of the estimation.")] = 50,
    modes: Annotated[str, typer.Option(help="`cascading`, `independent`, comma between.")] = "cascading,independent",
    layers: Annotated[int | None, typer.Option(help="Only N layers, evenly spread; without, every layer.")] = None,
    score: Annotated[str, typer.Option(help="`probability` or `logit`.")] = "probability",
    seed: Annotated[int, typer.Option(help="Of all random draws.")] = 0,
    threads: Threads = None,
) -> None:
    """Measure how attributions change when layers of the model are randomised, from the top.

    Rank correlation and SSIM between the attributions of the model and of the randomised one, for the class that the
    model itself predicts. Pattern methods are asked with their patterns frozen and with patterns estimated anew. The
    run is a folder with a table, a figure and a page; stopped, the same command goes on.

    Examples:
    `pgig randomize --model vgg16 --weights default --patterns vgg16.safetensors --images val --estimate-from train
    --layers 6 --out sanity`

    `pgig randomize --images photos --backend processes --workers 4 --out sanity`

    `pgig randomize --model mynet:make --images photos --methods gradient,integrated_gradients --out sanity`
    """
    from pgig.explainers.registry import explainers, names_in
    from pgig.explainers.together import needing_patterns
    from pgig.patterns.kept import read_patterns
    from pgig.runs.ownership import owned
    from pgig.runs.randomize import Randomization, run_randomization
    from pgig.vision.image_folder import ImageFolder
    from pgig.vision.models import load_model

    if limit < 1 or estimate_limit < 1:
        raise PgigError("limits must be at least 1")
    check_target(out / "config.toml")
    check_apart(out, images)
    listed: Any = tuple(dict.fromkeys(mode.strip() for mode in modes.split(",") if mode.strip()))
    model = load_model(network.model, network.weights)
    chosen = names_in(methods)
    file = patterns_file(patterns, lambda: model) if needing_patterns(explainers(chosen)) else None
    found = None if file is None else read_patterns(file, model)
    ImageFolder.open(images)  # before there is a folder of the run
    job = Randomization(
        model=network.model, weights=network.weights, place=images, limit=limit,
        preprocess=image.preprocess(network.model, network.weights), methods=tuple(chosen), out=out,
        estimation_place=estimate_from, estimation_limit=estimate_limit, threads=threads,
        modes=listed, layers=layers, score=score, seed=seed,  # type: ignore[arg-type]
    )  # fmt: skip
    with owned(out):
        with goes_on(out), standing_of(f"{out.name}: randomised layers") as say:
            headway = run_randomization(job, model, found, say, place.where())
        if headway.aside:
            raise PgigError(f"{len(headway.aside)} stages were the end of every worker that tried them: see {out}")
        from pgig.report.randomization import doubt_of, write_randomization  # matplotlib is slow to load

        page = write_randomization(out)
    if score == "probability" and (doubt := doubt_of(out)):
        errors.print(f"{doubt} (--score logit)", highlight=False, soft_wrap=True)
    if skipped := (out / "skipped.csv").read_text(encoding="utf-8").count("\n") - 1:
        errors.print(
            f"{skipped} of the images could not be read: see {out}/skipped.csv", highlight=False, soft_wrap=True
        )
    console.print(f"done: {page}, with {out}/table.csv and {out}/randomization.png", highlight=False, soft_wrap=True)
