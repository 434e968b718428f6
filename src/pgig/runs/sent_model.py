"""A model and its patterns as arrays, to be sent to workers that cannot read the files they come from.

Arrays lie in a node's memory once; every worker copies what it loads.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from pgig import __version__
from pgig.errors import PgigError
from pgig.patterns.patterns import Patterns
from pgig.subject.subject import Subject
from pgig.vision.models import model_with

Arrays = Mapping[str, NDArray[Any]]
_AS_INTEGERS = {torch.bfloat16: torch.int16}  # what NumPy does not know


@dataclass(frozen=True)
class SentPatterns:
    arrays: Arrays
    digest: str | None
    layers: Mapping[str, Any]
    facts: Mapping[str, Any]

    @staticmethod
    def of(patterns: Patterns) -> "SentPatterns":
        return SentPatterns(_arrays(patterns), patterns.digest, patterns.layers, patterns.facts)

    def patterns(self) -> Patterns:
        return Patterns({name: _tensor(one) for name, one in self.arrays.items()}, self.digest, self.layers, self.facts)


@dataclass(frozen=True)
class SentModel:
    """The architecture by its name, or by its factory, which workers must have; the weights as arrays."""

    name: str
    weights: Arrays
    dtypes: Mapping[str, torch.dtype]
    patterns: SentPatterns | None
    versions: Mapping[str, str]

    @staticmethod
    def of(name: str, subject: Subject, patterns: Patterns | None) -> "SentModel":
        state = subject.module.state_dict()
        dtypes = {key: tensor.dtype for key, tensor in state.items()}
        return SentModel(
            name, _arrays(state), dtypes, None if patterns is None else SentPatterns.of(patterns), _versions()
        )

    def load(self) -> tuple[Subject, Patterns | None]:
        for package, version in _versions().items():
            if version != self.versions[package]:
                raise PgigError(
                    f"a worker has {package} {version}, and the command {self.versions[package]}: give all the same"
                )
        state = {key: _tensor(array).view(self.dtypes[key]) for key, array in self.weights.items()}
        found = None if self.patterns is None else self.patterns.patterns()
        return Subject(model_with(self.name, state)), found


def _versions() -> dict[str, str]:
    """What results depend on, in their last bits at least."""
    return {"pgig": __version__, "torch": str(torch.__version__), "numpy": numpy.__version__}


def _arrays(tensors: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    found = {}
    for name, tensor in tensors.items():
        plain = tensor.detach().cpu().contiguous()
        found[name] = plain.view(_AS_INTEGERS.get(plain.dtype, plain.dtype)).numpy()
    return found


def _tensor(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(numpy.array(array))  # a copy: what was sent may not be written to
