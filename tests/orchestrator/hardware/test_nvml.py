"""The readings of NVML, from a stand-in for it at its C boundary: as pynvml reads the real one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.hardware.nvml import Memory, Nvml, NvmlDevice
from tests.nvml.simulated import (
    FUNCTION_NOT_FOUND,
    GPU_CALLS,
    NOT_SUPPORTED,
    UNKNOWN,
    SimulatedGpu,
    SimulatedNvml,
)

H200 = SimulatedGpu(
    "NVIDIA H200",
    uuid="GPU-a",
    memory_mib=1000.0,
    memory_used_mib=100.0,
    memory_reserved_mib=10.0,
    energy_j=5.0,
    clock_reasons=0x4 + 0x40 + 0x1000,
    compute_capability=(9, 0),
    mig=False,
    processes={11: 5.0, 12: 6.0},
)
NUMBERS = {  # name -> value, and NVML's call
    "power_w": (70.0, "nvmlDeviceGetPowerUsage"),
    "power_limit_w": (70.0, "nvmlDeviceGetEnforcedPowerLimit"),
    "energy_j": (5.0, "nvmlDeviceGetTotalEnergyConsumption"),
    "temperature_c": (55.0, "nvmlDeviceGetTemperature"),
    "sm_clock_mhz": (1500.0, "nvmlDeviceGetClockInfo"),
    "memory_clock_mhz": (5000.0, "nvmlDeviceGetClockInfo"),
    "max_sm_clock_mhz": (1590.0, "nvmlDeviceGetMaxClockInfo"),
    "max_memory_clock_mhz": (5001.0, "nvmlDeviceGetMaxClockInfo"),
    "pcie_rx_mib_s": (2.0, "nvmlDeviceGetPcieThroughput"),
    "pcie_tx_mib_s": (1.0, "nvmlDeviceGetPcieThroughput"),
    "pcie_lanes_now": (16.0, "nvmlDeviceGetCurrPcieLinkWidth"),
    "pcie_lanes": (16.0, "nvmlDeviceGetMaxPcieLinkWidth"),
    "pcie_generation": (3.0, "nvmlDeviceGetMaxPcieLinkGeneration"),
}
FACTS = {
    "name": ("NVIDIA H200", "nvmlDeviceGetName"),
    "uuid": ("GPU-a", "nvmlDeviceGetUUID"),
    "memory": (Memory(1000.0, 100.0), ""),  # two calls, as the clocks' reasons have
    "compute_capability": ("9.0", "nvmlDeviceGetCudaComputeCapability"),
    "utilization_pct": (90.0, "nvmlDeviceGetUtilizationRates"),
    "clock_reasons": ({"sw_power_cap", "hw_thermal_slowdown", "other"}, ""),
    "compute_pids": ({11, 12}, "nvmlDeviceGetComputeRunningProcesses_v3"),
    "Ecc": (True, "nvmlDeviceGetEccMode"),
    "Mig": (False, "nvmlDeviceGetMigMode"),
}
EVERY = {**FACTS, **NUMBERS}


def readings(device: NvmlDevice) -> dict[str, object]:
    facts = {name: getattr(device, name)() for name in FACTS if name.islower()}
    facts |= {name: device.number(name) for name in NUMBERS}
    return facts | {"Ecc": device.mode("Ecc"), "Mig": device.mode("Mig")}


@pytest.mark.parametrize("code", [NOT_SUPPORTED, FUNCTION_NOT_FOUND, UNKNOWN, 4711])
def test_a_call_that_is_refused_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int
) -> None:
    SimulatedNvml([H200]).in_this_process(monkeypatch, tmp_path)
    with Nvml() as nvml:
        device = nvml.device(0)
        for call in GPU_CALLS[1:]:
            expected = {name: None if of == call else value for name, (value, of) in EVERY.items()}
            if call == "nvmlDeviceGetMemoryInfo_v2":
                expected["memory"] = Memory(1000.0, 110.0)  # with the driver's own part
            SimulatedNvml([replace(H200, errors={call: code})]).write(tmp_path)
            assert readings(device) == expected, call
            refused = list(device.errors.values())
            assert (refused or None not in expected.values()) and not device.lost
            assert all((one.code, one.call) == (code, call.removesuffix("_v3")) for one in refused)
        SimulatedNvml([H200]).write(tmp_path)
        readings(device)
        assert device.errors == {}  # a later reading clears its error
