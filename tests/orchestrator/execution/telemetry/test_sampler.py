"""Sampling a real process with simulated GPUs: placement and errors, not figures."""

from __future__ import annotations

import dataclasses
import itertools
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from orchestrator.execution.telemetry import Instruments, Recording, Sampler, TimeWindow
from orchestrator.execution.telemetry.gpu_gauge import GpuGauge
from orchestrator.execution.telemetry.summary import summarise
from tests.nvml.simulated import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    Refusal,
    SimulatedGpu,
    SimulatedNvml,
)
from workloads.protocol import Device, Epoch, PhaseBegan, PhaseEnded

SAMPLER = "orchestrator.execution.telemetry.sampler"


@pytest.fixture
def pid() -> Iterator[int]:
    """A process that does nothing."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process.pid
        process.kill()


@pytest.fixture(autouse=True)
def short_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows that a test can wait for."""
    monkeypatch.setattr("orchestrator.execution.telemetry.energy.LEAST_S", 0.2)
    monkeypatch.setattr("orchestrator.execution.telemetry.energy.LEAST_WINDOW_S", 0.1)
    for name, value in (("WHOLE_S", 0.1), ("COUNTER_S", 0.05), ("POWER_S", 0.05), ("REST", 1.0)):
        monkeypatch.setattr(f"{SAMPLER}._{name}", value)


def sample(
    pid: int,
    device: Device = "gpu",
    *,
    seconds: float = 0.25,
    instruments: Instruments | None = None,
    rivals: tuple[int, ...] = (),
) -> Recording:
    """Sample a process through one window of so many seconds, with a margin on both sides."""
    sampler = Sampler(device, pid, instruments or Instruments(), rivals)
    sampler.start()
    _await_samples(sampler, 1)
    began_s = time.monotonic()
    sampler.take(PhaseBegan("train", began_s))
    time.sleep(seconds)
    _await_samples(sampler, 2)
    now_s = time.monotonic()
    sampler.take(PhaseEnded("train", now_s, now_s - began_s))
    sampler.take(PhaseEnded("validate", now_s, 5.0))
    sampler.take(Epoch(0, now_s - began_s))
    time.sleep(0.1)
    return sampler.stop()


def _await_samples(sampler: Sampler, count: int) -> None:
    """Wait for so many whole samples more, however busy the machine is; for 10 s at most."""

    def whole() -> int:
        return sum(sample.node is not None for sample in sampler._samples.all())

    enough, until_s = whole() + count, time.monotonic() + 10
    while whole() < enough and sampler._thread.is_alive() and time.monotonic() < until_s:
        time.sleep(0.01)


@pytest.mark.parametrize("rivals", [(), (999_998,)])
def test_a_rival_on_the_gpu_is_no_other_process_even_in_a_container(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pid: int, rivals: tuple[int, ...]
) -> None:
    gpu = SimulatedGpu(processes={7: 900.0, 8: 900.0, 9: 1.0})  # numbers of another namespace
    SimulatedNvml([gpu]).in_this_process(monkeypatch, tmp_path)
    _, telemetry = summarise(sample(pid, rivals=rivals))
    assert telemetry.other_gpu_processes == (1 if rivals else 2)


def test_the_highest_clock_is_kept_between_trials(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gauge, highest_mhz = GpuGauge(), []
    fast, slow = SimulatedGpu(uuid="GPU-a", sm_clock_mhz=1_900.0), SimulatedGpu(uuid="GPU-b")
    same = dataclasses.replace(fast, sm_clock_mhz=1_000.0)
    SimulatedNvml([fast]).in_this_process(monkeypatch, tmp_path)
    for gpu in (fast, same, slow):
        SimulatedNvml([gpu]).write(tmp_path)
        gauge.find()
        (reading,) = gauge.read(family=())
        gauge.release()
        highest_mhz.append(reading.highest_sm_clock_mhz)
    assert highest_mhz == [1_900.0, 1_900.0, 1_500.0]


def test_a_suspension_of_the_machine_is_noticed(monkeypatch: pytest.MonkeyPatch, pid: int) -> None:
    slept_s = itertools.chain([0.0, 0.0, 0.0, 3600.0], itertools.repeat(3600.1))
    monkeypatch.setattr(f"{SAMPLER}._slept_s", slept_s.__next__)
    recording = sample(pid, "cpu")
    assert [sample.slept for sample in recording.samples[:4]] == [False, False, True, False]


def test_windows_that_overlap_count_once(pid: int) -> None:
    sampler = Sampler("cpu", pid, Instruments())
    for ended_s, seconds in ((3.0, 2.0), (4.0, 2.0), (9.0, 0.0), (8.0, 1.0), (4.5, 0.5)):
        sampler.take(PhaseEnded("train", ended_s, seconds))
    assert sampler.stop().windows == [TimeWindow(1.0, 4.5), TimeWindow(7.0, 8.0)]


@pytest.mark.parametrize(
    "call",
    [
        "nvmlInitWithFlags",
        "nvmlDeviceGetCount_v2",
        "nvmlDeviceGetHandleByIndex_v2",
        "nvmlDeviceGetUUID",
    ],
)
def test_a_gpu_that_cannot_be_found_has_a_reason_and_the_node_is_recorded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pid: int, call: str
) -> None:
    nvml = SimulatedNvml([SimulatedGpu()], errors={call: DRIVER_NOT_LOADED})
    nvml.in_this_process(monkeypatch, tmp_path)
    recording = sample(pid)
    metrics, telemetry = summarise(recording)
    assert telemetry.energy_absent == recording.gpu_reason != ""
    assert "sm_clock_mhz" not in metrics
    assert {"trainer_cpu_pct", "others_cpu_pct"} <= set(metrics)


def test_a_gpu_that_is_lost_in_the_middle_has_a_reason_and_no_energy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pid: int
) -> None:
    lost = SimulatedGpu(errors={"*": Refusal(GPU_IS_LOST, from_call=30)})
    SimulatedNvml([lost]).in_this_process(monkeypatch, tmp_path)
    instruments = Instruments()
    metrics, telemetry = summarise(sample(pid, seconds=0.8, instruments=instruments))
    assert "energy_j" not in metrics
    assert telemetry.energy_absent == "; ".join(
        f"GPU 0: nvmlDeviceGet{call}: GPU is lost"
        for call in ("PowerUsage", "TotalEnergyConsumption")
    )
    SimulatedNvml([SimulatedGpu()]).write(tmp_path)  # after a reset, the next trial has it again
    metrics, telemetry = summarise(sample(pid, instruments=instruments))
    assert "energy_j" in metrics


def test_a_driver_that_hangs_delays_no_trial(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pid: int
) -> None:
    hanging = SimulatedGpu(errors={"nvmlDeviceGetTemperature": Refusal(-3_000)})
    SimulatedNvml([hanging]).in_this_process(monkeypatch, tmp_path)
    instruments = Instruments()
    in_use = instruments.gpus
    sampler = Sampler("gpu", pid, instruments)
    sampler.start()
    time.sleep(0.3)
    began_s = time.monotonic()
    recording = sampler.stop()
    assert time.monotonic() - began_s < 2.0
    assert instruments.gpus is not in_use
    assert recording.gpu_reason == "NVML did not answer within 0.5 s"
    assert summarise(recording)[0] == {}


def test_a_fault_of_telemetry_ends_no_trial(monkeypatch: pytest.MonkeyPatch, pid: int) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: 1 / 0)
    recording = sample(pid, "cpu")
    _, telemetry = summarise(recording)
    assert telemetry.energy_absent == "telemetry failed: ZeroDivisionError: division by zero"
