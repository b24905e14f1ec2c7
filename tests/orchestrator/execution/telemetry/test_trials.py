"""The telemetry in the outcomes of trials of a real trainer process."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from orchestrator.core.trial import Outcome, outcome_adapter, to_json
from orchestrator.execution.actor import run_trial
from orchestrator.execution.job import Job, TrialLimits, TrialRun
from orchestrator.execution.telemetry import Instruments
from orchestrator.execution.trainer_pool import TrainerPool
from tests.nvml.simulated import SimulatedGpu, SimulatedNvml, Trend
from workloads.protocol import Device, TrialRequest

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(autouse=True)
def short_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.execution.telemetry.energy.LEAST_S", 0.05)
    monkeypatch.setattr("orchestrator.execution.telemetry.energy.LEAST_WINDOW_S", 0.0005)
    monkeypatch.setattr("orchestrator.execution.telemetry.sampler._WHOLE_S", 0.1)
    # However late a busy machine lets the first sample be taken.
    monkeypatch.setattr("orchestrator.execution.telemetry.samples._BEYOND_S", 10.0)


def run(
    trainers: TrainerPool, device: Device, epochs: int, instruments: Instruments | None = None
) -> Outcome:
    settings = {"units": 16, "epochs": epochs}
    request = TrialRequest(
        "tests.workloads.examples.echo_memory:run", "numpy/loop", settings, device
    )
    job = Job(request, 1, time.time(), TrialLimits(60, 30), (str(ROOT),))
    trial_run = TrialRun(job, instruments=instruments or Instruments())
    list(run_trial(job, trial_run, trainers))
    return trial_run.outcome()


def test_a_users_workload_on_a_gpu_has_energy_of_its_training_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, trainers: TrainerPool
) -> None:
    instruments = Instruments()
    mine = SimulatedGpu(uuid="GPU-a", energy_j=Trend(1000.0, per_s=70.0))
    SimulatedNvml([mine, SimulatedGpu(uuid="GPU-b", power_w=300.0)]).in_this_process(
        monkeypatch, tmp_path
    )
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    for _ in range(2):  # the second has NVML from the first
        outcome = run(trainers, "gpu", 300, instruments)
        assert outcome.status == "complete"
        train_s = outcome.metrics["train_s"]
        assert outcome.metrics["mean_power_w"] == pytest.approx(70.0, rel=0.05)
        assert outcome.metrics["energy_j"] == pytest.approx(70.0 * train_s, rel=0.05)
        assert outcome.metrics["energy_j"] < 70.0 * (outcome.ended_s - outcome.started_s)
        assert outcome.metrics["trainer_cpu_pct"] > 0
        assert outcome.telemetry.energy_scope in ("gpu", "gpu+cpu_package")
        curves = outcome.telemetry.curves
        assert set(curves["system/gpu_0_power_usage_watts"]) == {70.0}
        assert not [name for name in curves if "gpu_1" in name]
        assert outcome_adapter.validate_json(to_json(outcome_adapter, outcome)) == outcome


def test_a_trial_that_is_taken_away_is_sampled_no_longer(trainers: TrainerPool) -> None:
    request = TrialRequest(
        "tests.workloads.examples.echo_memory:run", "numpy/loop", {"epochs": 10_000}
    )
    trial_run = TrialRun(Job(request, 1, time.time(), TrialLimits(60, 30), (str(ROOT),)))
    epochs = run_trial(trial_run.job, trial_run, trainers)
    next(epochs)
    epochs.close()
    assert not trial_run.sampler_hangs
    assert trial_run._sampler is not None
    assert not trial_run._sampler._thread.is_alive()
