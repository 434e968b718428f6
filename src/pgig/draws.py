"""Random draws that depend on what is explained, never on how it is batched."""

from collections.abc import Callable, Hashable
from hashlib import blake2b
from operator import index

import torch

# The generator of the j-th draw. Any draw can be had without making those before it, so that slicing, batching,
# sharding and retrying change none.
Draws = Callable[[int], torch.Generator]


def draws(seed: int, identity: Hashable, kind: Hashable) -> Draws:
    """The draws that one input gets from one kind of points.

    `kind` is a `Points` value: methods with equal points share their draws. Draws are made on the CPU, so that the
    device does not change them either; the global generator is never touched.
    """
    stem = _digest(repr((index(seed), identity, kind)).encode())
    generator = torch.Generator()

    def draw(j: int) -> torch.Generator:
        return generator.manual_seed(int.from_bytes(_digest(stem + j.to_bytes(8, "little")), "little"))

    return draw


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=8).digest()
