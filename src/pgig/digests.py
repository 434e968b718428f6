"""Digests: short words that tell whether two things are the same."""

from hashlib import blake2b


def digest_of(content: str | bytes) -> str:
    return blake2b(content.encode() if isinstance(content, str) else content, digest_size=8).hexdigest()


def digest_of_file(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()
