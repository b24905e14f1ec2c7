from pathlib import Path

import pytest

from tests.building.stores import build_home
from tests.orchestrator.storage.tracking.recording import files_home, install_files_tracker


@pytest.fixture(params=["files", "mlflow"])
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home with an empty tracker, of plain files or of MLflow: what holds for one holds
    for the other.
    """
    if request.param == "mlflow":
        return build_home(tmp_path)
    install_files_tracker(monkeypatch)
    return files_home(tmp_path)


@pytest.fixture(autouse=True)
def no_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the half second in which another driver could show up; its own test restores it."""
    monkeypatch.setattr("orchestrator.storage.tracking.writer._SETTLE_S", 0.0)
