"""The check of telemetry, on a simulated NVML."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.gpu import times
from tests.gpu.lab import Lab
from tests.nvml.simulated import SimulatedGpu, SimulatedNvml, Trend
from tests.workloads.shared_trainer import expect_package


@pytest.mark.full
@pytest.mark.parametrize(("watts", "wrong"), [(300.0, ""), (0.0, "energy_j by power is 0")])
def test_only_a_gpu_that_draws_power_is_plausible(
    cpu_lab: Lab, watts: float, wrong: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expect_package("torch")
    monkeypatch.setattr(cpu_lab, "sizes", replace(cpu_lab.sizes, power_s=4.0))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    gpu = SimulatedGpu(power_w=watts, energy_j=Trend(5e4, per_s=watts), memory_used_mib=1024.0)
    SimulatedNvml([gpu]).in_this_process(monkeypatch, tmp_path)
    (outcome,) = times.telemetry(cpu_lab, "torch")
    assert wrong in outcome.reason
    assert bool(outcome.reason) == bool(wrong)
    assert outcome.measured["samples"] > 1
