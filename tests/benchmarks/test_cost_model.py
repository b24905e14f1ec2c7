"""The benchmark of the cost model, on artificial trials."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from orchestrator.core.arms import Arm, Usage
from orchestrator.core.trial import (
    Block,
    Config,
    FinishedTrial,
    Outcome,
    SweepIdentity,
    Telemetry,
    make_trial,
)
from orchestrator.spec import load
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import BlockSuggested, Journal, SweepOpened, TrialFinished
from tests.benchmarks import cost_model
from tests.orchestrator.sample_hardware import on_cpu

ARM = Arm("torch/fused", on_cpu("CPU A", 2, Usage(threads=1)))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a sweep of ten configs whose trials could not measure energy."""
    identity = SweepIdentity("made", 1, "next_token", {}, {}, 0, None)
    no_meter = Telemetry(energy_absent="no energy counter of the CPU")
    with Journal(SweepFolder(tmp_path, "made").generation(1)) as journal:
        journal.append(SweepOpened(identity, {}))
        for index in range(10):
            config: Config = {"units": 16 + 10 * index}
            journal.append(BlockSuggested(index, config, 0.0))
            made = Outcome("complete", 0.5, 16.5 + 10 * index, node="n", telemetry=no_meter)
            trial = make_trial(identity, Block(index, config), ARM, 0)
            journal.append(TrialFinished(FinishedTrial(trial, made)))
    monkeypatch.setenv("RNNSWEEP_HOME", str(tmp_path))
    return tmp_path


def test_whole_configs_are_hidden_and_skipped_targets_have_reasons(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cost_model, "simulated_accuracies", tuple)
    asked = ["--sweep", "made", "--splits", "1", "--output", str(home)]
    monkeypatch.setattr(sys, "argv", ["cost_model", *asked])
    cost_model.main()
    text = (home / "cost_model.txt").read_text()
    assert capsys.readouterr().out.strip() == text.strip()
    result = json.loads((home / "cost_model.json").read_text())
    (row,) = result["rows"]
    assert (row["target"], row["least"]) == ("trial_s", 16)
    assert row["most"] == 106
    assert row["trials"] + row["refused"] == 3
    assert row["median"] < 0.1 < row["alone"]["medians"]
    assert result["not_judged"] == {
        "step_ms": "expected of at least 8 configs, received of 0",
        "peak_rss_mib": "expected of at least 8 configs, received of 0",
        "peak_gpu_mib": "no arm runs on a GPU",
        "energy_j": "no energy counter of the CPU",
    }
    assert "Not judged: energy_j: no energy counter of the CPU." in text


def test_its_sweeps_measure_the_judged_targets() -> None:
    specs = {
        name: load(Path(cost_model.__file__).with_name(f"cost_model_{name}.yaml"), ())
        for name in cost_model.SWEEPS
    }
    assert {name: spec.name for name, spec in specs.items()} == {
        "time": "cost-model-time",
        "memory": "cost-model-memory",
    }
    assert bool(specs["memory"].fresh_trainer_reason)
    assert not specs["time"].fresh_trainer_reason
