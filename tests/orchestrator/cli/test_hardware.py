"""`rnnsweep hardware`, as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result

from orchestrator import hardware
from orchestrator.cli.main import main
from orchestrator.cluster import connection
from orchestrator.diagnostics.peaks import Peak, Rate, store_peaks, versions
from orchestrator.hardware import classify
from tests.orchestrator.diagnostics.test_hardware_listing import SCHEMA


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RNNSWEEP_HOME", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path


def typed(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["hardware", *arguments])


def test_this_machine_is_shown_with_the_peaks_that_are_kept(home: Path) -> None:
    assert typed().exit_code == 0
    assert list(home.iterdir()) == []  # asking leaves nothing behind
    profile = hardware.probe()
    (cpu, *_) = classify(connection.this_machine())
    of = versions(profile, "tensorflow", "cpu")
    rate = Rate(2.12e11, 1.9e11, 2.2e11)
    at = "2026-11-21T16:20:00Z"
    store_peaks(home, [Peak(cpu.id, "tensorflow", "float32", rate, None, of, "here", at)])
    assert "212 GFLOP/s" in typed().stdout  # its bounds may be on the next line
    listing = json.loads(typed("--format", "json").stdout)
    assert listing["classes"][0]["peaks"][0]["flops_per_s"]["median"] == 2.12e11
    jsonschema.validate(listing, SCHEMA, jsonschema.Draft202012Validator)
