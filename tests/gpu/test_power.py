"""The meter of a GPU, on a simulated NVML."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from orchestrator.hardware import probe
from tests.gpu import times
from tests.gpu.power import Meter, NoMeter
from tests.gpu.scripted import lab_of
from tests.nvml.simulated import SimulatedGpu, SimulatedNvml, Trend


@pytest.fixture(autouse=True)
def every_gpu_is_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def at_work(watts: float = 300.0, *, has_energy: bool = True) -> SimulatedNvml:
    energy = Trend(5e4, per_s=watts) if has_energy else None
    gpu = SimulatedGpu(power_w=watts, energy_j=energy, memory_used_mib=1024.0)
    return SimulatedNvml([gpu])


def read_twice() -> Meter:
    with Meter() as meter:
        for _ in range(2):
            meter.read()
            meter.read()  # too early, skipped
            time.sleep(0.11)
    return meter


def test_a_gpu_at_work_is_plausible(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    at_work().in_this_process(monkeypatch, tmp_path)
    meter = read_twice()
    summary = meter.summary()
    assert (summary["samples"], summary["mean power_w"], summary["max memory_mib"]) == (
        2,
        300.0,
        1024.0,
    )
    assert summary["energy_j"] == pytest.approx(summary["energy_j by power"], rel=0.5)
    assert meter.implausible() == []


def test_a_gpu_without_power_is_not_plausible(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    at_work(watts=0.0).in_this_process(monkeypatch, tmp_path)
    assert read_twice().implausible() == ["energy_j is 0.0", "mean power_w is 0.0"]


def test_telemetry_is_skipped_if_nvml_sees_no_gpu(tmp_path: Path) -> None:
    if probe().gpus:
        pytest.skip("there is a GPU here")
    with pytest.raises(NoMeter, match="NVML sees no GPU"), Meter():
        pass
    with lab_of(tmp_path) as lab:
        (outcome,) = times.telemetry(lab, "tensorflow")
    assert (outcome.status, outcome.reason) == ("skipped", "NVML sees no GPU")
