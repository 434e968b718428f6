"""Patterns: for each layer, the direction in its input that its units read, with the weights they belong to."""

import json
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from pgig.errors import PgigError, PgigWarning
from pgig.files import written
from pgig.network.layers import Layers
from pgig.sealing import BLANK, check_seal, seal

UNHEALTHY_SHARE = 0.2  # of the units: above it, a warning


@dataclass(frozen=True)
class LayerHealth:
    """How far a layer's pattern can be trusted."""

    regime: str
    units: int
    samples: int  # windows or rows seen
    active_share: float  # of them, in the regime; mean over units
    dead: int  # units never in the regime, or cut off by a zero norm: their pattern is zero
    weak: int  # units whose denominator is nearly zero: their pattern is the covariance within the regime
    negative: int  # units whose denominator is negative: likewise
    largest: float  # |p|
    error: float  # |w.p - 1|, over live units
    few: int = 0  # other units that were in the regime too few times


class Patterns(Mapping[str, Tensor]):
    """Layer name -> pattern, shaped like the layer's weight."""

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        digest: str | None = None,
        layers: Mapping[str, LayerHealth] | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        self._tensors = dict(tensors)
        self.digest = digest
        self.layers = dict(layers or {})
        self.facts = dict(facts or {})
        self._checked: list[tuple[int, int, float]] | None = None  # the quick look of the model that was right

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        return f"Patterns of {len(self)} layers, from {self.facts.get('samples', 'unknown')} samples"

    def health(self) -> "Health":
        """A table per layer; with what `with_quality` keeps, three columns more."""
        return Health(self.layers, self.facts)

    @property
    def unsupported(self) -> tuple[str, ...]:
        """Layers that have no pattern and keep their plain gradient."""
        return tuple(self.facts.get("unsupported", ()))

    def with_quality(self, quality: Mapping[str, Any]) -> "Patterns":
        """The same with what `pgig.signal_quality` found on held-out data: shown by `health()`, kept in files."""
        found = {name: [rho.weight, rho.pattern, rho.random] for name, rho in quality.items()}
        return Patterns(self, self.digest, self.layers, {**self.facts, "quality": found})

    def check(self, model: nn.Module) -> None:
        """Refuse a model with other weights than those the patterns were estimated for."""
        if self.digest is None:
            return
        if not isinstance(model, nn.Module):
            raise PgigError(f"patterns belong to a module, got {type(model).__name__}")
        look = _quick_look(model)
        if look == self._checked:
            return
        theirs = model_digest(model)
        if theirs != self.digest:
            found = _difference(self.digest, theirs)
            raise PgigError(
                f"these patterns were estimated for other weights than this model's: {found}. "
                "Estimate them anew for this model, or pass dict(patterns) (--force) to use them all the same"
            )
        self._checked = look

    def for_model(self, model: nn.Module) -> "Patterns":
        """The same patterns, tied to the weights of `model`: for those from elsewhere."""
        Layers(model, self, channels_last=False)  # refuses patterns that do not fit
        return Patterns(self, model_digest(model), self.layers, self.facts)

    def warned(self) -> "Patterns":
        """Say once if many units are unhealthy, or all of a layer's are dead."""
        units = sum(layer.units for layer in self.layers.values())
        unhealthy = sum(layer.dead + layer.weak + layer.negative + layer.few for layer in self.layers.values())
        silent = [name for name, layer in self.layers.items() if layer.dead == layer.units]
        if unhealthy > UNHEALTHY_SHARE * units or silent:
            names = ", ".join(map(repr, silent[:3])) + (", ..." if len(silent) > 3 else "")
            dead = f" (all units of {names} are dead: pattern methods pass nothing on there)"
            warnings.warn(
                f"{unhealthy} of {units} units have no pattern or an unreliable one{dead if silent else ''}: see "
                "patterns.health(), and estimate with more data",
                PgigWarning,
                stacklevel=3,
            )
        return self

    def save(self, path: str | Path) -> None:
        layers = {name: asdict(layer) for name, layer in self.layers.items()}
        about = {"digest": self.digest, "layers": layers, "facts": self.facts, "seal": BLANK}
        with written(Path(path)) as temporary:
            save_file(
                {name: tensor.contiguous() for name, tensor in self.items()},
                temporary,
                {"pgig patterns": json.dumps(about)},
            )
            seal(temporary)

    @classmethod
    def load(cls, path: str | Path) -> "Patterns":
        """From a file of `save`; any safetensors file of layer name -> tensor will do, without a digest then."""
        if not Path(path).is_file():
            raise PgigError(f"no patterns file at {path}")
        try:
            with safe_open(path, "pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
                facts = file.metadata() or {}
                if "pgig moments" in facts:
                    raise PgigError(f"{path} holds moments: make patterns of them with Moments.load(path).patterns()")
                about = json.loads(facts.get("pgig patterns", "{}"))
            check_seal(Path(path), "patterns", "seal" in about, is_ours="pgig patterns" in facts)
            layers = {name: LayerHealth(**layer) for name, layer in about.get("layers", {}).items()}
        except PgigError:
            raise
        except (SafetensorError, OSError, ValueError, TypeError, AttributeError) as error:
            raise PgigError(f"cannot read patterns from {path}: {error}") from error
        return cls(tensors, about.get("digest"), layers, about.get("facts"))


@dataclass(frozen=True)
class Health:
    """A table with one row per layer; `print` it."""

    layers: Mapping[str, LayerHealth]
    facts: Mapping[str, Any]

    def __str__(self) -> str:
        if not self.layers:
            return "nothing is known of the health of these patterns: they were not estimated here"
        head = [
            "layer",
            "regime",
            "units",
            "active",
            "dead",
            "weak",
            "negative",
            "few",
            "max |p|",
            "max |w.p-1|",
            "samples",
        ]
        head += ["rho(w)", "rho(p)", "rho(random)"] if "quality" in self.facts else []
        rows = [
            [
                name, r.regime, f"{r.units}", f"{r.active_share:.0%}", f"{r.dead}", f"{r.weak}", f"{r.negative}",
                f"{r.few}", f"{r.largest:.3g}", f"{r.error:.1e}", f"{r.samples}", *self._rho(name),
            ]
            for name, r in self.layers.items()
        ]  # fmt: skip
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        lines = [
            "  ".join(
                cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
            )
            for row in [head, *rows]
        ]
        unsupported = self.facts.get("unsupported")
        return "\n".join(lines + ([f"without a pattern: {', '.join(unsupported)}"] if unsupported else []))

    def _rho(self, name: str) -> list[str]:
        if "quality" not in self.facts:
            return []
        return [f"{rho:.2f}" for rho in self.facts["quality"].get(name, [])] or ["", "", ""]


def _difference(mine: str, theirs: str) -> str:
    one, other = (dict(word.rsplit("=", 1) for word in digest.split()) for digest in (mine, theirs))
    if missing := [name for name in one if name not in other]:
        return f"it has no {missing[0]!r}"
    return f"{next(name for name in other if one.get(name) != other[name])!r} differs"


def model_digest(model: nn.Module) -> str:
    """A digest of all that the model has learnt, norms and biases too: a word `name=digest` for each tensor."""
    words = []
    for name, tensor in _learnt(model):
        content = blake2b(f"{tuple(tensor.shape)} {tensor.dtype}".encode(), digest_size=8)
        content.update(tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
        words.append(f"{name}={content.hexdigest()}")
    return " ".join(words)


def _quick_look(model: nn.Module) -> list[tuple[int, int, float]]:
    """Where the tensors are, how often they were written to, and their sums: all but a digest."""
    return [(tensor.data_ptr(), tensor._version, float(tensor.sum())) for _, tensor in _learnt(model)]


def _learnt(model: nn.Module) -> list[tuple[str, Tensor]]:
    state = {name: tensor for name, tensor in model.state_dict().items() if isinstance(tensor, Tensor)}
    return [(name, state[name].detach()) for name in sorted(state) if not name.endswith("num_batches_tracked")]
