"""Seals: a digest of a whole file inside it, so that no bit of it can change unnoticed.

The writer puts `BLANK` somewhere into the file, as a line of its metadata, and `seal` fills in the digest of all bytes,
those of the seal taken as blank. Works for any format that keeps such a line as it is.
"""

import warnings
from hashlib import blake2b
from os import SEEK_END
from pathlib import Path

from pgig.errors import PgigError, PgigWarning

_MARK = "pgig-seal:"
_DIGITS = 32
BLANK = _MARK + "0" * _DIGITS
_BLOCK = 2**24  # bytes that are read at a time, and looked through for a seal at either end


def seal(path: Path) -> None:
    with path.open("r+b") as file:
        place, _ = _found(path)
        file.seek(place)
        file.write(_digest(path, place))


def is_sealed(path: Path) -> bool:
    """Whether the file has a seal, which must then be right."""
    try:
        place, stated = _found(path)
    except ValueError:
        return False
    if stated != _digest(path, place):
        raise _broken(path)
    return True


def check_seal(path: Path, what: str, claimed: bool, is_ours: bool = True) -> None:
    """Refuse a file that has changed since it was sealed, and note one that was never sealed.

    claimed: whether the file says that it has a seal; to have none is then as wrong. is_ours: whether it says that it
    was written here; other files have no seal.
    """
    if is_sealed(path):
        return
    if claimed:
        raise _broken(path)
    if is_ours:
        warnings.warn(
            f"the {what} in {path} are of an earlier version: whether they changed since cannot be told",
            PgigWarning,
            stacklevel=4,
        )


def _found(path: Path) -> tuple[int, bytes]:
    """Where the digits of the last seal are, and what they say. Metadata lie at the beginning or the end of a file."""
    mark = _MARK.encode()
    with path.open("rb") as file:
        size = file.seek(0, SEEK_END)
        for start in dict.fromkeys((max(0, size - _BLOCK), 0)):
            file.seek(start)
            if (place := file.read(_BLOCK).rfind(mark)) >= 0:
                file.seek(start + place + len(mark))
                return start + place + len(mark), file.read(_DIGITS)
    raise ValueError(f"{path} has no seal")


def _digest(path: Path, place: int) -> bytes:
    """Of the whole file, with a blank seal."""
    content = blake2b(digest_size=_DIGITS // 2)
    with path.open("rb") as file:
        for before in range(0, place, _BLOCK):
            content.update(file.read(min(_BLOCK, place - before)))
        content.update(b"0" * len(file.read(_DIGITS)))
        while block := file.read(_BLOCK):
            content.update(block)
    return content.hexdigest().encode()


def _broken(path: Path) -> PgigError:
    return PgigError(f"{path} is damaged: its content is not what was written")
