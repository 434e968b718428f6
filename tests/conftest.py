import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

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


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)
