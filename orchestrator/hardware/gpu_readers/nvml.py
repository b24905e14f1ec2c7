"""NVIDIA's GPUs, read through NVML. No other file imports it."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pynvml

from orchestrator.core.text import counted, is_or_are
from orchestrator.hardware.cpu import text_of
from orchestrator.hardware.gpu_readers.gpu_reader import (
    ClockState,
    GpuDevice,
    GpuDriver,
    GpuError,
    GpuLibraryMissing,
    GpuLost,
    GpuMemory,
    GpuReader,
    GpuSample,
    OpenGpuReader,
    listed_indices,
)
from orchestrator.hardware.profile import Gpu, GpuReaderInfo, NoGpus

_MIB = 2**20

_CLOCK_REASONS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}
"""Reasons for lower clocks, by bit. Names are as in NVIDIA's tools."""

_HARMLESS = frozenset({"gpu_idle", "applications_clocks_setting", "display_clock_setting"})
"""Reasons that slow down no busy GPU, or that the user chose."""

_THROTTLING = frozenset(_CLOCK_REASONS.values()) - _HARMLESS

_INTENDED = _HARMLESS | {"sw_power_cap"}
"""Reasons for a low clock that are the GPU's own load, or the user's wish."""

_NVIDIA, _DISPLAY = "0x10de", "0x03"
"""NVIDIA's number on the PCI bus, and the class of devices that GPUs are in."""


