"""The one file that uses NVML: facts of a GPU, read by typed calls.

Opening NVML, or a GPU, raises `NvmlError`. A reading never raises. It is None where the GPU does
not report it, and the reason is in the device's `errors`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

import pynvml

T = TypeVar("T")

_MIB = 2**20

_NO_LIBRARY = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
_NO_FUNCTION = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
_LOST = (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED)

REASONS = {
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
"""Reasons for lower clocks of a GPU, by bit. Names are as in NVIDIA's tools."""

THROTTLING = frozenset(REASONS.values()) - {
    "gpu_idle",
    "applications_clocks_setting",
    "display_clock_setting",
}
"""The reasons that slow down a busy GPU."""


class NvmlError(RuntimeError):
    """A failed call of NVML. `code` is its `nvmlReturn_t`; None where NVML gave no answer."""

    def __init__(self, call: str, code: int | None, reason: str) -> None:
        super().__init__(call, code, reason)
        self.call, self.code, self.reason = call, code, reason

    def __str__(self) -> str:
        return f"{self.call}: {self.reason}"

    @property
    def no_library(self) -> bool:
        """True where the machine has no NVML at all: no NVIDIA driver is installed."""
        return self.code == _NO_LIBRARY

    @property
    def lost(self) -> bool:
        """True where the GPU fell off the bus, or needs a reset."""
        return self.code in _LOST


@dataclass(frozen=True, slots=True)
class Memory:
    """A GPU's memory in MiB. An old driver counts its own part as used: `NvmlDevice.memory`."""

    total_mib: float
    used_mib: float


@dataclass(frozen=True, slots=True)
class PcieLink:
    """A GPU's link to its host: generation and lanes now (fewer at rest), and the most it can."""

    generation: int | None
    lanes: int | None
    max_generation: int | None
    max_lanes: int | None


class NvmlDevice:
    """One GPU. `errors` has the last error of each call, by the call's name."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.errors: dict[str, NvmlError] = {}

    @property
    def lost(self) -> bool:
        """True where a reading failed because the GPU fell off the bus."""
        return any(error.lost for error in self.errors.values())

    def name(self) -> str | None:
        """Return `NVIDIA H200`."""
        return self._read("nvmlDeviceGetName", str)

    def uuid(self) -> str | None:
        """Return `GPU-…`, the same in every process and after every start."""
        return self._read("nvmlDeviceGetUUID", str)

    def memory(self) -> Memory | None:
        """Return its memory, without the driver's own part where NVML can separate it."""
        split = self._read("nvmlDeviceGetMemoryInfo_v2", _memory)
        return split or self._read("nvmlDeviceGetMemoryInfo", _memory)

    def compute_capability(self) -> tuple[int, int] | None:
        """Return `(9, 0)`."""
        return self._read("nvmlDeviceGetCudaComputeCapability", lambda pair: (pair[0], pair[1]))

    def utilization_pct(self) -> float | None:
        """Return the share of the last sampling period (up to 1 s) in which a kernel ran."""
        return self._read("nvmlDeviceGetUtilizationRates", lambda rates: float(rates.gpu))

    def power_w(self) -> float | None:
        """Return the power draw: of the last instant, or the last second on an Ampere or later."""
        return self._read("nvmlDeviceGetPowerUsage", _thousandth)

    def power_limit_w(self) -> float | None:
        """Return the highest power draw that the limits allow."""
        return self._read("nvmlDeviceGetEnforcedPowerLimit", _thousandth)

    def energy_j(self) -> float | None:
        """Return the energy used since the driver was loaded; updated about every 100 ms."""
        return self._read("nvmlDeviceGetTotalEnergyConsumption", _thousandth)

    def temperature_c(self) -> float | None:
        """Return the temperature of its chip."""
        return self._read("nvmlDeviceGetTemperature", float, pynvml.NVML_TEMPERATURE_GPU)

    def sm_clock_mhz(self) -> float | None:
        """Return the clock of its multiprocessors, now."""
        return self._read("nvmlDeviceGetClockInfo", float, pynvml.NVML_CLOCK_SM)

    def memory_clock_mhz(self) -> float | None:
        """Return the clock of its memory, now."""
        return self._read("nvmlDeviceGetClockInfo", float, pynvml.NVML_CLOCK_MEM)

    def max_sm_clock_mhz(self) -> float | None:
        """Return the highest clock of its multiprocessors."""
        return self._read("nvmlDeviceGetMaxClockInfo", float, pynvml.NVML_CLOCK_SM)

    def max_memory_clock_mhz(self) -> float | None:
        """Return the highest clock of its memory."""
        return self._read("nvmlDeviceGetMaxClockInfo", float, pynvml.NVML_CLOCK_MEM)

    def clock_reasons(self) -> frozenset[str] | None:
        """Return the reasons for its clocks, of `REASONS`; `other` for those of newer drivers."""
        new = self._read("nvmlDeviceGetCurrentClocksEventReasons", _reasons)
        if new is not None:
            return new
        return self._read("nvmlDeviceGetCurrentClocksThrottleReasons", _reasons)

    def pcie_rx_mib_s(self) -> float | None:
        """Return the rate from the host over the next 20 ms: the call waits for them."""
        return self._read("nvmlDeviceGetPcieThroughput", _of_kib, pynvml.NVML_PCIE_UTIL_RX_BYTES)

    def pcie_tx_mib_s(self) -> float | None:
        """Return the rate to the host over the next 20 ms: the call waits for them."""
        return self._read("nvmlDeviceGetPcieThroughput", _of_kib, pynvml.NVML_PCIE_UTIL_TX_BYTES)

    def pcie_link(self) -> PcieLink:
        """Return its link to the host."""
        return PcieLink(
            self._read("nvmlDeviceGetCurrPcieLinkGeneration", int),
            self._read("nvmlDeviceGetCurrPcieLinkWidth", int),
            self._read("nvmlDeviceGetMaxPcieLinkGeneration", int),
            self._read("nvmlDeviceGetMaxPcieLinkWidth", int),
        )

    def compute_pids(self) -> frozenset[int] | None:
        """Return the ids of the processes that compute on it, as seen outside containers."""
        return self._read(
            "nvmlDeviceGetComputeRunningProcesses",
            lambda processes: frozenset(int(process.pid) for process in processes),
        )

    def ecc(self) -> bool | None:
        """Return whether its memory corrects errors; None where it cannot."""
        return self._read("nvmlDeviceGetEccMode", lambda modes: bool(modes[0]))

    def mig(self) -> bool | None:
        """Return whether it is split into parts; None where it cannot be."""
        return self._read("nvmlDeviceGetMigMode", lambda modes: bool(modes[0]))

    def _read(self, call: str, read: Callable[[Any], T], *arguments: Any) -> T | None:
        try:
            with _asking(call):
                function = getattr(pynvml, call, None)
                if call == "nvmlDeviceGetMemoryInfo_v2":  # one function, two calls
                    function, arguments = pynvml.nvmlDeviceGetMemoryInfo, (pynvml.nvmlMemory_v2,)
                if function is None:
                    raise NvmlError(call, _NO_FUNCTION, "pynvml is too old for it")
                value = read(function(self._handle, *arguments))
        except NvmlError as error:
            self.errors[call] = error
            return None
        self.errors.pop(call, None)
        return value


