import os
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
import torch
from filelock import FileLock

if "PYTEST_XDIST_WORKER" in os.environ:  # workers share the cores, and so do the commands that they start
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)

_SHARED = Path(__file__).parents[2] / "shared"


@pytest.fixture
def shared() -> Path:
    """A real network, photographs and the authors' values, where they lie beside the project; they are not shipped."""
    if not _SHARED.is_dir():
        pytest.skip("needs the shared data beside the project")
    return _SHARED


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Patterns that a test keeps are not the user's, and no other test's."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("PGIG_CACHE", str(folder))
    return folder


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


# fewer random cases with every commit; `make faults` draws more, and others each time
hypothesis.settings.register_profile("commit", max_examples=25, deadline=None, derandomize=True)
hypothesis.settings.register_profile("faults", max_examples=400, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "commit"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("drawn")


@pytest.fixture(scope="session")
def made_once(
    tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Callable[[str, Callable[[Path], object]], Path]:
    """What takes long to make is made once for all workers of a test run; copy it before you change it."""
    base = tmp_path_factory.getbasetemp()
    shared = base if worker_id == "master" else base.parent

    def once(name: str, make: Callable[[Path], object]) -> Path:
        folder = shared / name
        with FileLock(f"{folder}.lock"):
            if not folder.exists():
                being_made = shared / f"{name} being made"
                being_made.mkdir()
                make(being_made)
                being_made.rename(folder)
        return folder

    return once
