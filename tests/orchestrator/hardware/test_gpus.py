"""GPUs as NVML reports them, or refuses to: one call in turn, by a stand-in for its library."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import pytest

from orchestrator import hardware
from orchestrator.hardware import Node, NodeProfile, classify, no_gpu_class_reason
from orchestrator.hardware.gpu_readers import ClockState, GpuMemory
from orchestrator.hardware.gpu_readers.nvml import Nvml, NvmlDevice
from tests.nvml import simulated

Probe: TypeAlias = Callable[[simulated.SimulatedNvml], NodeProfile]

H200 = simulated.SimulatedGpu(
    name="NVIDIA H200",
    uuid="GPU-aaaa",
    memory_mib=143_771,
    memory_used_mib=100.0,
    memory_reserved_mib=10.0,
    energy_j=5.0,
    clock_reasons=float(0x4 + 0x40 + 0x1000),
    processes=[(11, 5.0), (0, 6.0), (0, 7.0)],  # two of other containers
    power_limit_w=700,
    compute_capability=(9, 0),
    mig=False,
)
T4 = simulated.SimulatedGpu(uuid="GPU-bbbb")


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Probe:
    def of(nvml: simulated.SimulatedNvml) -> NodeProfile:
        nvml.in_this_process(monkeypatch, tmp_path)
        return hardware.probe()

    return of


def failing(errors: Mapping[str, int]) -> simulated.SimulatedGpu:
    return dataclasses.replace(H200, errors=errors)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        *itertools.product(
            ["nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetName", "nvmlDeviceGetUUID", "*"],
            [simulated.GPU_IS_LOST, simulated.NOT_SUPPORTED, simulated.UNKNOWN],
        ),
        ("nvmlDeviceGetEnforcedPowerLimit", simulated.GPU_IS_LOST),
    ],
)
def test_a_gpu_that_has_no_name_or_is_lost_is_a_fault(probe: Probe, call: str, code: int) -> None:
    answers = probe(simulated.SimulatedNvml([failing({call: code}), T4]))
    assert [(gpu.index, gpu.name) for gpu in answers.gpus] == [(1, "NVIDIA T4")]
    (fault,) = answers.gpu_faults
    assert fault.startswith("GPU 0 does not answer: ")
    assert code != simulated.GPU_IS_LOST or fault.endswith(": GPU is lost")
    (_, gpu) = classify([Node("", answers, 2)])
    assert gpu.name.startswith("NVIDIA T4 (")


@pytest.mark.parametrize("call", ["*", *simulated.NODE_CALLS])
@pytest.mark.parametrize(
    "code", [simulated.DRIVER_NOT_LOADED, simulated.LIB_RM_VERSION_MISMATCH, simulated.UNKNOWN]
)
def test_no_call_of_a_node_ends_a_probe(probe: Probe, call: str, code: int) -> None:
    answers = probe(simulated.SimulatedNvml([H200], errors={call: code}))
    assert bool(answers.gpus) != bool(answers.gpu_faults)


def test_a_gpu_in_parts_forms_no_class(probe: Probe) -> None:
    node = Node("", probe(simulated.SimulatedNvml([dataclasses.replace(H200, mig=True)])), 2)
    assert [hardware.device for hardware in classify([node])] == ["cpu"]
    assert "nvidia-smi -i 0 -mig 0" in (no_gpu_class_reason(node) or "")


def test_ray_may_not_hand_out_a_gpu_that_is_lost(probe: Probe) -> None:
    third = dataclasses.replace(H200, uuid="GPU-cccc")
    answers = probe(simulated.SimulatedNvml([H200, failing({"*": simulated.GPU_IS_LOST}), third]))
    node = Node("a", answers, 2, gpu_limit=3)
    assert [hardware.device for hardware in classify([node])] == ["cpu"]
    assert "CUDA_VISIBLE_DEVICES=0,2" in (no_gpu_class_reason(node) or "")
    node = Node("a", answers, 2, gpu_limit=2)
    assert [hardware.device for hardware in classify([node])] == ["cpu", "gpu"]


READINGS: dict[str, object] = {
    "name": "NVIDIA H200",
    "uuid": "GPU-aaaa",
    "compute_capability": "9.0",
    "power_w": 70.0,
    "power_limit_w": 700.0,
    "energy_j": 5.0,
    "memory": GpuMemory(143_771.0, 100.0),
    "utilization_pct": 90.0,
    "temperature_c": 55.0,
    "sm_clock_mhz": 1500.0,
    "clock_reasons": {"sw_power_cap", "hw_thermal_slowdown", "other"},
    "processes": (11, 0, 0),
    "mig": False,
}
"""What each method of a device returns for the simulated H200."""


def readings(device: NvmlDevice) -> dict[str, object]:
    return {name: getattr(device, name)() for name in READINGS}


def open_device(nvml: Nvml) -> NvmlDevice:
    (device,) = nvml.devices()
    assert isinstance(device, NvmlDevice)
    return device


@pytest.mark.parametrize("code", [simulated.NOT_SUPPORTED, simulated.UNKNOWN, 4711])
def test_a_call_that_is_refused_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int
) -> None:
    simulated.SimulatedNvml([H200]).in_this_process(monkeypatch, tmp_path)
    absent = Counter[str]()
    with closing(Nvml()) as nvml:
        device = open_device(nvml)
        for call in simulated.GPU_CALLS:
            simulated.SimulatedNvml([failing({call: code})]).write(tmp_path)
            measured = readings(device)
            lacking = [name for name, value in measured.items() if value is None]
            expected = {**READINGS, **dict.fromkeys(lacking)}
            if call == "nvmlDeviceGetMemoryInfo_v2":
                expected["memory"] = GpuMemory(143_771.0, 110.0)  # with the driver's own part
            assert measured == expected, call
            refused = list(device.errors.values())
            assert (refused or not lacking) and not device.is_lost
            assert all(error.call == call.removesuffix("_v3") for error in refused)
            absent.update(lacking)
        simulated.SimulatedNvml([H200]).write(tmp_path)
        assert readings(device) == READINGS
        assert device.errors == {}  # a later reading clears its error
    of_two_calls = {"memory", "clock_reasons"}
    assert absent == dict.fromkeys(READINGS.keys() - of_two_calls, 1)


def test_why_a_clock_is_low_is_judged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    idle, app_clocks, power_cap, hot, newer = 0x1, 0x2, 0x4, 0x40, 0x1000
    states = {
        0: ClockState(),
        idle: ClockState(is_intended=True),
        app_clocks: ClockState(is_intended=True),
        power_cap: ClockState(frozenset({"sw_power_cap"}), is_intended=True),
        hot: ClockState(frozenset({"hw_thermal_slowdown"})),
        newer: ClockState(),
    }
    simulated.SimulatedNvml([H200]).in_this_process(monkeypatch, tmp_path)
    with closing(Nvml()) as nvml:
        device = open_device(nvml)
        for mask, state in states.items():
            changed = dataclasses.replace(H200, clock_reasons=float(mask))
            simulated.SimulatedNvml([changed]).write(tmp_path)
            assert device.clock_state() == state, mask
