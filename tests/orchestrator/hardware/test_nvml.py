"""The readings of NVML, from a stand-in for it at its C boundary: as pynvml reads the real one."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrator.hardware.nvml import THROTTLING, Memory, Nvml, NvmlDevice, NvmlError, PcieLink
from tests.nvml.simulated import (
    FUNCTION_NOT_FOUND,
    GPU_CALLS,
    GPU_IS_LOST,
    LIB_RM_VERSION_MISMATCH,
    NO_PERMISSION,
    NOT_SUPPORTED,
    UNKNOWN,
    Refusal,
    SimulatedGpu,
    SimulatedNvml,
    Trend,
)

ROOT = Path(__file__).resolve().parents[3]
READINGS = (
    "name",
    "uuid",
    "memory",
    "compute_capability",
    "utilization_pct",
    "power_w",
    "power_limit_w",
    "energy_j",
    "temperature_c",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "max_sm_clock_mhz",
    "max_memory_clock_mhz",
    "clock_reasons",
    "pcie_rx_mib_s",
    "pcie_tx_mib_s",
    "compute_pids",
    "ecc",
)


def readings(device: NvmlDevice) -> dict[str, object]:
    return {name: getattr(device, name)() for name in READINGS}


def test_all_readings_of_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gpu = SimulatedGpu(
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
    SimulatedNvml([gpu, SimulatedGpu()]).in_this_process(monkeypatch, tmp_path)
    with Nvml() as nvml:
        assert (nvml.count(), nvml.driver(), nvml.cuda()) == (2, "580.95.05", "13.0")
        device = nvml.device_of("GPU-a")
        assert readings(device) == {
            "name": "NVIDIA H200",
            "uuid": "GPU-a",
            "memory": Memory(1000.0, 100.0),
            "compute_capability": (9, 0),
            "utilization_pct": 90.0,
            "power_w": 70.0,
            "power_limit_w": 70.0,
            "energy_j": 5.0,
            "temperature_c": 55.0,
            "sm_clock_mhz": 1500.0,
            "memory_clock_mhz": 5000.0,
            "max_sm_clock_mhz": 1590.0,
            "max_memory_clock_mhz": 5001.0,
            "clock_reasons": {"sw_power_cap", "hw_thermal_slowdown", "other"},
            "pcie_rx_mib_s": 2.0,
            "pcie_tx_mib_s": 1.0,
            "compute_pids": {11, 12},
            "ecc": True,
        }
        assert device.mig() is False
        assert device.pcie_link() == PcieLink(3, 16, 3, 16)
        assert device.errors == {}
        assert nvml.device(1).compute_pids() == frozenset()


def test_a_child_process_sees_them_too_and_in_time(tmp_path: Path) -> None:
    program = (
        "import json; from orchestrator.hardware.nvml import Nvml\n"
        "with Nvml() as nvml: print(json.dumps([nvml.count(), nvml.device(0).name()]))"
    )
    environment = SimulatedNvml([SimulatedGpu("NVIDIA L4")]).environment(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == [1, "NVIDIA L4"]


def test_values_change_with_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    began_s = time.monotonic()
    energy = [Trend(100.0, per_s=1000.0), Trend(0.0, from_s=0.2)]
    SimulatedNvml([SimulatedGpu(energy_j=energy)]).in_this_process(monkeypatch, tmp_path)
    with Nvml() as nvml:
        device = nvml.device(0)
        first = device.energy_j()
        assert first is not None
        assert 100.0 <= first <= 100.0 + 1000.0 * (time.monotonic() - began_s)
        time.sleep(0.25)
        assert device.energy_j() == 0.0  # the counter was reset
        SimulatedNvml([SimulatedGpu(energy_j=7.0)]).write(tmp_path)
        assert device.energy_j() == 7.0


READ_BY = {
    "nvmlDeviceGetName": {"name"},
    "nvmlDeviceGetUUID": {"uuid"},
    "nvmlDeviceGetUtilizationRates": {"utilization_pct"},
    "nvmlDeviceGetPowerUsage": {"power_w"},
    "nvmlDeviceGetEnforcedPowerLimit": {"power_limit_w"},
    "nvmlDeviceGetTotalEnergyConsumption": {"energy_j"},
    "nvmlDeviceGetTemperature": {"temperature_c"},
    "nvmlDeviceGetClockInfo": {"sm_clock_mhz", "memory_clock_mhz"},
    "nvmlDeviceGetMaxClockInfo": {"max_sm_clock_mhz", "max_memory_clock_mhz"},
    "nvmlDeviceGetPcieThroughput": {"pcie_rx_mib_s", "pcie_tx_mib_s"},
    "nvmlDeviceGetComputeRunningProcesses_v3": {"compute_pids"},
    "nvmlDeviceGetEccMode": {"ecc"},
    "nvmlDeviceGetCudaComputeCapability": {"compute_capability"},
}


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, UNKNOWN, 4711])
def test_a_call_that_is_refused_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int
) -> None:
    for call in GPU_CALLS[2:]:
        SimulatedNvml([SimulatedGpu(errors={call: code})]).in_this_process(monkeypatch, tmp_path)
        with Nvml() as nvml:
            device = nvml.device(0)
            silent = {name for name, value in readings(device).items() if value is None}
            link = device.pcie_link()
        # Memory and the clocks' reasons have an older call each, to be asked in its place.
        assert silent == READ_BY.get(call, set()), call
        assert (None in (link.generation, link.lanes)) == ("GetCurrPcie" in call)
        assert not device.lost
        if silent:
            (refused,) = device.errors.values()
            assert (refused.code, refused.call) == (code, call.removesuffix("_v3"))
            assert str(refused).startswith(refused.call)


def test_a_later_reading_clears_its_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    refused = SimulatedGpu(errors={"nvmlDeviceGetPowerUsage": UNKNOWN})
    SimulatedNvml([refused]).in_this_process(monkeypatch, tmp_path)
    with Nvml() as nvml:
        device = nvml.device(0)
        assert (device.power_w(), len(device.errors)) == (None, 1)
        SimulatedNvml([SimulatedGpu()]).write(tmp_path)
        assert (device.power_w(), device.errors) == (70.0, {})


def test_a_gpu_that_falls_off_the_bus_has_no_readings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lost = SimulatedGpu(errors={"*": Refusal(GPU_IS_LOST, from_call=3)})
    SimulatedNvml([lost, SimulatedGpu()]).in_this_process(monkeypatch, tmp_path)
    with Nvml() as nvml:
        device = nvml.device(0)
        assert (device.name(), device.lost) == ("NVIDIA T4", False)
        assert set(readings(device).values()) == {None}
        assert device.lost
        with pytest.raises(NvmlError) as refused:
            nvml.device(0)
        assert refused.value.lost
        assert nvml.device(1).power_w() == 70.0


def test_a_node_reports_that_nvml_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pretended = SimulatedNvml(errors={"nvmlInitWithFlags": LIB_RM_VERSION_MISMATCH})
    pretended.in_this_process(monkeypatch, tmp_path)
    with pytest.raises(NvmlError, match=r"^nvmlInit: .*version") as refused, Nvml():
        pass
    assert not refused.value.no_library
    silent = {"nvmlSystemGetDriverVersion": UNKNOWN, "nvmlSystemGetCudaDriverVersion_v2": UNKNOWN}
    SimulatedNvml(errors=silent).write(tmp_path)
    with Nvml() as nvml:
        assert (nvml.driver(), nvml.cuda(), nvml.count()) == (None, None, 0)


def test_throttling_is_no_idle_clock() -> None:
    assert "sw_power_cap" in THROTTLING
    assert "gpu_idle" not in THROTTLING
