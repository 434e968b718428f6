"""Explanations: what explaining gives, as plain data that is drawn, saved and read without torch."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from pgig import __version__
from pgig.drawing.figures import show
from pgig.drawing.heatmaps import heatmap
from pgig.errors import PgigError
from pgig.files import written
from pgig.sealing import BLANK, check_seal, seal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Arrays = NDArray[Any] | tuple[NDArray[Any], ...]
_MARK = "pgig explanation"
_LARGE = "attribution", "input"  # one array for each member where the input is a tuple
_PER_INPUT = "target", "predicted", "probability", "completeness"
_SHOWN = 8  # inputs of a batch, in a notebook


@dataclass(frozen=True, eq=False)
class Explanation:
    """One method's attributions of a batch; `explanation[i]` is that of one input.

    What `pgig.explain` gives, as NumPy data: it is saved, read and drawn without torch.

    method, options: by which, and its options.
    attribution, input: arrays [n, ...] of the same shape.
    score, target, predicted, probability: what was explained, of which class; the likeliest, and how likely `target`
    is.
    completeness: how far the attribution's sum is from what it should be, where the method promises one.
    weights_digest, patterns_digest: of what it stands on; None where the model is no module, or there were no patterns.
    seconds: that the method took, with those that shared its passes.
    label: as drawn. signed: is there a for and against? nothing: up to where magnitudes are drawn as nothing.
    sentence: what the method says, in words. version: of pgig.

    Raises PgigError where arrays do not fit, or a file (`load`) is none of these.

    >>> one = pgig.explain(torch.nn.Linear(2, 3).eval(), torch.ones(4, 2), "gradient", score="logit")["gradient"]
    >>> one.attribution.shape, one.predicted.shape, one[0].attribution.shape
    ((4, 2), (4,), (1, 2))
    """

    method: str
    attribution: Arrays  # [n, *input]
    input: Arrays  # likewise
    options: Mapping[str, Any] = field(default_factory=dict)  # of the method, as they were used
    score: str = "probability"  # what was explained
    target: NDArray[Any] | None = None  # [n], or [n, axes] for outputs of more dimensions; None: the score says it all
    predicted: NDArray[Any] | None = None  # [n], where the model gives one row of class scores per input
    probability: NDArray[Any] | None = None  # [n]: of the predicted class
    completeness: NDArray[Any] | None = None  # [n]: sum(attribution) - (f(x) - f(x0)), where that is a law
    weights_digest: str | None = None
    patterns_digest: str | None = None
    seconds: float = 0.0  # for the whole batch; what methods share is shared out evenly
    label: str = ""  # what was asked, in words
    signed: bool = True  # has it two sides, for and against? Otherwise it is drawn by magnitude
    nothing: float = 0.0  # the value, summed over channels, up to which nothing is drawn where there are no sides
    sentence: str = ""  # how to read its colours
    version: str = __version__  # of pgig, that made it

    def __post_init__(self) -> None:
        for one, other in zip(_members(self.attribution), _members(self.input), strict=True):
            if one.shape != other.shape:
                raise PgigError(f"an attribution of shape {one.shape} is not one of an input of shape {other.shape}")

    def __len__(self) -> int:
        return len(_members(self.attribution)[0])

    def __iter__(self) -> Iterator["Explanation"]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, number: int) -> "Explanation":
        """That of one input, still with a batch axis."""
        if not -len(self) <= number < len(self):
            raise IndexError(f"there are {len(self)} inputs, and no number {number}")
        at = slice(number % len(self), number % len(self) + 1)
        cut: dict[str, Any] = {name: _each(getattr(self, name), lambda array: array[at]) for name in _LARGE}
        for name in _PER_INPUT:
            cut[name] = None if getattr(self, name) is None else getattr(self, name)[at]
        return replace(self, **cut, seconds=self.seconds / len(self))

    def __repr__(self) -> str:
        shapes = " and ".join(str(array.shape) for array in _members(self.attribution))
        return f"Explanation by {self.method} of {shapes}, in {self.seconds:.2f} s"

    def heatmap(self, number: int = 0, *, overlay: bool = False) -> NDArray[numpy.uint8]:
        """RGB pixels of one input's attribution: red for the class, blue against it; purple without sides."""
        one = self[number]
        return heatmap(
            one._image("attribution"), one._image("input") if overlay else None, signed=self.signed,
            nothing=self.nothing,
        )  # fmt: skip

    def show(self, **options: Any) -> "Figure":
        """A figure: the inputs and their heat maps. Options are those of `pgig.show`."""
        cells: dict[str, Any] = {}
        for number, one in enumerate(self):
            name = self.method if len(self) == 1 else f"{number}: {self.method}"
            plain = not isinstance(one.attribution, tuple)
            cells[f"{name}\n{one.told}"] = one if plain else one._image("attribution")[0]
        image = self._image("input")[0] if len(self) == 1 else None
        return show(cells, image, **{"magnitudes": not self.signed, **options})

    @property
    def told(self) -> str:
        """Of the first input: what is explained, in a few words."""
        words = []
        if self.target is not None:
            words.append(f"class {' '.join(map(str, numpy.ravel(self.target[0]).tolist()))}")
        if self.probability is not None and self.predicted is not None:
            words.append(f"predicted {int(self.predicted[0])} ({float(self.probability[0]):.0%})")
        return ", ".join(words)

    def save(self, path: str | Path) -> None:
        """As safetensors, with all that is known beside the arrays."""
        tensors = {f"{name}.{n}": a for name in _LARGE for n, a in enumerate(_members(getattr(self, name)))}
        tensors |= {name: getattr(self, name) for name in _PER_INPUT if getattr(self, name) is not None}
        about = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in (*_LARGE, *_PER_INPUT)}
        about |= {"options": dict(self.options), "is_tuple": isinstance(self.attribution, tuple), "seal": BLANK}
        with written(Path(path)) as temporary:
            contiguous = {name: numpy.ascontiguousarray(array) for name, array in tensors.items()}
            save_file(contiguous, temporary, {_MARK: json.dumps(about, default=str)})
            seal(temporary)

    @classmethod
    def load(cls, path: str | Path) -> "Explanation":
        """What `save` wrote."""
        if not Path(path).is_file():
            raise PgigError(f"no explanation at {path}")
        try:
            with safe_open(path, "np") as file:
                about = json.loads((file.metadata() or {}).get(_MARK, "null"))
                if not isinstance(about, dict):
                    raise PgigError(f"{path} does not hold an explanation")
                check_seal(Path(path), "explanation", "seal" in about)
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
            is_tuple = about.pop("is_tuple")
            about.setdefault("version", "")  # of files from before it was kept
            about.pop("seal")
            for name in _LARGE:
                keys = [key for key in tensors if key.startswith(f"{name}.")]
                members = tuple(tensors.pop(key) for key in sorted(keys, key=lambda key: int(key.rpartition(".")[2])))
                about[name] = members if is_tuple else members[0]
            return cls(**about, **tensors)
        except PgigError:
            raise
        except (SafetensorError, OSError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise PgigError(f"cannot read an explanation from {path}: {error}") from error

    def _repr_html_(self) -> str:
        """For notebooks: heat maps where the input is an image, and what is known beside them."""
        facts = {
            "method": self.method, "options": ", ".join(f"{k}={v}" for k, v in self.options.items()),
            "score": self.score, "inputs": len(self), "seconds": f"{self.seconds:.2f}",
        }  # fmt: skip
        rows = "".join(f"<tr><th>{escape(k)}</th><td>{escape(str(v))}</td></tr>" for k, v in facts.items())
        pictures = []
        for one in list(self)[:_SHOWN]:
            png = one._png()
            if png is not None:
                source = f"data:image/png;base64,{b64encode(png).decode()}"
                caption = f"<figcaption>{escape(one.told)}</figcaption>"
                pictures.append(f'<figure style="display:inline-block"><img src="{source}"/>{caption}</figure>')
        told = self.sentence or "red: for the class, blue: against it, white: nothing"
        legend = f"<p>{escape(told)}</p>" if pictures else ""
        return f"<table>{rows}</table>{''.join(pictures)}{legend}"

    def _png(self) -> bytes | None:
        """The first input's heat map; None where it is no image, or there is nothing to draw with."""
        try:
            from matplotlib.image import imsave

            pixels = self.heatmap()
        except (PgigError, ModuleNotFoundError):
            return None
        buffer = BytesIO()
        imsave(buffer, pixels, format="png")
        return buffer.getvalue()

    def _image(self, name: str) -> NDArray[Any]:
        array: Arrays = getattr(self, name)
        if isinstance(array, tuple) or array.ndim not in (3, 4):
            raise PgigError("this explanation is not one of images: its arrays are .attribution and .input")
        return array[:, None] if array.ndim == 3 else array


def _members(arrays: Arrays) -> tuple[NDArray[Any], ...]:
    return arrays if isinstance(arrays, tuple) else (arrays,)


def _each(arrays: Arrays, do: Callable[[NDArray[Any]], NDArray[Any]]) -> Arrays:
    return tuple(do(array) for array in arrays) if isinstance(arrays, tuple) else do(arrays)
