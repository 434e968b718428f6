"""Three photographs of an installed package, explained on the default network: the beginning of the demo."""

from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path

from pgig.errors import PgigError
from pgig.patterns.kept import find_file
from pgig.report.benchmarked import Benchmarked
from pgig.report.explained import ShownPicture
from pgig.runs.explaining import Explaining
from pgig.vision.models import default_preprocess
from pgig.vision.names import DEFAULT_MODEL

_PHOTOGRAPHS = "chelsea.png", "coffee.png", "rocket.jpg"


def photographs() -> list[Path]:
    """scikit-image's cat, cup and rocket."""
    try:
        folder = files("skimage").joinpath("data")
        found = [Path(str(folder.joinpath(name))) for name in _PHOTOGRAPHS]
    except ModuleNotFoundError:
        found = []
    if not found or not all(path.is_file() for path in found):
        raise PgigError("the photographs of the demo are scikit-image's: pip install scikit-image")
    return found


def explain_photographs(
    out: Path, progress: Callable[[int, int], object]
) -> tuple[Sequence[ShownPicture], Benchmarked | None]:
    """With a page of their own in `out`; and what the benchmark says of methods on their network."""

    def patterns_file(load: Callable[..., object]) -> Path | None:
        found = find_file(load())  # type: ignore[arg-type]
        return None if found is None else found.path

    work = Explaining(
        images=photographs(), model=DEFAULT_MODEL, weights=None, preprocess=default_preprocess(DEFAULT_MODEL, None),
        methods="quick", patterns_file=patterns_file, force=False, references=None, score="probability", seed=0,
        targets=(), contrasts=(), top=None, classes=None, out=out, save_arrays=False, formats=("png",), options={},
        batch_size=None,
    )  # fmt: skip
    for number, _ in enumerate(work.pictures()):
        work.explain_current(lambda done, total, number=number: progress(100 * number + 100 * done // total, 300))  # type: ignore[misc]
    work.close()
    return work.shown, work.benchmarked
