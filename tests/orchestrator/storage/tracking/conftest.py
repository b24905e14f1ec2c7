from pathlib import Path

import pytest

from tests.building.stores import build_home


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home with an empty tracker."""
    return build_home(tmp_path)


@pytest.fixture(autouse=True)
def no_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the half second in which another driver could show up; its own test restores it."""
    monkeypatch.setattr("orchestrator.storage.tracking.writer._SETTLE_S", 0.0)
