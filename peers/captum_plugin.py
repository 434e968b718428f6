"""A plugin for pytest: Captum's own tests meet our classes where Captum's stood.

Whoever imports a class from Captum that `pgig.captum` has too gets ours; Captum's own modules, imported before, keep
theirs. A test counts if it built at least one of our objects.
"""

import importlib
import json
import os
import pkgutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pgig.captum

_built: set[str] = set()
_counted: dict[str, dict[str, Any]] = {}


def pytest_configure(config: pytest.Config) -> None:
    import captum.attr

    asked = os.environ.get("PEERS_CLASSES", "")
    shared = [name for name in pgig.captum.__all__ if hasattr(captum.attr, name) and name != "Attribution"]
    names = [name for name in shared if not asked or name in asked.split(",")]
    for found in pkgutil.walk_packages(captum.__path__, "captum."):
        if found.name.startswith(("captum.attr", "captum.metrics", "captum._utils")):
            importlib.import_module(found.name)
    for name in names:  # Captum's own modules have been imported by now, and keep theirs
        theirs, ours = getattr(captum.attr, name), _noting(getattr(pgig.captum, name))
        for module in (captum.attr, sys.modules[theirs.__module__]):
            setattr(module, name, ours)


def _noting(cls: type) -> type:
    """The class itself, which notes from now on when one of it is made."""
    make = cls.__init__  # type: ignore[misc]

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        _built.add(cls.__name__)
        make(self, *args, **kwargs)

    cls.__init__ = __init__  # type: ignore[misc]
    return cls


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    _built.clear()
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and _built and report.outcome != "skipped":
        _counted[report.nodeid] = {"outcome": report.outcome, "classes": sorted(_built)}


def pytest_sessionfinish() -> None:
    if out := os.environ.get("PEERS_OUT"):
        Path(out).write_text(json.dumps(_counted, indent=1))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    passed = [test for test in _counted.values() if test["outcome"] == "passed"]
    by_class = Counter(name for test in _counted.values() for name in test["classes"])
    good = Counter(name for test in passed for name in test["classes"])
    terminalreporter.section("pgig.captum in Captum's own tests")
    for name in sorted(by_class):
        terminalreporter.line(f"{name:28s} {good[name]:4d} of {by_class[name]}")
    terminalreporter.line(f"tests that build one of our objects: {len(passed)} of {len(_counted)} pass")
