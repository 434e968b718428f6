"""A model's weights as one thing: a digest of them, and quicker ways to notice that they changed."""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import takewhile

import torch
from torch import Tensor, nn

Versions = tuple[tuple[int, int, int], ...]
Look = list[tuple[int, int, float]]


def model_digest(model: nn.Module) -> str:
    """A digest of all that the model has learnt, norms and biases too: a word `name=digest` for each tensor."""
    words = []
    for name, tensor in _learnt(model):
        content = blake2b(f"{tuple(tensor.shape)} {tensor.dtype}".encode(), digest_size=8)
        content.update(tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
        words.append(f"{name}={content.hexdigest()}")
    return " ".join(words)


def renaming(mine: str, theirs: str) -> dict[str, str] | None:
    """The names of my tensors in a model that holds them all under others, as a wrapper does; None where some lack.

    Tensors are known by their contents; where several have the same, by how much of their names is the same.
    """
    by_content: dict[str, list[str]] = {}
    for name, content in _words(theirs):
        by_content.setdefault(content, []).append(name)
    if (prefix := _prefix(_words(mine), dict(_words(theirs)))) is not None:
        return {name: prefix + name for name, _ in _words(mine)}
    names = {}
    for name, content in _words(mine):
        if content not in by_content:
            return None
        names[name] = max(by_content[content], key=lambda other: _common_end(name, other))
    return names if len(set(names.values())) == len(names) else None


def _prefix(mine: list[tuple[str, str]], theirs: dict[str, str]) -> str | None:
    """What stands before all of my names in theirs, with the same contents."""
    first = mine[0][0] if mine else ""
    prefixes = [name.removesuffix(first) for name in theirs if name.endswith(f".{first}")]
    fitting = (p for p in prefixes if all(theirs.get(p + name) == content for name, content in mine))
    return next(fitting, None)


def _words(digest: str) -> list[tuple[str, str]]:
    return [(name, content) for name, _, content in (word.rpartition("=") for word in digest.split())]


def _common_end(one: str, other: str) -> int:
    """How many parts of two names are the same, from their ends."""
    pairs = zip(reversed(one.split(".")), reversed(other.split(".")), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def difference(mine: str, theirs: str) -> str:
    """The first in which two digests differ, in words."""
    one, other = dict(_words(mine)), dict(_words(theirs))
    contents = set(other.values())
    if missing := [name for name in one if name not in other]:
        gone = [name for name in missing if one[name] not in contents]
        return f"it has no {missing[0]!r}" if not gone or gone == missing else f"{gone[0]!r} is not in it"
    return f"{next(name for name in other if one.get(name) != other[name])!r} differs"


def quick_look(model: nn.Module) -> Look:
    """Where the tensors are, how often they were written to, and their sums: all but a digest."""
    return [(tensor.data_ptr(), tensor._version, float(tensor.sum())) for _, tensor in _learnt(model)]


def modules_of(model: nn.Module) -> list[nn.Module]:
    """All modules in it, each once: `model.modules()`, which makes a name for each, at every call would show."""
    found, seen, waiting = [], set(), [model]
    while waiting:
        module = waiting.pop()
        if id(module) not in seen:
            seen.add(id(module))
            found.append(module)
            waiting += [child for child in module._modules.values() if child is not None]
    return found


def versions(modules: Sequence[nn.Module]) -> Versions:
    """Which tensors a model has, where they are, and how often torch saw them written to."""
    return tuple([(id(tensor), tensor.data_ptr(), tensor._version) for tensor in _held(modules)])


def _held(modules: Sequence[nn.Module]) -> Iterator[Tensor]:
    """Parameters and buffers that are saved with the model: others may be scratch memory."""
    for module in modules:
        for tensor in module._parameters.values():
            if tensor is not None and _has_versions(tensor):
                yield tensor
        for name, buffer in module._buffers.items():
            if buffer is not None and name not in module._non_persistent_buffers_set and _has_versions(buffer):
                yield buffer


def _has_versions(tensor: object) -> bool:
    if not isinstance(tensor, Tensor) or tensor.is_meta or tensor.is_inference():
        return False
    return bool(tensor.layout is torch.strided)


def _learnt(model: nn.Module) -> list[tuple[str, Tensor]]:
    state = {name: tensor for name, tensor in model.state_dict().items() if isinstance(tensor, Tensor)}
    return [(name, state[name].detach()) for name in sorted(state) if not name.endswith("num_batches_tracked")]
