from pathlib import Path

import pytest

_SHARED = Path(__file__).parents[2] / "shared"


@pytest.fixture
def shared() -> Path:
    """Real data beside the project, where there is any."""
    if not _SHARED.is_dir():
        pytest.skip("needs the shared data beside the project")
    return _SHARED
