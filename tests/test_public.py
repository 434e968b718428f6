"""What is public: its names and signatures, held by a list; docstrings whose examples run."""

import doctest
import inspect
import os
import pydoc
import re
import warnings
from collections.abc import Iterator
from importlib import import_module
from inspect import Parameter
from pathlib import Path
from typing import Any

import pytest
import torch

import pgig
from pgig.explainers.registry import known_explainers, unregister
from pgig.measures import JUDGES
from pgig.records.measures import MEASURES

LIST = Path(__file__).with_name("public_names.txt")
MODULES = "captum", "degradation", "incremental", "measures", "quantus", "synthetic", "vision"
# public for who adds to pgig (docs/adding.md), without a page of their own: listed, so that a change shows
FOR_ADDING = (
    "explainers.protocol", "methods.points", "methods.rules", "methods.summaries", "records.measure",
    "runs.backends.events", "runs.benchmark", "runs.prepare", "runs.request", "runs.where", "synthetic.images",
)  # fmt: skip


def public() -> Iterator[tuple[str, Any]]:
    for name in pgig.__all__:
        yield f"pgig.{name}", getattr(pgig, name)
    for module in MODULES:
        found = import_module(f"pgig.{module}")
        for name in found.__all__:
            yield f"pgig.{module}.{name}", getattr(found, name)


def for_adding() -> Iterator[tuple[str, Any]]:
    for module in FOR_ADDING:
        found = import_module(f"pgig.{module}")
        for name, value in vars(found).items():
            if not name.startswith("_") and getattr(value, "__module__", None) == found.__name__:
                yield f"pgig.{module}.{name}", value


def described(name: str, value: Any) -> Iterator[str]:
    """A line for the name, and one for each public member of a class."""
    yield f"{name}{_parameters(value)}"
    if not inspect.isclass(value):
        return
    members = {
        member: found for base in reversed(value.__mro__) if base.__module__.startswith("pgig")
        for member, found in vars(base).items() if not member.startswith("_")
    }  # fmt: skip
    for member, found in sorted(members.items()):
        inner = found.__func__ if isinstance(found, staticmethod | classmethod) else found
        yield f"{name}.{member}{_parameters(inner)}"


def _parameters(value: Any) -> str:
    """Names, kinds and defaults; annotations may be said better at any time."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    plain = [one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()]
    shown = [one.replace(default=_Default(one.default)) if one.default is not one.empty else one for one in plain]
    return str(signature.replace(parameters=shown, return_annotation=inspect.Signature.empty))


class _Default:
    def __init__(self, value: Any) -> None:
        simple = value is None or isinstance(value, bool | int | float | str | tuple)
        self._shown = repr(value) if simple else "..."

    def __repr__(self) -> str:
        return self._shown


def test_public_names_and_signatures_are_those_of_the_list() -> None:
    """A change is meant, or breaks somebody: PGIG_WRITE_PUBLIC=1 writes the list anew, for review."""
    found = "".join(f"{line}\n" for name, value in (*public(), *for_adding()) for line in described(name, value))
    if os.environ.get("PGIG_WRITE_PUBLIC"):
        LIST.write_text(found)
    assert found == LIST.read_text()


def _is_alias(value: Any) -> bool:
    return not (inspect.isclass(value) or inspect.isfunction(value))


def with_examples() -> list[Any]:
    """All that can be called, and Captum's classes once more in one."""
    found = [pytest.param(value, id=name) for name, value in public() if not _is_alias(value)]
    return [*found, pytest.param(pgig.captum, id="pgig.captum")]


@pytest.mark.parametrize("value", with_examples())
def test_the_docstring_of_a_public_name_has_an_example_that_runs(
    value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGIG_CACHE", str(tmp_path))
    torch.manual_seed(0)
    before, measures = set(known_explainers()), set(MEASURES)
    names = {"pgig": pgig, "torch": torch}
    (test,) = doctest.DocTestFinder(recurse=False).find(value, value.__name__, globs=names)
    assert test.examples
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    with warnings.catch_warnings():
        results = doctest.DocTestRunner(optionflags=flags).run(test)
    for registered in set(known_explainers()) - before:
        unregister(registered)
    for registered in set(MEASURES) - measures:
        del MEASURES[registered], JUDGES[registered]
    assert results.failed == 0


CALLABLE = [pytest.param(n, v, id=n) for n, v in public() if not _is_alias(v)]


@pytest.mark.parametrize(("name", "value"), CALLABLE)
def test_every_public_name_says_what_it_is_and_takes_and_what_goes_wrong(name: str, value: Any) -> None:
    told = inspect.getdoc(value) or ""
    assert len(told.split()) >= 4
    if inspect.isclass(value) and issubclass(value, Exception | Warning):
        return
    for taken, parameter in inspect.signature(value).parameters.items():
        if parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            assert re.search(rf"\b{taken}\b", told), taken
    assert re.search(r"(?i)\b(raises?|errors?)\b", told), "what goes wrong"


@pytest.mark.parametrize(("name", "value"), CALLABLE)
def test_every_public_member_says_what_it_is(name: str, value: Any) -> None:
    for member, found in inspect.getmembers(value) if inspect.isclass(value) else ():
        own = any(member in vars(base) for base in value.__mro__ if base.__module__.startswith("pgig"))
        if own and not member.startswith("_") and (callable(found) or isinstance(found, property)):
            assert inspect.getdoc(found), member


def test_help_on_attribute_answers_by_itself() -> None:
    told = pydoc.plain(pydoc.render_doc(pgig.attribute))
    assert all(f"{option}: " in told for option in inspect.signature(pgig.attribute).parameters)
    assert "seed: int = 0" in told
    with pytest.raises(TypeError, match=r"^attribute\(\) got an unexpected keyword argument 'stepz'"):
        pgig.attribute("gradient", torch.nn.Linear(2, 3).eval(), torch.ones(1, 2), stepz=3)  # type: ignore[call-arg]


def test_the_version_is_the_same_everywhere() -> None:
    root = LIST.parents[1]
    citation, changes = (root / "CITATION.cff").read_text(), (root / "CHANGELOG.md").read_text()
    version, released = re.search(r"^## \[(\d\S*)\] - (\S+)$", changes, re.M).groups()
    assert pgig.__version__ == version
    assert f"\nversion: {version}\ndate-released: {released}\n" in citation


def test_every_public_name_is_in_the_reference() -> None:
    folder = LIST.parents[1] / "docs" / "reference"
    reference = (folder / "python.md").read_text() + (folder / "modules.md").read_text()
    named = set(re.findall(r"^::: (\S+)$", reference, re.M)) | set(re.findall(r"`(pgig\.[\w.]+)`", reference))
    assert {name for name, _ in public()} <= named
