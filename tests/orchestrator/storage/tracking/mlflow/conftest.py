from pathlib import Path

import pytest

from tests.orchestrator.sample_sweeps import fresh_home


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return fresh_home(tmp_path)
