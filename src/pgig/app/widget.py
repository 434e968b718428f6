"""The page's views inside a notebook: maps over a picture, and what becomes of the score when parts are taken away."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import traitlets
from torch import nn

from pgig.app.answers import answers, in_order, question_of
from pgig.app.assets import asset
from pgig.app.network import Network
from pgig.app.removal import removals, shown_removal
from pgig.app.shown import shown_map
from pgig.app.visitors import Visitor
from pgig.errors import PgigError
from pgig.explainers.registry import explainers
from pgig.explainers.together import needing_patterns
from pgig.patterns.kept import find_patterns
from pgig.patterns.patterns import Patterns
from pgig.runs.explain import is_blank, photo
from pgig.subject.subject import Subject
from pgig.vision.models import classes_of
from pgig.vision.preprocess import Preprocess

try:
    import anywidget
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("pgig.widget needs anywidget: pip install 'pgig[app]'", name="anywidget") from error


class Widget(anywidget.AnyWidget):
    """All is computed when it is made: its sliders need no kernel, and a saved notebook keeps them."""

    _esm = "\n".join(asset(f"{name}.js") for name in ("common", "maps", "removal", "widget"))
    _style = traitlets.Unicode(asset("app.css")).tag(sync=True)
    maps = traitlets.Dict().tag(sync=True)
    removal = traitlets.Dict().tag(sync=True)


def widget(
    model: nn.Module | Subject,
    image: str | Path,
    methods: str | Sequence[str] = ("integrated_gradients", "pgig"),
    target: int | None = None,
    *,
    preprocess: Preprocess | None = None,
    names: Sequence[str] = (),
    fill: str = "mean",
) -> Widget:
    """Maps of an image file with one opacity and zoom for all, and a slider that takes the top patches away.

    model: a module in eval mode, or a `Subject` with its patterns; without, those that are kept for its weights.
    methods: names as `pgig.explain` takes them; the first two are compared by taking away. What needs patterns that
        there are not is left out.
    target: a class; without, the likeliest. names: of the classes. fill: what is put in a patch's place.

    Needs anywidget: pip install 'pgig[app]'.

    preprocess: how the model wants images; without, ImageNet's usual way.

    Raises PgigError without anywidget, for a file that is no image, and for methods or a class that there are not.

    >>> shown = pgig.widget(model, "cat.jpg", ["gradient", "occlusion"])  # doctest: +SKIP
    """
    subject = Subject.of(model)
    table = explainers(methods)
    if subject.patterns is None and needing_patterns(table):
        subject = subject.with_patterns(find_patterns(subject))
    patterns = subject.patterns if isinstance(subject.patterns, Patterns) else None
    preprocess = preprocess or Preprocess()
    classes = classes_of(subject.module, preprocess.size)
    network = Network("model", None, subject, preprocess, names, patterns, classes)
    lacking = needing_patterns(table) if subject.patterns is None else []
    wanted = [name for name in table if name not in lacking]
    if not wanted:
        raise PgigError(f"{lacking[0]} needs patterns", lacks="patterns")
    path = Path(image)
    if not path.is_file():
        raise PgigError(f"no image at {path}")
    picture = network.picture(path.read_bytes(), path.stem)
    if target is not None and not 0 <= target < classes:
        raise PgigError(f"no class {target}: the model knows {classes}, from 0 to {classes - 1}")
    question = question_of(network, [network.likeliest(picture)[0][0] if target is None else target])
    *_, found = answers(network, Visitor(), picture, question, wanted)
    explanations = in_order(found, wanted)
    if not explanations:
        raise PgigError(next(iter(found.left_out.values())))
    ranking = {name: one for name, one in explanations.items() if not is_blank(one)}
    *_, last = removals(network, picture, dict(list(ranking.items())[:2]), fill)
    asked = (int(question.target or 0),)
    left_out = {**dict.fromkeys(lacking, "it needs patterns"), **found.left_out}
    maps: dict[str, Any] = {
        "photo": photo(picture), "title": question.title, "left_out": left_out,
        "maps": [shown_map(one, picture) for one in explanations.values()],
    }  # fmt: skip
    return Widget(maps=maps, removal=shown_removal(network, picture, last, asked))