class Nvml:
    """NVML, opened. A context manager; threads may share it, and several may be open at once."""

    def __enter__(self) -> Nvml:
        """Open NVML.

        Raises:
            NvmlError: there is none, its driver is not loaded or of another version, ….
        """
        with _asking("nvmlInit"):
            pynvml.nvmlInit()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(NvmlError), _asking("nvmlShutdown"):
            pynvml.nvmlShutdown()

    def count(self) -> int:
        """Return the number of GPUs of the node.

        Raises:
            NvmlError: NVML does not report it.
        """
        with _asking("nvmlDeviceGetCount"):
            return int(pynvml.nvmlDeviceGetCount())

    def device(self, index: int) -> NvmlDevice:
        """Return the GPU of an index, in the order of the bus.

        Raises:
            NvmlError: there is none, or it fell off the bus.
        """
        with _asking("nvmlDeviceGetHandleByIndex"):
            return NvmlDevice(pynvml.nvmlDeviceGetHandleByIndex(index))

    def device_of(self, uuid: str) -> NvmlDevice:
        """Return the GPU of a UUID.

        Raises:
            NvmlError: there is none, or it fell off the bus.
        """
        with _asking("nvmlDeviceGetHandleByUUID"):
            return NvmlDevice(pynvml.nvmlDeviceGetHandleByUUID(uuid))

    def driver(self) -> str | None:
        """Return the driver's version, `580.95.05`; None where NVML does not report it."""
        with contextlib.suppress(NvmlError), _asking("nvmlSystemGetDriverVersion"):
            return str(pynvml.nvmlSystemGetDriverVersion())
        return None

    def cuda(self) -> str | None:
        """Return the newest CUDA of the driver, `13.0`; None where NVML does not report it."""
        with contextlib.suppress(NvmlError), _asking("nvmlSystemGetCudaDriverVersion_v2"):
            version = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
            return f"{version // 1000}.{version % 1000 // 10}"
        return None


@contextlib.contextmanager
def _asking(call: str) -> Iterator[None]:
    """Turn any error of a call into an `NvmlError`."""
    try:
        yield
    except NvmlError:
        raise
    except pynvml.NVMLError as error:
        raise NvmlError(call, int(error.value), _reason(error)) from error
    except pynvml.NVMLLibraryMismatchError as error:
        raise NvmlError(call, _NO_FUNCTION, "this driver is too old for it") from error
    except Exception as error:  # pynvml decodes what a broken driver wrote, for one
        raise NvmlError(call, None, f"{type(error).__name__}: {error}") from error


def _reason(error: Any) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  (a code that pynvml has no words for, asked of the library)
        return f"NVML error {error.value}"


def _memory(memory: Any) -> Memory:
    return Memory(memory.total / _MIB, memory.used / _MIB)


def _thousandth(number: Any) -> float:
    return float(number) / 1000


def _of_kib(number: Any) -> float:
    return float(number) / 1024


def _reasons(mask: Any) -> frozenset[str]:
    names = {name for bit, name in REASONS.items() if mask & bit}
    return frozenset(names | ({"other"} if int(mask) & ~sum(REASONS) else set()))
