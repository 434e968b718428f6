"""Patterns that are there already: those that were estimated on this machine, and those that come with pgig."""

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple

from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from pgig.digests import digest_of
from pgig.errors import PgigError, PgigWarning
from pgig.files import check_target
from pgig.patterns.packed import is_packed, load_packed, packed_about
from pgig.patterns.patterns import Patterns
from pgig.subject.subject import Subject

Auto = Literal["auto"]


class Found(NamedTuple):
    """A file of patterns, and where it comes from, in words."""

    path: Path
    source: str


def cache_folder() -> Path:
    """`$PGIG_CACHE`, or `pgig` in the user's folder for caches."""
    if own := os.environ.get("PGIG_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pgig"


def why_not_kept() -> str | None:
    """What is in the way of keeping patterns, if anything."""
    try:
        check_target(cache_folder() / "patterns" / "any" / "file")
    except PgigError as error:
        return str(error)
    return None


def keep_patterns(patterns: Patterns) -> Path:
    """Put patterns where those of the same weights are looked for.

    Gives the file, in the folder of PGIG_CACHE or of the user's cache. Raises PgigError for patterns without a digest.

    >>> model = torch.nn.Linear(2, 3).eval()
    >>> file = pgig.keep_patterns(pgig.estimate_patterns(model, [torch.randn(50, 2)]))
    >>> a = pgig.attribute("pgig", model, torch.ones(1, 2), patterns="auto")
    """
    if not isinstance(patterns, Patterns):
        raise PgigError(f"expected pgig.Patterns, as estimate_patterns gives them, got {type(patterns).__name__}")
    if patterns.digest is None:
        raise PgigError("patterns without a digest of their weights cannot be found again: tie them with for_model()")
    name = f"{_regime(patterns)}-{patterns.content_digest()}.safetensors"
    path = _folder(patterns.digest) / name
    patterns.save(path)
    return path


def find_file(model: nn.Module | Subject, regime: str | None = None) -> Found | None:
    """The newest that were kept for these weights, of a regime or of any; or else those that come with pgig."""
    digest = Subject.of(model).known_digest
    for path in _newest_first(_folder(digest)):
        if regime not in (None, path.stem.rpartition("-")[0]):
            continue
        if _is_readable(path):
            return Found(path, f"{path}, kept on this machine")
        warnings.warn(f"{path} is damaged, and passed over: delete it", PgigWarning, stacklevel=2)
    for path in shipped_files():
        about = packed_about(path)
        if about["digest"] == digest and regime in (None, about["facts"].get("regime")):
            return Found(path, f"those that come with pgig, from {about['facts'].get('source', 'images')}")
    return None


def find_patterns(model: nn.Module | Subject, regime: str | None = None) -> Patterns | None:
    """The newest patterns that were kept for a model's weights, of a regime or of any; or those that come with pgig.

    None where there are none. regime: as for `estimate_moments`.

    A regime that is none has no patterns; no error is raised.

    >>> pgig.find_patterns(torch.nn.Linear(2, 3).eval()) is None
    True
    """
    found = find_file(model, regime)
    return None if found is None else read_patterns(found.path, Subject.of(model).module)


def read_patterns(path: Path, model: nn.Module, force: bool = False) -> Patterns:
    """From a file of either kind, for a model. force: packed ones for other weights too."""
    return load_packed(path, model, force) if is_packed(path) else Patterns.load(path)


def given_or_found(
    patterns: Mapping[str, Tensor] | Auto | None, model: Any, needed: bool
) -> Mapping[str, Tensor] | None:
    """What "auto" stands for, for a model, where patterns are needed; anything else as it is."""
    if not isinstance(patterns, str):
        return patterns
    if patterns != "auto":
        raise PgigError(f"patterns are a mapping of layers to tensors, or 'auto', got {patterns!r}")
    if not needed:
        return None
    found = find_patterns(model)
    if found is None:
        raise PgigError(
            "no patterns of these weights are kept on this machine: estimate them (pgig.estimate_patterns, and "
            "pgig.keep_patterns to find them again)", lacks="patterns",
        )  # fmt: skip
    return found


def shipped_files() -> Iterator[Path]:
    """The packed patterns in this package."""
    folder = files("pgig.patterns").joinpath("shipped")
    return (Path(str(entry)) for entry in folder.iterdir() if entry.name.endswith(".safetensors"))


def _newest_first(folder: Path) -> list[Path]:
    """What is deleted meanwhile is not there."""
    times: dict[Path, float] = {}
    for path in folder.glob("*.safetensors"):
        with suppress(FileNotFoundError):
            times[path] = path.stat().st_mtime
    return sorted(times, key=lambda path: times[path], reverse=True)


def _is_readable(path: Path) -> bool:
    """Is there a header, at least? All of a file is checked when it is read."""
    try:
        with safe_open(path, "pt"):
            return True
    except (SafetensorError, OSError):
        return False


def _folder(digest: str) -> Path:
    return cache_folder() / "patterns" / digest_of(digest)


def _regime(patterns: Patterns) -> str:
    """As it was asked for; of patterns that do not say it, the regimes that their layers have."""
    asked = patterns.facts.get("regime")
    if asked:
        return str(asked) if str(asked).isalnum() else "mixed"
    return "-".join(sorted({layer.regime for layer in patterns.layers.values()})) or "unknown"
