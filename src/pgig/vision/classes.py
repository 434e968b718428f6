"""Names of classes: those that a model was made for, and finding one by what a person calls it."""

from collections.abc import Sequence
from difflib import get_close_matches
from importlib.resources import files

from pgig.errors import PgigError
from pgig.vision.names import MODEL_NAMES

_IMAGENET = 1000


def imagenet_classes() -> list[str]:
    """ImageNet's thousand, in the order of the class index.

    They come with pgig: no error is expected.

    >>> len(pgig.vision.imagenet_classes()), pgig.vision.imagenet_classes()[285]
    (1000, 'Egyptian cat')
    """
    return files("pgig.vision").joinpath("imagenet_classes.txt").read_text(encoding="utf-8").splitlines()


def default_classes(model: str, weights: str | None, module: object, count: int) -> list[str]:
    """ImageNet's, of a named model with a thousand classes and weights; a model's own (transformers'); or none."""
    if model in MODEL_NAMES:
        return imagenet_classes() if count == _IMAGENET and weights != "random" else []
    own = getattr(getattr(module, "config", None), "id2label", None)
    if not isinstance(own, dict) or set(own) != set(range(count)) or own[0] == "LABEL_0":
        return []
    return [str(own[index]) for index in range(count)]


def class_of(text: str, names: Sequence[str], count: int) -> int:
    """A class by its index, or by its name, whatever its capitals."""
    wanted = " ".join(text.split()).casefold()
    if wanted.removeprefix("-").isdecimal():
        if not 0 <= int(wanted) < count:
            raise PgigError(f"no class {int(wanted)}: the model knows {count}, from 0 to {count - 1}")
        return int(wanted)
    found = [index for index, name in enumerate(names[:count]) if name.casefold() == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        raise PgigError(f"{text!r} are several classes: give one of the numbers {', '.join(map(str, found))}")
    if not names:
        raise PgigError(f"no class {text!r}: the names of this model's classes are not known", lacks="class names")
    if not wanted:
        raise PgigError("a class has a number or a name, got nothing")
    folded = {name.casefold(): name for name in names}
    near = [name for name in names if wanted in name.casefold().split()]  # a cat is an Egyptian cat sooner than a cart
    near += [folded[name] for name in get_close_matches(wanted, folded, 4, 0.5) if folded[name] not in near]
    hint = f"; did you mean {', '.join(repr(name) for name in near[:4])}?" if near else ""
    raise PgigError(f"no class is called {text!r}{hint}")


def name_of(index: int, names: Sequence[str]) -> str:
    return names[index] if index < len(names) and names[index] else f"class {index}"
