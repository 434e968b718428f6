"""Patterns: for each layer, the direction in its input that its units read, with the weights they belong to."""

import json
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from pgig.digests import digest_of
from pgig.errors import PgigError, PgigWarning
from pgig.files import written
from pgig.network.layers import Layers
from pgig.patterns.health import Health, LayerHealth
from pgig.sealing import BLANK, check_seal, seal
from pgig.subject.subject import Subject

UNHEALTHY_SHARE = 0.2  # of the units: above it, a warning


class Patterns(Mapping[str, Tensor]):
    """Layer name -> pattern, shaped like the layer's weight.

    digest: of the weights that they belong to; for others they are refused. layers: the health of each.
    facts: what else is known: preprocessing, joins, signal quality.

    `save(path)` and `Patterns.load(path)` (safetensors, sealed); `health()` says how far they can be trusted.

    tensors: the patterns by layer; None of the other three where they are unknown. For other weights, `check` raises
    PgigError.

    >>> patterns = pgig.estimate_patterns(torch.nn.Linear(2, 3).eval(), [torch.randn(100, 2)])
    >>> patterns.health().verdict
    'good: 1 layers, w.p = 1, nothing out of the ordinary'
    """

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

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        return f"Patterns of {len(self)} layers, from {self.facts.get('samples', 'unknown')} samples"

    def health(self) -> Health:
        """A table per layer; with what `with_quality` keeps, three columns more."""
        return Health(self.layers, self.facts)

    @property
    def unsupported(self) -> tuple[str, ...]:
        """Layers that have no pattern and keep their plain gradient."""
        return tuple(self.facts.get("unsupported", ()))

    def content_digest(self) -> str:
        """Of their values: other images give the same model other patterns."""
        return content_digest(self)

    def with_quality(self, quality: Mapping[str, Any]) -> "Patterns":
        """The same with what `pgig.signal_quality` found on held-out data: shown by `health()`, kept in files."""
        found = {name: [rho.weight, rho.pattern, rho.random] for name, rho in quality.items()}
        return self.with_facts(quality=found)

    def with_facts(self, **facts: Any) -> "Patterns":
        """The same with more said about them: kept in files."""
        return Patterns(self, self.digest, self.layers, {**self.facts, **facts})

    def check(self, model: nn.Module | Subject) -> None:
        """Refuse a model with other weights than those the patterns were estimated for."""
        Subject.of(model, self).check_patterns()

    def for_model(self, model: nn.Module) -> "Patterns":
        """The same patterns, tied to the weights of `model`: for those from elsewhere."""
        Layers(model, self, channels_last=False)  # refuses patterns that do not fit
        return Patterns(self, Subject.of(model).digest, self.layers, self.facts)

    def renamed(self, names: Mapping[str, str], digest: str) -> "Patterns":
        """The same for a model that has the same tensors under other names."""

        def of(layer: str) -> str:
            for parameter in (layer, f"{layer}.weight"):
                if parameter in names:
                    return names[parameter].removesuffix(".weight")
            # a parametrised weight has no tensor of its own name, but others of its module
            own = next((name for name in names if name.startswith(f"{layer}.")), None)
            return layer if own is None else names[own].removesuffix(own.removeprefix(layer))

        facts = {**self.facts, "unsupported": [of(name) for name in self.unsupported]}
        for what in ("quality", "choice"):
            facts |= {what: {of(name): found for name, found in facts[what].items()}} if what in facts else {}
        layers = {of(name): health for name, health in self.layers.items()}
        return Patterns({of(name): tensor for name, tensor in self.items()}, digest, layers, facts)

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
        """As safetensors, sealed; by rename."""
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
                if "pgig packed patterns" in facts:
                    raise PgigError(f"{path} holds packed patterns, which need their model: pgig.find_patterns(model)")
                about = json.loads(facts.get("pgig patterns", "{}"))
            check_seal(Path(path), "patterns", "seal" in about, is_ours="pgig patterns" in facts)
            layers = {name: LayerHealth(**layer) for name, layer in about.get("layers", {}).items()}
        except PgigError:
            raise
        except (SafetensorError, OSError, ValueError, TypeError, AttributeError) as error:
            raise PgigError(f"cannot read patterns from {path}: {error}") from error
        return cls(tensors, about.get("digest"), layers, about.get("facts"))


def content_digest(patterns: Mapping[str, Tensor]) -> str:
    def of(tensor: Tensor) -> str:
        return digest_of(bytes(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data))

    return digest_of(" ".join(f"{name}={of(patterns[name])}" for name in sorted(patterns)))
