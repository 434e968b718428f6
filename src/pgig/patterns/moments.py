"""Moments: float64 sums behind patterns, merged by addition."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from pgig.errors import PgigError
from pgig.files import written
from pgig.network.geometry import Sums
from pgig.network.join_names import is_join
from pgig.network.unit_layout import Form
from pgig.patterns.health import LayerHealth
from pgig.patterns.patterns import Patterns
from pgig.patterns.regimes import Mask, MaskedRegime
from pgig.sealing import BLANK, check_seal, seal

# A denominator w.a this small against |w| |a| says that the direction a hardly moves the unit.
WEAK = 1e-3
FEW = 10  # samples in the regime: a pattern from fewer is hardly more than one of them


@dataclass(frozen=True)
class LayerMoments:
    weight: Tensor  # the parameter
    form: Form
    regime: MaskedRegime
    centred: bool  # take E+[y] in place of E[y]
    factor: Tensor  # [units]: gamma / sigma of the batch norm behind, or ones
    sums: Sums
    mask: Mask = "bias"  # where activity was judged: behind the bias, or before it
    others: tuple["LayerMoments", ...] = ()  # of the other regimes to choose from

    def __add__(self, other: "LayerMoments") -> "LayerMoments":
        tensors = (mine + its for mine, its in zip(self.sums[1:], other.sums[1:], strict=True))
        others = tuple(mine + its for mine, its in zip(self.others, other.others, strict=True))
        return replace(self, sums=Sums(self.sums.samples + other.sums.samples, *tensors), others=others)

    @property
    def all(self) -> tuple["LayerMoments", ...]:
        return replace(self, others=()), *self.others

    def pattern(self) -> tuple[Tensor, LayerHealth]:
        """The pattern, shaped like the parameter and in its dtype, and how far it can be trusted."""
        samples, y, active, y_active, x_active, xy_active = self.sums
        if not all(part.isfinite().all() for part in self.sums[1:]):
            raise PgigError("the model's activations are NaN or infinite on this data: no pattern can be had from them")
        w = self.form.rows(self.weight).double() * self.factor.double()[:, None]
        n = active.clamp(min=1)[:, None]
        mean_x, mean_xy, mean_y_active = x_active / n, xy_active / n, y_active[:, None] / n
        within = (mean_xy - mean_x * mean_y_active) * self.factor.double()[:, None]
        within = torch.where((active < 2)[:, None], 0.0, within)  # of one sample it is nothing but rounding
        direction = within
        if not self.centred:
            direction = within + mean_x * (mean_y_active - y[:, None] / max(samples, 1)) * self.factor.double()[:, None]
        strength = _strength(w, direction)
        dead = (active == 0) | (self.factor == 0)
        weak, negative = ~dead & (strength.abs() < WEAK), ~dead & (strength <= -WEAK)
        # Such a direction says nothing about the unit, or the opposite. The covariance within the regime is the safe
        # one: its denominator is a variance, never negative.
        direction = torch.where((weak | negative)[:, None], within, direction)
        alive = ~dead & (_strength(w, direction) > 1e-9)
        along = (w * direction).sum(1, keepdim=True)
        rows = torch.where(alive[:, None], direction / torch.where(along == 0, 1.0, along), 0.0)
        pattern = self.form.parameter(rows, self.weight.shape).to(self.weight.dtype).contiguous()
        error = ((w * self.form.rows(pattern).double()).sum(1) - 1).abs()
        health = LayerHealth(
            regime=f"{self.regime}, centred" if self.centred else self.regime,
            units=len(rows),
            samples=samples,
            active_share=float((active / max(samples, 1)).mean()),
            dead=int((~alive).sum()),
            weak=int((weak & alive).sum()),
            negative=int((negative & alive).sum()),
            few=int((alive & ~weak & ~negative & (active < FEW)).sum()),
            largest=float(rows.abs().max()),
            error=float(torch.where(alive, error, 0.0).max()),
        )
        return pattern, health


def _strength(w: Tensor, direction: Tensor) -> Tensor:
    """The cosine between each unit's weight and its direction; 0 where there is none."""
    return torch.cosine_similarity(w, direction, dim=1, eps=1e-300)


