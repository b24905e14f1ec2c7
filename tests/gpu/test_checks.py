"""The checks in tiny sizes, on a GPU if there is one and on the CPU; in full size: `make gpu`."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.hardware import probe
from tests.gpu import proofs, times
from tests.gpu.checks import CHECKS, run_checks
from tests.gpu.lab import Lab
from tests.gpu.outcomes import Record
from tests.gpu.sizes import CELLS, QUICK
from tests.nvml.simulated import SimulatedGpu, SimulatedNvml, Trend
from tests.workloads.shared_trainer import expect_package
from workloads.eligibility import is_installed
from workloads.implementations import BACKENDS
from workloads.protocol import Device

pytestmark = pytest.mark.full

ON_A_CPU = [
    *((backend, check) for backend in BACKENDS for check in (proofs.numbers, times.speed)),
    *(("tensorflow", check) for check in (proofs.evidence, proofs.refusals, times.memory)),
    *(("torch", check) for check in (proofs.fall_backs, proofs.fit)),
    ("jax", times.predict),
    ("torch", times.roofline),
]


@pytest.fixture(scope="module")
def cpu_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    yield from lab_on("cpu", tmp_path_factory)


@pytest.fixture(scope="module")
def gpu_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    if not probe().gpus:
        pytest.skip("NVML sees no NVIDIA GPU")
    yield from lab_on("gpu", tmp_path_factory)


def lab_on(device: Device, folders: pytest.TempPathFactory) -> Iterator[Lab]:
    backends = [backend for backend in BACKENDS if is_installed(backend)]
    sizes = replace(QUICK, cells=CELLS) if device == "gpu" else QUICK
    with Lab(device, sizes, backends, scratch=folders.mktemp("lab")) as lab:
        yield lab


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", CHECKS)
def test_a_gpu_passes_the_check(name: str, gpu_lab: Lab) -> None:
    record = Record(None, {})
    run_checks([CHECKS[name]], gpu_lab, record)
    assert [outcome.line for outcome in record.outcomes if outcome.status == "failed"] == []
    if all(outcome.status == "skipped" for outcome in record.outcomes):
        pytest.skip("; ".join(outcome.reason for outcome in record.outcomes))


@pytest.mark.parametrize(
    ("backend", "check"), ON_A_CPU, ids=lambda value: getattr(value, "__name__", value)
)
def test_checks_run_on_a_cpu(cpu_lab: Lab, backend: str, check: Any) -> None:
    expect_package(backend)
    outcomes = list(check(cpu_lab, backend))
    assert [outcome for outcome in outcomes if outcome.status not in ("passed", "skipped")] == []
    assert any(outcome.status == "passed" for outcome in outcomes)


def test_a_gpu_hidden_from_jax_is_refused_like_a_missing_one(cpu_lab: Lab) -> None:
    expect_package("jax")
    answer = cpu_lab.ask("probes:hidden", "jax/portable")
    assert answer.failure == "not_possible"
    hint = "it sees none (Unable to initialize backend 'cuda': No visible GPU devices.)"
    assert hint in str(answer.reason)


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
