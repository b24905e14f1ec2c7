from pathlib import Path

import pytest

from tests.building.stores import build_home


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return build_home(tmp_path)
