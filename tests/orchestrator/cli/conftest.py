"""A working directory, a home that does not exist yet, and commands that are typed there."""

from functools import partial
from pathlib import Path

import pytest

from tests.building.specs import build_spec_text
from tests.orchestrator.cli.typed_commands import Run, type_command


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RNNSWEEP_HOME", str(tmp_path / "home"))
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_PASSWORD", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    Path("mine.yaml").write_text(build_spec_text())
    return tmp_path / "home"


@pytest.fixture
def run(home: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    return partial(type_command, capfd)