@dataclass(frozen=True)
class Moments:
    """What a pass over data leaves behind: enough for patterns, and for adding more data later.

    `a + b` are the moments of both data sets; any grouping and any order gives the same patterns to rounding.

    layers: sums of each layer. samples: how many inputs were seen. digest: of the weights. fingerprint: of the inputs.
    preprocessing: of the images, where known. unsupported: layers that get no patterns. paths: on which branches that
    are added come from the input. notes: what else is known.

    Raises PgigError where moments of other weights, regimes or preprocessing are added, or a file is damaged.

    >>> model = torch.nn.Linear(2, 3).eval()
    >>> both = sum(pgig.estimate_moments(model, [torch.randn(50, 2)]) for _ in range(2))
    >>> both.samples, both.patterns()["weight"].shape
    (100, torch.Size([3, 2]))
    """

    layers: Mapping[str, LayerMoments]
    samples: int
    digest: str  # of the weights
    fingerprint: int  # of the data: a sum over samples, so that it adds up like the moments
    preprocessing: Mapping[str, Any]
    unsupported: tuple[str, ...] = ()
    paths: float = 1.0  # on which branches that are added come from the input: attributions grow with them
    notes: Mapping[str, Any] = field(default_factory=dict)  # the owner's own, such as where to resume; not added

    def __add__(self, other: "Moments") -> "Moments":
        if not isinstance(other, Moments):
            return NotImplemented
        if self.digest != other.digest:
            raise PgigError("moments of different weights cannot be added: estimate both with the same model")
        ways = [
            {name: [(m.regime, m.centred, m.mask) for m in layer.all] for name, layer in side.layers.items()}
            for side in (self, other)
        ]
        if ways[0] != ways[1]:
            raise PgigError(
                "moments of different regimes or masks cannot be added: estimate both with the same regime and mask"
            )
        mine, its = (json.dumps(dict(side.preprocessing), sort_keys=True) for side in (self, other))
        if mine != its:
            raise PgigError("moments of differently preprocessed data cannot be added")
        return replace(
            self,
            layers={name: mine + other.layers[name] for name, mine in self.layers.items()},
            samples=self.samples + other.samples,
            fingerprint=(self.fingerprint + other.fingerprint) % 2**64,
            notes={},
        )

    def __radd__(self, other: object) -> "Moments":
        """So that sum() adds shards up."""
        return self if other == 0 else NotImplemented

    def __repr__(self) -> str:
        return f"Moments of {len(self.layers)} layers, from {self.samples} samples"

    def taking(self, regimes: Mapping[str, str]) -> "Moments":
        """Of layers with several regimes, these alone."""
        for name, regime in regimes.items():
            known = [each.regime for each in self.layers[name].all] if name in self.layers else []
            if regime not in known:
                told = f"there are {', '.join(known)}" if known else "there is no such layer"
                raise PgigError(f"no moments of layer {name!r} in the regime {regime!r}: {told}")
        layers = {
            name: replace(next(m for m in layer.all if m.regime == regimes.get(name, layer.regime)), others=())
            for name, layer in self.layers.items()
        }
        return replace(self, layers=layers)

    def patterns(self) -> Patterns:
        """The patterns of what was seen; of moments of several regimes, `pgig.patterns_by_quality` gives them."""
        if several := [name for name, layer in self.layers.items() if layer.others]:
            raise PgigError(
                f"moments of {len(several)} layers are of several regimes: pgig.patterns_by_quality(model, moments, "
                "held_out) chooses, or moments.taking({layer: regime})"
            )
        found = {name: layer.pattern() for name, layer in self.layers.items()}
        return Patterns(
            {name: pattern for name, (pattern, _) in found.items()},
            digest=self.digest,
            layers={name: health for name, (_, health) in found.items()},
            facts={
                "samples": self.samples,
                "data": f"{self.fingerprint:016x}",
                "preprocessing": dict(self.preprocessing),
                "unsupported": list(self.unsupported),
                "mask": next(iter(self.layers.values())).mask,
                "joins": "shared" if any(map(is_join, self.layers)) else "summed",
                "paths": self.paths,
            },
        ).warned()

    def save(self, path: str | Path) -> None:
        """As safetensors, sealed; by rename."""
        tensors, layers = {}, {}
        for name, layer in self.layers.items():
            layers[name] = {
                "form": asdict(layer.form), "regime": layer.regime, "centred": layer.centred,
                "samples": layer.sums.samples, "mask": layer.mask, "others": [other.regime for other in layer.others],
            }  # fmt: skip
            tensors[f"{name}|weight"] = layer.weight.detach().contiguous()
            tensors[f"{name}|factor"] = layer.factor.contiguous()
            for prefix, each in [(name, layer), *((f"{name}|{other.regime}", other) for other in layer.others)]:
                tensors |= {f"{prefix}|{key}": getattr(each.sums, key).contiguous() for key in Sums._fields[1:]}
        about = {
            "layers": layers, "samples": self.samples, "digest": self.digest, "fingerprint": self.fingerprint,
            "preprocessing": dict(self.preprocessing), "unsupported": self.unsupported, "paths": self.paths,
            "notes": dict(self.notes),
            "seal": BLANK,
        }  # fmt: skip
        with written(Path(path)) as temporary:
            save_file(tensors, temporary, {"pgig moments": json.dumps(about)})
            seal(temporary)

    @classmethod
    def load(cls, path: str | Path) -> "Moments":
        """What `save` wrote; a damaged file is refused."""
        try:
            with safe_open(path, "pt") as file:
                facts = file.metadata() or {}
                if "pgig moments" not in facts:
                    raise PgigError(f"{path} does not hold moments" + (", but patterns" * ("pgig patterns" in facts)))
                about = json.loads(facts["pgig moments"])
                check_seal(Path(path), "moments", "seal" in about)
                layers = {name: _loaded(file, name, info) for name, info in about["layers"].items()}
            return cls(
                layers, about["samples"], about["digest"], about["fingerprint"], about["preprocessing"],
                tuple(about["unsupported"]), about.get("paths", 1.0),
                about["notes"],
            )  # fmt: skip
        except PgigError:
            raise
        except (SafetensorError, OSError, KeyError, ValueError, TypeError, AttributeError) as error:
            raise PgigError(f"cannot read moments from {path}: {error}") from error


def _loaded(file: Any, name: str, info: Mapping[str, Any]) -> LayerMoments:
    weight, factor = (file.get_tensor(f"{name}|{key}") for key in ("weight", "factor"))

    def sums(prefix: str) -> Sums:
        return Sums(info["samples"], *(file.get_tensor(f"{prefix}|{key}") for key in Sums._fields[1:]))

    form = Form(**info["form"])
    found = LayerMoments(weight, form, info["regime"], info["centred"], factor, sums(name), info["mask"])
    others = (replace(found, regime=other, sums=sums(f"{name}|{other}")) for other in info.get("others", ()))
    return replace(found, others=tuple(others))
