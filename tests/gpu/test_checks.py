"""The checks in tiny sizes on the CPU; on a GPU: `make gpu`."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.gpu import proofs, times
from tests.gpu.lab import Lab
from tests.gpu.sizes import QUICK
from tests.nvml.simulated import SimulatedGpu, SimulatedNvml, Trend
from tests.workloads.shared_trainer import expect_package
from workloads.eligibility import is_installed
from workloads.implementations import BACKENDS

pytestmark = pytest.mark.full

ON_A_CPU = [
    *((backend, check) for backend in BACKENDS for check in (proofs.numbers, times.speed)),
    *(("tensorflow", check) for check in (proofs.evidence, proofs.refusals, times.memory)),
    ("torch", proofs.fit),
]


@pytest.fixture(scope="module")
def cpu_lab() -> Iterator[Lab]:
    backends = [backend for backend in BACKENDS if is_installed(backend)]
    with Lab("cpu", QUICK, backends) as lab:
        yield lab


@pytest.mark.parametrize(
    ("backend", "check"), ON_A_CPU, ids=lambda value: getattr(value, "__name__", value)
)
def test_checks_run_on_a_cpu(cpu_lab: Lab, backend: str, check: Any) -> None:
    expect_package(backend)
    outcomes = list(check(cpu_lab, backend))
    assert [outcome for outcome in outcomes if outcome.status not in ("passed", "skipped")] == []
    assert any(outcome.status == "passed" for outcome in outcomes)


@pytest.mark.parametrize(("watts", "wrong"), [(300.0, ""), (0.0, "energy_j by power is 0")])
def test_only_a_gpu_that_draws_power_is_plausible(
    cpu_lab: Lab, watts: float, wrong: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expect_package("torch")
    monkeypatch.setattr(cpu_lab, "sizes", replace(cpu_lab.sizes, power_s=4.0))
    gpu = SimulatedGpu(power_w=watts, energy_j=Trend(5e4, per_s=watts), memory_used_mib=1024.0)
    SimulatedNvml([gpu]).in_this_process(monkeypatch, tmp_path)
    (outcome,) = times.telemetry(cpu_lab, "torch")
    assert wrong in outcome.reason
    assert bool(outcome.reason) == bool(wrong)
    assert outcome.measured["samples"] > 1