class NvmlDevice(GpuDevice):
    """One GPU of NVIDIA."""

    def __init__(self, index: int, handle: Any) -> None:
        self._index, self._handle = index, handle
        self.errors: dict[str, GpuError] = {}

    def name(self) -> str | None:
        """Return `NVIDIA H200`."""
        return _text(self._read(pynvml.nvmlDeviceGetName))

    def uuid(self) -> str | None:
        """Return `GPU-…`."""
        return _text(self._read(pynvml.nvmlDeviceGetUUID))

    def facts(self) -> Gpu:
        """Return what the GPU is; raise `GpuError` if it fell off the bus, or has no name."""
        name, uuid, memory = self.name(), self.uuid(), self.memory()
        if name is None or uuid is None:
            raise self._worst_error()
        gpu = Gpu(
            self._index,
            name,
            uuid,
            memory_mib=int(memory.total_mib) if memory else None,
            compute_capability=self.compute_capability(),
            power_limit_w=self.power_limit_w(),
            no_class_reason=_in_parts(self._index) if self.mig() else None,
        )
        if self.is_lost:
            raise self._worst_error()
        return gpu

    def _worst_error(self) -> GpuError:
        """Return the error that shows that the GPU is lost, or else the first error."""
        errors = list(self.errors.values())
        return next((error for error in errors if isinstance(error, GpuLost)), errors[0])

    def sample(self) -> GpuSample:
        """Read load, memory, heat and clocks."""
        return GpuSample(
            utilization_pct=self.utilization_pct(),
            memory=self.memory(),
            temperature_c=self.temperature_c(),
            sm_clock_mhz=self.sm_clock_mhz(),
            clock_state=self.clock_state(),
        )

    def energy_j(self) -> float | None:
        """Read the joules since the driver was loaded; NVML updates them about every 100 ms."""
        return _divided(self._read(pynvml.nvmlDeviceGetTotalEnergyConsumption), 1000)

    def power_w(self) -> float | None:
        """Read the power of the last instant, or of the last second on an Ampere or later."""
        return _divided(self._read(pynvml.nvmlDeviceGetPowerUsage), 1000)

    def energy_errors(self) -> Sequence[GpuError]:
        """Return the errors of the calls for power and for energy."""
        calls = (pynvml.nvmlDeviceGetPowerUsage, pynvml.nvmlDeviceGetTotalEnergyConsumption)
        names = [call.__name__ for call in calls]
        return tuple(self.errors[name] for name in names if name in self.errors)

    def power_limit_w(self) -> float | None:
        """Return the power at which the GPU lowers its clock."""
        return _divided(self._read(pynvml.nvmlDeviceGetEnforcedPowerLimit), 1000)

    def memory(self) -> GpuMemory | None:
        """Return its memory, without the driver's own part where NVML can separate it."""
        memory = self._read(pynvml.nvmlDeviceGetMemoryInfo, pynvml.nvmlMemory_v2)
        if memory is None:  # an old driver, which counts its own part as used
            memory = self._read(pynvml.nvmlDeviceGetMemoryInfo)
        return None if memory is None else GpuMemory(memory.total / _MIB, memory.used / _MIB)

    def utilization_pct(self) -> float | None:
        """Return the share of the last sampling period (up to 1 s) in which a kernel ran."""
        rates = self._read(pynvml.nvmlDeviceGetUtilizationRates)
        return None if rates is None else float(rates.gpu)

    def temperature_c(self) -> float | None:
        """Return the temperature of the chip."""
        sensor = pynvml.NVML_TEMPERATURE_GPU
        return _number(self._read(pynvml.nvmlDeviceGetTemperature, sensor))

    def sm_clock_mhz(self) -> float | None:
        """Return the clock of the streaming multiprocessors."""
        return _number(self._read(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM))

    def clock_reasons(self) -> frozenset[str] | None:
        """Return the names of the reasons for its clocks; `other` for reasons of newer drivers."""
        mask = self._read(pynvml.nvmlDeviceGetCurrentClocksEventReasons)
        if mask is None:  # an old driver has only the former name
            mask = self._read(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons)
        if mask is None:
            return None
        names = {name for bit, name in _CLOCK_REASONS.items() if mask & bit}
        if int(mask) & ~sum(_CLOCK_REASONS):
            names.add("other")
        return frozenset(names)

    def clock_state(self) -> ClockState | None:
        """Return the reasons for its clocks, judged."""
        reasons = self.clock_reasons()
        if reasons is None:
            return None
        return ClockState(reasons & _THROTTLING, bool(reasons & _INTENDED))

    def processes(self) -> Sequence[int] | None:
        """Return the ids of the processes that compute on it; 0 for each of another container."""
        processes = self._read(pynvml.nvmlDeviceGetComputeRunningProcesses)
        return None if processes is None else tuple(int(process.pid) for process in processes)

    def compute_capability(self) -> str | None:
        """Return `9.0`."""
        pair = self._read(pynvml.nvmlDeviceGetCudaComputeCapability)
        return None if pair is None else ".".join(map(str, pair))

    def mig(self) -> bool | None:
        """Return whether it is split into parts (multi-instance GPU)."""
        modes = self._read(pynvml.nvmlDeviceGetMigMode)
        return None if modes is None else bool(modes[0])

    def _read(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call NVML; return None and keep the error if that fails."""
        try:
            value = _call(call, self._handle, *arguments)
        except GpuError as error:
            self.errors[error.call] = error
            return None
        self.errors.pop(call.__name__, None)
        return value


class Nvml(OpenGpuReader):
    """NVML, opened."""

    def __init__(self) -> None:
        _call(pynvml.nvmlInit)

    def close(self) -> None:
        """Close it; never raise."""
        with contextlib.suppress(GpuError):
            _call(pynvml.nvmlShutdown)

    def devices(self) -> Sequence[GpuDevice | GpuError]:
        """Return the GPUs in the order of the bus, with an error in place of a lost one."""
        return [self._device(index) for index in range(int(_call(pynvml.nvmlDeviceGetCount)))]

    def _device(self, index: int) -> NvmlDevice | GpuError:
        try:
            return NvmlDevice(index, _call(pynvml.nvmlDeviceGetHandleByIndex, index))
        except GpuError as error:
            return error

    def driver(self) -> GpuDriver:
        """Return the driver's version, `580.95.05`, and the newest CUDA that it runs, `13.0`."""
        version = cuda = None
        with contextlib.suppress(GpuError):
            version = str(_call(pynvml.nvmlSystemGetDriverVersion))
        with contextlib.suppress(GpuError):
            number = int(_call(pynvml.nvmlSystemGetCudaDriverVersion_v2))
            cuda = f"{number // 1000}.{number % 1000 // 10}"
        return GpuDriver(version, cuda)


class NvmlReader(GpuReader):
    """The reader of NVIDIA's GPUs."""

    info = GpuReaderInfo(
        id="nvml",
        library="NVML",
        vendor="NVIDIA",
        visibility_variable="CUDA_VISIBLE_DEVICES",
        how_to_reset="nvidia-smi --gpu-reset, or a reboot",
    )

    def open(self) -> Nvml:
        """Open NVML."""
        return Nvml()

    def absence(self, root: Path) -> NoGpus:
        """Return why there is no NVML. GPUs on the bus show that there should be one."""
        on_bus = 0
        for device in (root / "sys/bus/pci/devices").glob("*"):
            is_display = (text_of(device / "class") or "").startswith(_DISPLAY)  # of VGA, 3D, …
            on_bus += is_display and text_of(device / "vendor") == _NVIDIA
        if not on_bus:
            return NoGpus("no NVIDIA driver is installed (NVML's library is missing)")
        found = f"{counted(on_bus, 'NVIDIA GPU')} {is_or_are(on_bus)}"
        return NoGpus(
            f"{found} on the PCI bus, but NVML's library is missing: install the driver, or"
            " start this container with its GPUs (--gpus all)",
            is_problem=True,
        )

    def visible_indices(
        self, uuids: Mapping[int, str], environ: Mapping[str, str]
    ) -> tuple[int, ...]:
        """Return the GPUs that CUDA sees; parts of a GPU (`MIG-…`) are skipped."""
        value = environ.get(self.info.visibility_variable)
        if value is None:
            return tuple(uuids)
        entries = (entry.strip() for entry in value.split(","))
        return listed_indices((e for e in entries if not e.startswith("MIG-")), uuids)


def _in_parts(index: int) -> str:
    return (
        "is in MIG mode, so a trial could get only a part of it: end MIG mode (nvidia-smi -i"
        f" {index} -mig 0), or hide this GPU from its Ray node with CUDA_VISIBLE_DEVICES"
    )


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _divided(value: Any, divisor: int) -> float | None:
    """Return a reading in our unit, of which `divisor` units of NVML's are one."""
    return None if value is None else float(value) / divisor


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _call(call: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of pynvml; turn any error into a `GpuError`."""
    name = call.__name__
    try:
        return call(*arguments)
    except pynvml.NVMLError as error:
        reason = f"NVML error {error.value}"
        with contextlib.suppress(Exception):  # a code that pynvml has no words for
            reason = str(error)
        raise _error_type(int(error.value))(name, reason) from error
    except pynvml.NVMLLibraryMismatchError as error:
        raise GpuError(name, "this driver is too old for it") from error
    except Exception as error:  # pynvml decodes what a broken driver wrote, for one
        raise GpuError(name, f"{type(error).__name__}: {error}") from error


def _error_type(code: int) -> type[GpuError]:
    """Return what an `nvmlReturn_t` means for the caller."""
    match code:
        case pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
            return GpuLibraryMissing
        case pynvml.NVML_ERROR_GPU_IS_LOST | pynvml.NVML_ERROR_RESET_REQUIRED:
            return GpuLost
    return GpuError
